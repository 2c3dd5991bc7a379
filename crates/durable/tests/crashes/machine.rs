//! A machine with memories that survive its crashes, which all of them have at the same moment.
//!
//! What is stored is seen at once and is durable when its persist ends. A crash comes while some persists are under way: of each, any of
//! the aligned words of eight bytes may have landed. Lengths and pages that were given back are old or new until something is
//! persisted there. After the crash everything fails, until the machine is started again.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use aquifer_durable::persist::{Counts, Persist};
use aquifer_durable::{Error, Result};

use crate::hits::{Doing, Hits, Kind, doing};
use crate::landing::Landing;

const WORD_BYTES: u64 = 8;
const PAGE_BYTES: u64 = 4096;
/// How often those who wait for others give them time.
const YIELDS: u64 = 200;

pub fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed ^ mixed >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ mixed >> 32
}

fn crashed() -> Error {
    Error::Io { what: "persisting".into(), source: std::io::Error::other("the machine has crashed") }
}

/// Whether an error is that of a machine that has crashed.
pub fn is_crash(error: &Error) -> bool {
    error.to_string().contains("the machine has crashed")
}

/// When a crash comes, and what is left then.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    /// The operation that it comes in, counted from 1 on.
    pub at: u64,
    /// Only those of this kind are counted.
    pub of: Option<Kind>,
    /// Persists that should be under way.
    pub under_way: usize,
    /// What has landed.
    pub landing: Landing,
}

struct Memory {
    /// As many as the memory may have.
    bytes: Vec<u8>,
    len: u64,
    /// The least that its length can be after a crash, and what it was made since.
    settled_len: u64,
    lens: Vec<u64>,
    /// Pages that were given back, and what was there.
    punched: BTreeMap<u64, Vec<u8>>,
}

/// A persist that has begun and not ended.
struct UnderWay {
    ticket: u64,
    memory: usize,
    kind: Kind,
    /// What was there before.
    old: Vec<(u64, Vec<u8>)>,
}

struct State {
    memories: Vec<Memory>,
    crash: Option<Crash>,
    operations: u64,
    /// Operations of the kind that the crash comes in.
    counted: u64,
    /// The crash is about to come: nothing ends any more.
    is_falling: bool,
    has_crashed: bool,
    under_way: Vec<UnderWay>,
    /// Words of the persists that were under way in crashes.
    torn_words: u64,
    hits: Hits,
}

/// A machine.
pub struct Machine {
    state: Mutex<State>,
    has_crashed: Condvar,
    kind_of: fn(usize, u64, &[u8]) -> Kind,
    has_threads: bool,
}

impl Memory {
    fn new(capacity_bytes: u64) -> Self {
        let bytes = vec![0; capacity_bytes as usize];
        Self { bytes, len: 0, settled_len: 0, lens: Vec::new(), punched: BTreeMap::new() }
    }

    /// Stores bytes; returns what was there.
    fn store(&mut self, offset: u64, bytes: &[u8]) -> Vec<u8> {
        let end = offset + bytes.len() as u64;
        assert!(end <= self.len && offset.is_multiple_of(4), "{offset} to {end} of {}", self.len);
        if end > self.settled_len {
            self.settled_len =
                self.lens.iter().copied().find(|&len| len >= end).expect("it was made so long");
            self.lens.retain(|&len| len > self.settled_len);
        }
        if !self.punched.is_empty() {
            (offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).for_each(|page| _ = self.punched.remove(&page));
        }
        let place = &mut self.bytes[offset as usize..end as usize];
        let old = place.to_vec();
        place.copy_from_slice(bytes);
        old
    }

    /// Puts back the words of a range that did not land; returns how many words the range has.
    fn tear(&mut self, (offset, old): &(u64, Vec<u8>), first: u64, words: u64, landing: Landing) -> u64 {
        let end = offset + old.len() as u64;
        let range = offset / WORD_BYTES..end.div_ceil(WORD_BYTES);
        for word in range.clone() {
            if !landing.lands(first + word - range.start, words) {
                let (from, to) = ((word * WORD_BYTES).max(*offset), ((word + 1) * WORD_BYTES).min(end));
                let (from, to, at) = (from as usize, to as usize, *offset as usize);
                self.bytes[from..to].copy_from_slice(&old[from - at..to - at]);
            }
        }
        range.end - range.start
    }

