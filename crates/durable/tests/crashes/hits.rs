//! What crashes have hit: a kind that none has hit was not tested.

use std::cell::Cell;
use std::ops::AddAssign;

/// What was under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The first bytes of a file.
    Superblock,
    /// The header of a chunk that begins another life.
    Header,
    /// A transaction.
    Commit,
    /// A part of one that is larger than a chunk.
    Part,
    /// What the cleaner copies.
    Copy,
    /// The removal of a header.
    Removal,
    /// A part of a checkpoint.
    Checkpoint,
    /// The file becomes longer.
    Grow,
    /// A chunk's memory is given back.
    Punch,
    /// A chunk gets memory again.
    Refill,
    /// What was stored before is made durable.
    Sync,
    /// The floor, or the number of chunks.
    Value,
    /// The header of a journal.
    #[cfg(feature = "in-place")]
    JournalHeader,
    /// A record in a journal.
    #[cfg(feature = "in-place")]
    Record,
    /// Stores to the places of objects.
    #[cfg(feature = "in-place")]
    Homes,
    /// The end of a transaction in a journal.
    #[cfg(feature = "in-place")]
    Truncation,
    /// Opening the heap, whatever that was doing.
    Opening,
}

const KINDS: usize = Kind::Opening as usize + 1;
const AT_ONCE: usize = 8;

/// How often each was hit.
#[derive(Clone, Copy, Default, Debug)]
pub struct Hits {
    kinds: [u64; KINDS],
    at_once: [u64; AT_ONCE],
}

/// What a thread is doing, as the test knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Transactions,
    Opening,
    Cleaning,
}

thread_local! {
    static DOING: Cell<Doing> = const { Cell::new(Doing::Transactions) };
}

/// Runs something that has a name.
pub fn while_doing<T>(what: Doing, run: impl FnOnce() -> T) -> T {
    let before = DOING.replace(what);
    let outcome = run();
    DOING.set(before);
    outcome
}

/// What this thread is doing.
pub fn doing() -> Doing {
    if std::thread::current().name() == Some("aq-durable") { Doing::Cleaning } else { DOING.get() }
}

impl Hits {
    /// A crash hit this.
    pub fn add(&mut self, kind: Kind) {
        self.kinds[kind as usize] += 1;
    }

    /// Counts a crash that hit `persists` persists at once.
    pub fn add_at_once(&mut self, persists: usize) {
        self.at_once[persists.min(AT_ONCE - 1)] += 1;
    }

    /// How often a kind was hit.
    pub fn of(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize]
    }

    /// Crashes that hit `persists` persists or more at once.
    pub fn at_once(&self, persists: usize) -> u64 {
        self.at_once[persists..].iter().sum()
    }

    /// Fails if a kind was not hit.
    pub fn expect(&self, kinds: &[Kind]) {
        for &kind in kinds {
            assert!(self.of(kind) > 0, "no crash hit {kind:?}: {self:?}");
        }
    }
}

impl AddAssign for Hits {
    fn add_assign(&mut self, other: Self) {
        self.kinds.iter_mut().zip(other.kinds).for_each(|(sum, hits)| *sum += hits);
        self.at_once.iter_mut().zip(other.at_once).for_each(|(sum, hits)| *sum += hits);
    }
}
