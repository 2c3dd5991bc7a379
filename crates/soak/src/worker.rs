//! One thread and its operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use aquifer::{Error, ErrorCode, Heap};
use aquifer_base::limits::OS_PAGE_BYTES;

use crate::object::{Difference, Object, Scratch};
use crate::outcome::Counts;
use crate::sizes;
use aquifer_base::random::{Random, mix};

/// Objects that a thread uses more often than others, and those that all threads do.
const OWN_WINDOW: u64 = 512;
const COMMON_WINDOW: u64 = 256;
/// Operations after which the windows move on.
const WINDOW_OPERATIONS: u64 = 1 << 14;
/// Objects of one prefetch, at most.
const PREFETCH: u64 = 16;
/// Pins that a thread holds at a time.
const PINS: usize = 4;
/// Differences that are described; the others are only counted.
const DESCRIBED: usize = 20;

/// A place for an object, which all threads share.
pub type Slot = Mutex<Option<Object>>;

/// What all threads use.
pub struct Shared {
    pub heap: Heap,
    pub slots: Vec<Slot>,
    pub seed: u64,
    /// Operations done.
    pub done: Arc<AtomicU64>,
    pub differences: AtomicU64,
    pub described: Mutex<Vec<String>>,
}

impl Shared {
    /// Notes that heap and model differ.
    pub fn differ(&self, what: impl FnOnce() -> String) {
        self.differences.fetch_add(1, Ordering::Relaxed);
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        if described.len() < DESCRIBED {
            let line = what();
            eprintln!("difference: {line}");
            described.push(line);
        }
    }

    /// Waits for the object.
    pub fn lock(&self, slot: usize) -> MutexGuard<'_, Option<Object>> {
        self.slots[slot].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self, slot: usize) -> Option<MutexGuard<'_, Option<Object>>> {
        match self.slots[slot].try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A pinned page.
struct Pin {
    slot: usize,
    address: *mut u8,
    bytes: usize,
}

/// A thread's part of a run.
pub struct Worker<'a> {
    shared: &'a Shared,
    rng: Random,
    number: u64,
    operations: u64,
    scratch: Box<Scratch>,
    pins: Vec<Pin>,
    counts: Counts,
}

