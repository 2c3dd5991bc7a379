//! RAM for pages.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aquifer_sys::memory::{Discarder, Reservation};

use crate::error::{Result, VolumeError};
use crate::word::{PAGE_BYTES, PageBytes};

/// Free places that keep their RAM.
const WARM_MAX: usize = 256;

/// Places for pages. When many are free, their RAM goes back to the system, because what frees pages by the thousand is followed by what needs the RAM
/// elsewhere. An allocator would keep it.
pub struct PageRoom {
    memory: Reservation,
    free: Mutex<Free>,
    /// Places that are not free; looked at without the lock.
    used: AtomicUsize,
    discarder: Discarder,
}

#[derive(Default)]
struct Free {
    /// Places whose pages are in RAM.
    warm: Vec<u32>,
    /// Places whose pages are not.
    cold: Vec<u32>,
    /// From this place on, none was ever used.
    unused: u32,
}

/// A page in a [`PageRoom`]. Its address is a multiple of the page's size.
pub struct RoomPage {
    room: Arc<PageRoom>,
    place: u32,
}

impl PageRoom {
    /// Room for `count` pages, none of which takes RAM yet.
    ///
    /// # Errors
    /// There is no address space.
    pub fn new(count: usize) -> Result<Arc<Self>> {
        let memory = Reservation::new(count.max(1) * PAGE_BYTES, PAGE_BYTES)
            .map_err(|errno| VolumeError::System { step: "reserving room for pages", errno: errno.0 })?;
        let (free, used) = (Mutex::default(), AtomicUsize::new(0));
        Ok(Arc::new(PageRoom { memory, free, used, discarder: Discarder::new() }))
    }

    /// Pages that there can be.
    pub fn count(&self) -> usize {
        self.memory.len() / PAGE_BYTES
    }

    /// Pages that there are.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// A page of anything.
    ///
    /// # Errors
    /// All places are used.
    pub fn take(self: &Arc<Self>) -> Result<RoomPage> {
        let place = {
            let mut free = self.lock();
            free.warm.pop().or_else(|| free.cold.pop()).or_else(|| {
                let place = free.unused;
                ((place as usize) < self.count()).then(|| {
                    free.unused += 1;
                    place
                })
            })
        };
        let full = VolumeError::System { step: "keeping a page in RAM", errno: libc::ENOMEM };
        let place = place.ok_or(full)?;
        self.used.fetch_add(1, Ordering::Relaxed);
        Ok(RoomPage { room: Arc::clone(self), place })
    }

    /// A page of these bytes.
    ///
    /// # Errors
    /// As [`PageRoom::take`].
    pub fn copy_of(self: &Arc<Self>, bytes: &PageBytes) -> Result<RoomPage> {
        let mut page = self.take()?;
        page.copy_from_slice(bytes);
        Ok(page)
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, place: u32) -> *mut PageBytes {
        self.memory.base().wrapping_add(place as usize * PAGE_BYTES).cast()
    }

    fn give_back(&self, place: u32) {
        self.used.fetch_sub(1, Ordering::Relaxed);
        let mut cooling = {
            let mut free = self.lock();
            free.warm.push(place);
            if free.warm.len() <= WARM_MAX {
                return;
            }
            free.warm.split_off(WARM_MAX / 2)
        };
        cooling.sort_unstable();
        let range =
            |run: &[u32]| libc::iovec { iov_base: self.at(run[0]).cast(), iov_len: run.len() * PAGE_BYTES };
        let ranges: Vec<_> = cooling.chunk_by(|a, b| a + 1 == *b).map(range).collect();
        // RAM that the system does not take is used by the next pages.
        // SAFETY: the places are in the reservation, and nobody's: they are in no list.
        let _ = unsafe { self.discarder.discard(&ranges) };
        self.lock().cold.append(&mut cooling);
    }
}

impl RoomPage {
    /// Whether it is a page of `room`.
    pub fn is_in(&self, room: &Arc<PageRoom>) -> bool {
        Arc::ptr_eq(&self.room, room)
    }
}

impl Deref for RoomPage {
    type Target = PageBytes;

    fn deref(&self) -> &PageBytes {
        // SAFETY: the place is in the reservation, and this value's alone until it is dropped.
        unsafe { &*self.room.at(self.place) }
    }
}

impl DerefMut for RoomPage {
    fn deref_mut(&mut self) -> &mut PageBytes {
        // SAFETY: as above.
        unsafe { &mut *self.room.at(self.place) }
    }
}

impl Drop for RoomPage {
    fn drop(&mut self) {
        self.room.give_back(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_keep_their_bytes_and_places_are_used_again() {
        const COUNT: usize = 3 * WARM_MAX;
        let room = PageRoom::new(COUNT).expect("room");
        for round in 0..3u8 {
            let made: Vec<RoomPage> =
                (0..COUNT).map(|nth| room.copy_of(&[nth as u8 ^ round; PAGE_BYTES]).expect("room")).collect();
            assert_eq!(room.used(), COUNT);
            assert!(room.take().is_err());
            for (nth, page) in made.iter().enumerate() {
                assert!(page.iter().all(|&byte| byte == nth as u8 ^ round), "page {nth}");
            }
        }
        assert_eq!(room.used(), 0);
    }
}
