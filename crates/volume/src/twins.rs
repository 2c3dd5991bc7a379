//! What pages were before they changed.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aquifer_sys::memory::{Discarder, Reservation};

use crate::error::{Result, VolumeError};
use crate::word::{PAGE_BYTES, PageBytes};

/// Free places that keep their RAM.
const WARM_MAX: usize = 256;
/// Fewest copies that may be made at once: enough to notice when they are of use again.
const ALLOWED_MIN: usize = 64;
/// One copy of so many must be of use.
const USEFUL_PART: usize = 4;

/// Room for copies of pages, which goes back to the system when many are forgotten: commits forget them by the thousand, and pages of files need
/// the RAM next. An allocator would keep it.
pub struct Twins {
    memory: Reservation,
    free: Mutex<Free>,
    /// Places that are not free; looked at without the lock, because every page that comes in is counted.
    used: AtomicUsize,
    discarder: Discarder,
}

struct Free {
    /// Places whose pages are in RAM.
    warm: Vec<u32>,
    cold: Vec<u32>,
    /// Most that are used at once.
    allowed: usize,
}

/// A copy of a page.
pub struct Twin {
    twins: Arc<Twins>,
    place: u32,
}

impl Twins {
    /// Room for `count` copies, none of which takes RAM yet.
    ///
    /// # Errors
    /// There is no address space.
    pub fn new(count: usize) -> Result<Arc<Self>> {
        let memory = Reservation::new(count.max(1) * PAGE_BYTES, PAGE_BYTES)
            .map_err(|errno| VolumeError::System { step: "reserving room for copies", errno: errno.0 })?;
        let cold = (0..count as u32).rev().collect();
        let free = Mutex::new(Free { warm: Vec::new(), cold, allowed: count });
        Ok(Arc::new(Twins { memory, free, used: AtomicUsize::new(0), discarder: Discarder::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// A copy whose bytes `fill` brings; `None` if there is no room.
    ///
    /// # Errors
    /// Those of `fill`.
    pub fn make(self: &Arc<Self>, fill: impl FnOnce(&mut PageBytes) -> Result<()>) -> Result<Option<Twin>> {
        let place = {
            let mut free = self.lock();
            if self.used() >= free.allowed {
                return Ok(None);
            }
            let Some(place) = free.warm.pop().or_else(|| free.cold.pop()) else { return Ok(None) };
            self.used.fetch_add(1, Ordering::Relaxed);
            place
        };
        let twin = Twin { twins: Arc::clone(self), place };
        // SAFETY: the place is in the reservation, and the twin's alone until it is dropped.
        fill(unsafe { &mut *self.at(place) })?;
        Ok(Some(twin))
    }

    /// Says how many copies a commit compared with their pages, and how many of these changed so little that the page need not be written whole.
    /// Where that is rare, as with arrays that are written from end to end, RAM is better spent on pages.
    pub fn note_use(&self, compared: usize, useful: usize) {
        let mut free = self.lock();
        let count = self.memory.len() / PAGE_BYTES;
        if useful * USEFUL_PART >= compared {
            free.allowed = free.allowed.saturating_mul(4).min(count);
        } else if compared >= ALLOWED_MIN / 2 {
            free.allowed = (free.allowed / 4).max(ALLOWED_MIN).min(count);
        }
    }

    fn at(&self, place: u32) -> *mut PageBytes {
        self.memory.base().wrapping_add(place as usize * PAGE_BYTES).cast()
    }

    fn give_back(&self, place: u32) {
        let mut cooling = {
            let mut free = self.lock();
            self.used.fetch_sub(1, Ordering::Relaxed);
            free.warm.push(place);
            if free.warm.len() <= WARM_MAX {
                return;
            }
            std::mem::take(&mut free.warm)
        };
        let range = |&place: &u32| libc::iovec { iov_base: self.at(place).cast(), iov_len: PAGE_BYTES };
        let ranges: Vec<_> = cooling.iter().map(range).collect();
        // RAM that the system does not take is used by the next copies.
        // SAFETY: the places are in the reservation, and nobody's: they are in no list.
        let _ = unsafe { self.discarder.discard(&ranges) };
        self.lock().cold.append(&mut cooling);
    }
}

impl Deref for Twin {
    type Target = PageBytes;

    fn deref(&self) -> &PageBytes {
        // SAFETY: the place is this twin's, and nobody writes to it once it is made.
        unsafe { &*self.twins.at(self.place) }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        self.twins.give_back(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_keep_their_bytes_and_places_are_used_again() {
        const COUNT: usize = 3 * WARM_MAX;
        let twins = Twins::new(COUNT).expect("room");
        for round in 0..3u8 {
            let made: Vec<Twin> = (0..COUNT)
                .map(|nth| {
                    let fill = |bytes: &mut PageBytes| {
                        bytes.fill(nth as u8 ^ round);
                        Ok(())
                    };
                    twins.make(fill).expect("made").expect("room")
                })
                .collect();
            assert_eq!(twins.used(), COUNT);
            assert!(twins.make(|_| Ok(())).expect("no error").is_none());
            for (nth, twin) in made.iter().enumerate() {
                assert!(twin.iter().all(|&byte| byte == nth as u8 ^ round), "copy {nth}");
            }
        }
        assert_eq!(twins.used(), 0);
        let failed = twins.make(|_| Err(VolumeError::NoSpace));
        assert!(failed.is_err());
        assert_eq!(twins.used(), 0, "the place of one that failed is free");
    }

    #[test]
    fn copies_that_are_of_no_use_become_few_until_they_are() {
        let count_now = |twins: &Arc<Twins>| {
            let made = || twins.make(|_| Ok(())).expect("made");
            std::iter::from_fn(made).collect::<Vec<_>>().len()
        };
        let twins = Twins::new(4000).expect("room");
        assert_eq!(count_now(&twins), 4000);
        twins.note_use(1000, 900);
        assert_eq!(count_now(&twins), 4000);
        for _ in 0..5 {
            twins.note_use(1000, 10);
        }
        assert_eq!(count_now(&twins), ALLOWED_MIN);
        for _ in 0..5 {
            twins.note_use(ALLOWED_MIN, ALLOWED_MIN / 2);
        }
        assert_eq!(count_now(&twins), 4000);
    }
}