impl<'a> Worker<'a> {
    /// Thread `number` of a run.
    pub fn new(shared: &'a Shared, number: usize) -> Self {
        Self {
            shared,
            rng: Random::new(shared.seed ^ mix(number as u64)),
            number: number as u64,
            operations: 0,
            scratch: Box::new([0; OS_PAGE_BYTES]),
            pins: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Does `count` operations.
    pub fn work(&mut self, count: u64) {
        for _ in 0..count {
            self.operate();
            self.operations += 1;
            self.shared.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the pins that the thread holds.
    pub fn finish(mut self) -> Counts {
        while !self.pins.is_empty() {
            self.unpin();
        }
        self.counts
    }

    fn operate(&mut self) {
        let shared = self.shared;
        let (slot, mut guard) = loop {
            let slot = self.choose_slot();
            if let Some(guard) = shared.try_lock(slot) {
                break (slot, guard);
            }
        };
        let Some(object) = guard.as_mut() else {
            *guard = self.allocate();
            return;
        };
        match self.rng.below(100) {
            0..46 => self.read(slot, object),
            46..80 => self.write(object),
            80..85 => {
                drop(guard);
                self.prefetch();
            }
            85..90 => {
                self.pin(slot, object);
                drop(guard);
                if self.pins.len() >= PINS {
                    self.unpin();
                }
            }
            90..94 => self.reallocate(slot, object),
            _ => self.free(&mut guard),
        }
    }

    /// Slots that were used lately are chosen more often, so that some objects stay in RAM.
    fn choose_slot(&mut self) -> usize {
        let slots = self.shared.slots.len() as u64;
        let era = self.operations / WINDOW_OPERATIONS;
        let window = |owner: u64| mix(self.shared.seed ^ mix(owner ^ era << 8)) % slots;
        let (start, len) = match self.rng.below(100) {
            0..45 => (window(self.number + 1), OWN_WINDOW),
            45..75 => (window(0), COMMON_WINDOW),
            _ => (0, slots),
        };
        ((start + self.rng.below(len)) % slots) as usize
    }

    fn allocate(&mut self) -> Option<Object> {
        self.counts.allocated += 1;
        let request = sizes::request(&mut self.rng);
        let made = Object::new(&self.shared.heap, request, &mut self.rng);
        let mut object = self.accept(made, &[ErrorCode::NoMemory])?;
        // Some are read before they are written.
        if self.rng.below(4) > 0 {
            object.write(&mut self.rng, &mut self.scratch);
        }
        Some(object)
    }

    fn free(&mut self, guard: &mut Option<Object>) {
        let Some(object) = guard else { return };
        self.counts.freed += 1;
        let pinned = object.pins > 0;
        let result = self.shared.heap.free(object.address());
        if pinned && result.is_ok() {
            self.shared.differ(|| format!("{:p} was pinned and could be freed", object.address()));
        }
        let allowed: &[ErrorCode] = if pinned { &[ErrorCode::Pinned] } else { &[] };
        if self.accept(result, allowed).is_some() {
            *guard = None;
        }
    }

    fn reallocate(&mut self, slot: usize, object: &mut Object) {
        if object.is_array() {
            return self.read(slot, object);
        }
        self.counts.reallocated += 1;
        let bytes = sizes::bytes(&mut self.rng);
        let result = object.reallocate(&self.shared.heap, bytes);
        let allowed: &[ErrorCode] = match object.pins {
            0 => &[ErrorCode::NoMemory],
            _ => &[ErrorCode::NoMemory, ErrorCode::Pinned],
        };
        self.accept(result, allowed);
    }

    fn read(&mut self, slot: usize, object: &mut Object) {
        self.counts.read += 1;
        if let Err(difference) = object.read(&mut self.rng, &mut self.scratch) {
            self.report(slot, &difference);
        }
    }

    fn report(&self, slot: usize, difference: &Difference) {
        let operations = self.operations;
        self.shared
            .differ(|| format!("object {slot}, thread {} after {operations}: {difference}", self.number));
    }

    fn write(&mut self, object: &mut Object) {
        self.counts.written += 1;
        object.write(&mut self.rng, &mut self.scratch);
    }

    /// Prefetches some objects. They are locked meanwhile, so that nobody frees them.
    fn prefetch(&mut self) {
        self.counts.prefetched += 1;
        let shared = self.shared;
        let mut guards = Vec::new();
        for _ in 0..1 + self.rng.below(PREFETCH) {
            let slot = self.choose_slot();
            guards.extend(shared.try_lock(slot));
        }
        let addresses: Vec<*const u8> = guards
            .iter()
            .filter_map(|guard| guard.as_ref())
            .map(|object| object.address().cast_const())
            .collect();
        let result = shared.heap.prefetch(&addresses);
        self.accept(result, &[]);
    }

    /// Pins a page of the object, and writes to the object while it is.
    fn pin(&mut self, slot: usize, object: &mut Object) {
        self.counts.pinned += 1;
        let (address, bytes) = object.choose_page(&mut self.rng);
        let result = self.shared.heap.pin(address, bytes);
        if self.accept(result, &[ErrorCode::Pinned]).is_some() {
            object.pins += 1;
            self.pins.push(Pin { slot, address, bytes });
            object.write(&mut self.rng, &mut self.scratch);
        }
    }

    /// Ends one of this thread's pins, after a look at its object.
    fn unpin(&mut self) {
        let shared = self.shared;
        let Pin { slot, address, bytes } =
            self.pins.swap_remove(self.rng.below(self.pins.len() as u64) as usize);
        let mut guard = shared.lock(slot);
        let Some(object) = guard.as_mut() else {
            return shared.differ(|| format!("pinned object {slot} is gone"));
        };
        self.read(slot, object);
        object.pins -= 1;
        let result = shared.heap.unpin(address, bytes);
        self.accept(result, &[]);
    }

    /// The value, if there is one. Errors that are not `allowed` are differences.
    fn accept<T>(&mut self, result: Result<T, Error>, allowed: &[ErrorCode]) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(error) if allowed.contains(&error.code()) => self.counts.refused += 1,
            Err(error) => self.shared.differ(|| format!("thread {}: {error}", self.number)),
        }
        None
    }
}
