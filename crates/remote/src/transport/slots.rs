//! Parts of staging memory, and how far the transfer in each has come.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use aquifer_sys::futex;

use super::staging::Part;

/// A page, and a record of most kinds.
pub const SMALL_BYTES: usize = 4096;
/// What large transfers are cut into: from 128 KiB on a connection is as fast as it gets.
pub const LARGE_BYTES: usize = 128 << 10;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const FLYING: u32 = 2;
/// Under way, and somebody sleeps until it has ended or until it is their turn to poll.
const SLEPT_ON: u32 = 3;
const DONE: u32 = 4;
const FAILED: u32 = 5;

/// Which slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(pub u32);

/// How far a transfer has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Under way.
    Flying,
    /// The slot is the owner's again.
    Done,
    /// As [`Progress::Done`], but the bytes mean nothing.
    Failed,
}

/// All slots of a link: some for pages, some for long runs.
#[derive(Debug)]
pub struct Slots {
    states: Box<[AtomicU32]>,
    small: usize,
    /// Counts slots that came back, for those who wait for one.
    returned: AtomicU32,
    waiting: AtomicU32,
}

impl Slots {
    /// `small` small slots and `large` large ones, all free.
    pub fn new(small: usize, large: usize) -> Slots {
        let states = (0..small + large).map(|_| AtomicU32::new(FREE)).collect();
        Slots { states, small, returned: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    /// Bytes of staging memory that they are parts of.
    pub fn staging_bytes(&self) -> usize {
        self.small * SMALL_BYTES + (self.states.len() - self.small) * LARGE_BYTES
    }

    /// Where a slot's bytes are.
    pub fn part(&self, slot: Slot) -> Part {
        let nth = slot.0 as usize;
        match nth.checked_sub(self.small) {
            None => Part { offset: nth * SMALL_BYTES, len: SMALL_BYTES },
            Some(nth) => Part { offset: self.small * SMALL_BYTES + nth * LARGE_BYTES, len: LARGE_BYTES },
        }
    }

    /// Takes a free slot for `bytes` bytes.
    pub fn take(&self, bytes: usize) -> Option<Slot> {
        let range = if bytes <= SMALL_BYTES { 0..self.small } else { self.small..self.states.len() };
        range.map(|nth| Slot(nth as u32)).find(|slot| {
            let state = self.state(*slot);
            state.load(Ordering::Relaxed) == FREE
                && state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    /// Waits until a slot may have come back since `seen` was read.
    pub fn wait_for_return(&self, seen: u32, limit: Duration) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // Any outcome leads to another look.
        let _ = futex::wait(&self.returned, seen, Some(nanoseconds(limit)));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// To be read before a look at the slots, for [`Slots::wait_for_return`].
    pub fn returned(&self) -> u32 {
        self.returned.load(Ordering::SeqCst)
    }

    /// Gives a slot back of which no transfer is under way.
    pub fn give_back(&self, slot: Slot) {
        self.state(slot).store(FREE, Ordering::SeqCst);
        self.returned.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            futex::wake(&self.returned, 1);
        }
    }

    /// Its transfer is about to begin.
    pub fn launch(&self, slot: Slot) {
        self.state(slot).store(FLYING, Ordering::Release);
    }

    /// Its transfer has ended. What names no transfer that is under way is ignored.
    pub fn land(&self, slot: Slot, is_good: bool) {
        let Some(state) = self.states.get(slot.0 as usize) else { return };
        let end = if is_good { DONE } else { FAILED };
        let before = state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |now| {
            (now == FLYING || now == SLEPT_ON).then_some(end)
        });
        if before == Ok(SLEPT_ON) {
            futex::wake(state, 1);
        }
    }

    /// All that are under way have failed. Only when nothing can touch their memory any more.
    pub fn land_all(&self) {
        (0..self.states.len()).for_each(|nth| self.land(Slot(nth as u32), false));
    }

    /// How far it is.
    pub fn progress(&self, slot: Slot) -> Progress {
        match self.state(slot).load(Ordering::Acquire) {
            DONE => Progress::Done,
            FAILED => Progress::Failed,
            _ => Progress::Flying,
        }
    }

    /// Sleeps until its transfer has ended, or it is the sleeper's turn to poll, or for so long. `is_my_turn` is asked once those who leave off polling can
    /// see the sleeper.
    pub fn sleep_on(&self, slot: Slot, limit: Duration, is_my_turn: impl FnOnce() -> bool) {
        let state = self.state(slot);
        if state.compare_exchange(FLYING, SLEPT_ON, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        fence(Ordering::SeqCst);
        if !is_my_turn() {
            // Any outcome leads to another look.
            let _ = futex::wait(state, SLEPT_ON, Some(nanoseconds(limit)));
        }
        let _ = state.compare_exchange(SLEPT_ON, FLYING, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Wakes one who sleeps on a transfer: the caller has left off polling.
    pub fn wake_one(&self) {
        fence(Ordering::SeqCst);
        for state in &self.states {
            if state.load(Ordering::Relaxed) == SLEPT_ON
                && state.compare_exchange(SLEPT_ON, FLYING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                futex::wake(state, 1);
                return;
            }
        }
    }

    fn state(&self, slot: Slot) -> &AtomicU32 {
        &self.states[slot.0 as usize]
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