    /// Makes what is not settled old or new.
    fn settle(&mut self, seed: u64) {
        let lens = self.lens.len() as u64;
        let chosen = mix(seed ^ 0x11) % (lens + 1);
        self.len = chosen.checked_sub(1).map_or(self.settled_len, |n| self.lens[n as usize]);
        self.settled_len = self.len;
        self.lens.clear();
        for (page, old) in std::mem::take(&mut self.punched) {
            if mix(seed ^ page << 8) & 1 == 0 {
                let at = (page * PAGE_BYTES) as usize;
                self.bytes[at..at + old.len()].copy_from_slice(&old);
            }
        }
    }
}

impl State {
    /// Whether the crash comes in the operation that begins.
    fn begin(&mut self, kind: Kind) -> Result<bool> {
        if self.has_crashed {
            return Err(crashed());
        }
        self.operations += 1;
        let is_counted = |crash: &Crash| crash.of.is_none_or(|of| of == kind);
        let crash = self.crash.filter(|crash| !self.is_falling && is_counted(crash));
        self.counted += u64::from(crash.is_some());
        let decides = crash.is_some_and(|crash| crash.at == self.counted);
        self.is_falling |= decides;
        if decides && doing() == Doing::Opening {
            self.hits.add(Kind::Opening);
        }
        Ok(decides)
    }

    fn fall(&mut self) {
        let landing = self.crash.map_or(Landing::Seed(self.operations), |crash| crash.landing);
        self.has_crashed = true;
        if !self.under_way.is_empty() {
            self.hits.add_at_once(self.under_way.len());
        }
        // Nobody else's words are in the way of a persist's, so the order is no matter.
        for (n, persist) in std::mem::take(&mut self.under_way).into_iter().enumerate() {
            self.hits.add(persist.kind);
            let words_of =
                |(offset, old): &(u64, Vec<u8>)| (offset + old.len() as u64).div_ceil(8) - offset / 8;
            let (words, mut first) = (persist.old.iter().map(words_of).sum(), 0);
            for range in persist.old.iter().rev() {
                let memory = &mut self.memories[persist.memory];
                first += memory.tear(range, first, words, landing.of(n as u64));
            }
            self.torn_words += words;
        }
        for (n, memory) in self.memories.iter_mut().enumerate() {
            memory.settle(landing.seed() ^ mix(n as u64));
        }
    }
}

impl Machine {
    /// A machine with empty memories of at most `capacities` bytes each. `kind_of` tells persists apart by
    /// memory, offset and bytes.
    pub fn new(capacities: &[u64], has_threads: bool, kind_of: fn(usize, u64, &[u8]) -> Kind) -> Arc<Self> {
        let state = State {
            memories: capacities.iter().map(|&bytes| Memory::new(bytes)).collect(),
            crash: None,
            operations: 0,
            counted: 0,
            is_falling: false,
            has_crashed: false,
            under_way: Vec::new(),
            torn_words: 0,
            hits: Hits::default(),
        };
        Arc::new(Self { state: Mutex::new(state), has_crashed: Condvar::new(), kind_of, has_threads })
    }

