//! A machine with memories that survive its crashes, which all of them have at the same moment.
//!
//! A crash comes while some persists are under way; of each, any units may have landed ([`crate::memory`]). Lengths and pages that were
//! given back are old or new until something is persisted there. After the crash everything fails, until the machine is started again.
//! If only the process ends, what was stored is seen by the next one, and as durable as before.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use aquifer_durable::persist::{Counts, Persist};
use aquifer_durable::{Error, Result};

use crate::hits::{Doing, Hits, Kind, doing};
use crate::landing::Landing;
use crate::memory::{Medium, Memory};

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
    /// Whether only the process ends.
    pub is_kill: bool,
}

/// A persist, a store or a sync that has begun and not ended.
struct UnderWay {
    ticket: u64,
    memory: usize,
    kind: Kind,
    ranges: Vec<(u64, u64)>,
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
        let is_kill = self.crash.is_some_and(|crash| crash.is_kill);
        self.has_crashed = true;
        if !self.under_way.is_empty() {
            self.hits.add_at_once(self.under_way.len());
        }
        // Nobody else's words are in the way of a persist's, so the order is no matter.
        for (n, UnderWay { memory, kind, ranges, .. }) in
            std::mem::take(&mut self.under_way).into_iter().enumerate()
        {
            self.hits.add(kind);
            self.torn_words += self.memories[memory].tear(&ranges, landing.of(n as u64), is_kill);
        }
        if is_kill {
            return;
        }
        for (n, memory) in self.memories.iter_mut().enumerate() {
            memory.settle(Landing::Seed(landing.seed() ^ mix(n as u64)));
        }
    }
}

impl Machine {
    /// A machine with empty memories of at most `capacities` bytes each. `kind_of` tells persists apart by
    /// memory, offset and bytes.
    pub fn new(
        medium: Medium,
        capacities: &[u64],
        has_threads: bool,
        kind_of: fn(usize, u64, &[u8]) -> Kind,
    ) -> Arc<Self> {
        let memories = capacities.iter().map(|&bytes| Memory::new(medium, bytes)).collect();
        Self::with(memories, has_threads, kind_of)
    }

    /// A machine with these memories.
    pub fn with(
        memories: Vec<Memory>,
        has_threads: bool,
        kind_of: fn(usize, u64, &[u8]) -> Kind,
    ) -> Arc<Self> {
        let state = State {
            memories,
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

    /// Looks at one of its memories, or changes it.
    pub fn with_memory<T>(&self, number: usize, look: impl FnOnce(&mut Memory) -> T) -> T {
        look(&mut self.state().memories[number])
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

    /// Stores ranges, and makes them durable if they are persisted.
    fn write(&self, memory: usize, ranges: &[(u64, &[u8])], is_persisted: bool) -> Result<()> {
        let Some(&(offset, bytes)) = ranges.first() else { return Ok(()) };
        let kind = (self.kind_of)(memory, offset, bytes);
        let mut state = self.state();
        let decides = state.begin(kind)?;
        ranges.iter().for_each(|&(offset, bytes)| state.memories[memory].store(offset, bytes));
        if !is_persisted && !decides {
            return Ok(());
        }
        let ranges = ranges.iter().map(|&(offset, bytes)| (offset, bytes.len() as u64)).collect();
        let ticket = state.operations;
        self.end(state, UnderWay { ticket, memory, kind, ranges }, decides)
    }

    fn sync(&self, memory: usize, ranges: &[(u64, u64)]) -> Result<()> {
        let mut state = self.state();
        let decides = state.begin(Kind::Sync)?;
        let ticket = state.operations;
        self.end(state, UnderWay { ticket, memory, kind: Kind::Sync, ranges: ranges.to_vec() }, decides)
    }

    /// Makes durable what is under way, unless a crash comes before that.
    fn end<'a>(&'a self, mut state: MutexGuard<'a, State>, under_way: UnderWay, decides: bool) -> Result<()> {
        let ticket = under_way.ticket;
        state.under_way.push(under_way);
        if decides {
            self.gather(state).fall();
            self.has_crashed.notify_all();
            return Err(crashed());
        }
        if self.has_threads {
            state = self.linger(state, ticket);
        }
        if state.has_crashed {
            return Err(crashed());
        }
        let place = state.under_way.iter().position(|other| other.ticket == ticket).expect("it was added");
        let UnderWay { memory, kind, ranges, .. } = state.under_way.swap_remove(place);
        ranges.iter().for_each(|&(offset, len)| state.memories[memory].sync(kind, offset, len));
        Ok(())
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
        self.machine.change(Kind::Grow, self.number, |memory| memory.grow(len_bytes))
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.machine.write(self.number, &[(offset, bytes)], true)
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.machine.write(self.number, &[(offset, bytes)], false)
    }

    fn sync(&self, ranges: &[(u64, u64)]) -> Result<()> {
        self.machine.sync(self.number, ranges)
    }

    /// Where all is durable it is no operation.
    fn settle(&self, ranges: &[(u64, u64)]) -> Result<()> {
        let is_durable = self.machine.state().memories[self.number].is_durable();
        if is_durable { Ok(()) } else { self.sync(ranges) }
    }

    #[cfg(feature = "in-place")]
    fn persist_in_place(&self, ranges: &[(u64, &[u8])]) -> Result<()> {
        self.machine.write(self.number, ranges, true)
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
        self.machine.change(Kind::Punch, self.number, |memory| memory.punch(offset, len_bytes))
    }

    fn refill(&self, _offset: u64, _len_bytes: u64) -> Result<()> {
        self.machine.change(Kind::Refill, self.number, |_| {})
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }
}
