//! The heaps in place: their journal and their homes crash at the same moment. What many stores with one wait leave behind is any
//! subset of their words.

use std::sync::Arc;

use aquifer_base::HomeAddress;
use aquifer_durable::in_place::{InPlaceHeap, Kind as Journal};
use aquifer_durable::{Access, Error, Result, Transactional};

use crate::hits::{Doing, Hits, Kind, while_doing};
use crate::landing::Landing;
use crate::machine::{Crash, Machine, is_crash, mix};
use crate::memory::Medium;
use crate::model::Subject;
use crate::program::{Program, Shape};

const JOURNAL_BYTES: u64 = 4096 + 64 * (64 << 10);
/// As many areas as there are sizes, and the first one.
const HOME_BYTES: u64 = 3 * ((16 << 20) + (512 << 10));
/// Nothing is there, in the first area.
const UNUSED: HomeAddress = HomeAddress(1 << 20);
const ROUNDS: u64 = 3;
const SHAPE: Shape = Shape { sizes: &[100, 5000], large: &[], objects_max: 30 };

fn kind_of(memory: usize, offset: u64, bytes: &[u8]) -> Kind {
    match (memory, offset) {
        (1, _) => Kind::Homes,
        (_, 0 | 8) => Kind::JournalHeader,
        _ if bytes == [0; 8] => Kind::Truncation,
        _ => Kind::Record,
    }
}

fn open(machine: &Arc<Machine>, journal: Journal) -> Result<InPlaceHeap> {
    while_doing(Doing::Opening, || InPlaceHeap::on(machine.memory(0), machine.memory(1), journal))
}

impl Subject for InPlaceHeap {
    /// What is freed is looked at before the transaction turns out to be larger than the journal.
    fn is_gone(&self, home: HomeAddress, _bytes: usize, _is_taken: &dyn Fn(HomeAddress) -> bool) -> bool {
        let outcome = self.transaction(|tx| {
            tx.free(home)?;
            tx.store(UNUSED, &[0; 70_000])
        });
        match outcome {
            Err(Error::NoObject(_)) => true,
            Err(Error::TooLarge { .. }) => false,
            other => panic!("{home:?}: {other:?}"),
        }
    }
}

fn go(machine: &Arc<Machine>, journal: Journal, program: &mut Program) -> Result<()> {
    let heap = open(machine, journal)?;
    (0..400).try_for_each(|_| {
        // Half of them in another session than usual, and so in another part of the journal.
        let _other = (program.below(2) == 0).then(|| heap.begin());
        program.step(&heap, &mut |_| Ok(()))
    })
}

/// A crash in one of the first operations of a kind.
fn any_crash(seed: u64) -> Crash {
    const KINDS: [Kind; 5] = [Kind::Record, Kind::Homes, Kind::Truncation, Kind::Grow, Kind::JournalHeader];
    let kind = KINDS[mix(seed ^ 2) as usize % KINDS.len()];
    let most = match kind {
        // Opening truncates all parts of the journal.
        Kind::Truncation => 64 + 20,
        Kind::Record | Kind::Homes if mix(seed ^ 3).is_multiple_of(2) => 300,
        _ => 4,
    };
    Crash {
        at: 1 + mix(seed) % most,
        of: Some(kind),
        under_way: 1,
        landing: Landing::Seed(mix(seed ^ 1)),
        is_kill: false,
    }
}

fn run(journal: Journal, seed: u64) -> Hits {
    let machine = Machine::new(Medium::Memory, &[JOURNAL_BYTES, HOME_BYTES], false, kind_of);
    let mut program = Program::new(seed, SHAPE);
    for round in 0..ROUNDS {
        let number = mix(seed << 8 | round << 1 | journal as u64);
        let crash = any_crash(number);
        let context =
            |error: &dyn std::fmt::Display| format!("{journal:?} {seed}, round {round}, {crash:?}: {error}");
        machine.start(Some(crash));
        if let Err(error) = go(&machine, journal, &mut program) {
            assert!(is_crash(&error), "{}", context(&error));
        }
        // A crash in recovery, which begins with what the journal has.
        machine.start(Some(Crash { at: 1 + number % 8, of: None, ..crash }));
        let again =
            open(&machine, journal).err().unwrap_or_else(|| panic!("{}", context(&"it did not crash again")));
        assert!(is_crash(&again), "{}", context(&again));
        machine.start(None);
        let heap = open(&machine, journal).unwrap_or_else(|error| panic!("{}", context(&error)));
        program.settle(&heap).unwrap_or_else(|error| panic!("{}", context(&error)));
    }
    machine.hits()
}

#[test]
fn in_heaps_in_place() {
    let mut hits = Hits::default();
    for seed in 0..crate::programs().div_ceil(8) {
        for journal in [Journal::Redo, Journal::Undo] {
            hits += run(journal, seed);
        }
    }
    println!("{hits:?}");
    hits.expect(&[
        Kind::JournalHeader,
        Kind::Record,
        Kind::Homes,
        Kind::Truncation,
        Kind::Grow,
        Kind::Opening,
    ]);
}