    /// One of its memories.
    pub fn memory(self: &Arc<Self>, number: usize) -> Box<dyn Persist> {
        Box::new(Handle { machine: Arc::clone(self), number, counts: Counts::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics")
    }

    /// Starts it again, after a crash or as if the power had gone just now.
    pub fn start(&self, crash: Option<Crash>) {
        let mut state = self.state();
        assert!(state.under_way.is_empty(), "nobody uses it");
        if !state.has_crashed {
            state.fall();
        }
        (state.crash, state.operations, state.counted) = (crash, 0, 0);
        (state.is_falling, state.has_crashed) = (false, false);
    }

    /// Whether it has crashed since it was started.
    pub fn is_down(&self) -> bool {
        self.state().has_crashed
    }

    /// Operations since it was started.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Words of the persists that were under way in its crashes.
    pub fn torn_words(&self) -> u64 {
        self.state().torn_words
    }

    /// What its crashes have hit.
    pub fn hits(&self) -> Hits {
        self.state().hits
    }

    /// A change that is done at once; a crash leaves it old or new.
    fn change(&self, kind: Kind, memory: usize, change: impl FnOnce(&mut Memory)) -> Result<()> {
        let mut state = self.state();
        let decides = state.begin(kind)?;
        change(&mut state.memories[memory]);
        if !decides {
            return Ok(());
        }
        state.hits.add(kind);
        state.fall();
        self.has_crashed.notify_all();
        Err(crashed())
    }

    fn persist(&self, memory: usize, ranges: &[(u64, &[u8])]) -> Result<()> {
        let Some(&(offset, bytes)) = ranges.first() else { return Ok(()) };
        let kind = (self.kind_of)(memory, offset, bytes);
        let mut state = self.state();
        let decides = state.begin(kind)?;
        let ticket = state.operations;
        let stored = &mut state.memories[memory];
        let old = ranges.iter().map(|&(offset, bytes)| (offset, stored.store(offset, bytes))).collect();
        state.under_way.push(UnderWay { ticket, memory, kind, old });
        if decides {
            self.gather(state).fall();
            self.has_crashed.notify_all();
            return Err(crashed());
        }
        if self.has_threads {
            state = self.linger(state, ticket);
        }
        state.under_way.retain(|persist| persist.ticket != ticket);
        if state.has_crashed { Err(crashed()) } else { Ok(()) }
    }

    /// Waits for other persists that should be under way in the crash, as long as there is hope.
    fn gather<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let wanted = state.crash.map_or(1, |crash| crash.under_way);
        for _ in 0..YIELDS {
            if state.under_way.len() >= wanted {
                break;
            }
            drop(state);
            std::thread::yield_now();
            state = self.state();
        }
        state
    }

    /// Gives others time to begin something, and does not end when the crash is about to come.
    fn linger<'a>(&'a self, state: MutexGuard<'a, State>, ticket: u64) -> MutexGuard<'a, State> {
        drop(state);
        (0..mix(ticket) % 3).for_each(|_| std::thread::yield_now());
        let mut state = self.state();
        while state.is_falling && !state.has_crashed {
            state = self.has_crashed.wait(state).expect("nobody panics");
        }
        state
    }
}

struct Handle {
    machine: Arc<Machine>,
    number: usize,
    counts: Counts,
}

impl Persist for Handle {
    fn len_bytes(&self) -> u64 {
        self.machine.state().memories[self.number].len
    }

    fn grow(&self, len_bytes: u64) -> Result<()> {
        if len_bytes <= self.len_bytes() {
            return Ok(());
        }
        self.machine.change(Kind::Grow, self.number, |memory| {
            assert!(len_bytes <= memory.bytes.len() as u64, "{len_bytes} bytes");
            memory.len = len_bytes;
            memory.lens.push(len_bytes);
        })
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.machine.persist(self.number, &[(offset, bytes)])
    }

    #[cfg(feature = "in-place")]
    fn persist_in_place(&self, ranges: &[(u64, &[u8])]) -> Result<()> {
        self.machine.persist(self.number, ranges)
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        let state = self.machine.state();
        let memory = &state.memories[self.number];
        let inside = memory.len.saturating_sub(offset).min(out.len() as u64) as usize;
        let (copied, beyond) = out.split_at_mut(inside);
        if inside > 0 {
            copied.copy_from_slice(&memory.bytes[offset as usize..offset as usize + inside]);
        }
        beyond.fill(0);
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.machine.change(Kind::Punch, self.number, |memory| {
            assert!(offset.is_multiple_of(PAGE_BYTES) && len_bytes.is_multiple_of(PAGE_BYTES));
            for page in offset / PAGE_BYTES..(offset + len_bytes) / PAGE_BYTES {
                let at = (page * PAGE_BYTES) as usize;
                let place = &mut memory.bytes[at..at + PAGE_BYTES as usize];
                // Of a page that was given back twice the oldest bytes may come again.
                memory.punched.entry(page).or_insert_with(|| place.to_vec());
                place.fill(0);
            }
        })
    }

    fn refill(&self, _offset: u64, _len_bytes: u64) -> Result<()> {
        self.machine.change(Kind::Refill, self.number, |_| {})
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }
}
