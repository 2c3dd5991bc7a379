//! A range of address space.

use core::ptr;

use super::{ANONYMOUS, page_size};
use crate::errno::{Errno, Result};

/// A private anonymous range, readable and writable, that reads as zeros and costs no RAM until it is
/// touched. Unmapped on drop, when no user of the memory may be left.
#[derive(Debug)]
pub struct Reservation {
    base: *mut u8,
    len: usize,
}

// SAFETY: the value is the ownership of a range of addresses; it has no thread of its own and
// gives out raw pointers only.
unsafe impl Send for Reservation {}
// SAFETY: as above; `&Reservation` can only read the two numbers.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `len` bytes, rounded up to whole OS pages, at a multiple of `align`.
    ///
    /// # Errors
    /// `EINVAL` if `len` is 0 or `align` is not a power of two; `ENOMEM` if the address space or
    /// the number of mappings is used up. Nothing is reserved then.
    pub fn new(len: usize, align: usize) -> Result<Reservation> {
        let page = page_size();
        if len == 0 || !align.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        let len = len.checked_next_multiple_of(page).ok_or(Errno::ENOMEM)?;
        // The kernel aligns to its pages only: map enough for an aligned range inside, then trim.
        let slack = align.max(page) - page;
        let total = len.checked_add(slack).ok_or(Errno::ENOMEM)?;
        let start = map_anywhere(total)?;
        let head = start.align_offset(align);
        let base = start.wrapping_add(head);
        // SAFETY: both ranges lie in the mapping made above, outside [base, base + len), and
        // nobody else knows them.
        unsafe {
            unmap(start, head);
            unmap(base.wrapping_add(len), slack - head);
        }
        Ok(Reservation { base, len })
    }

    /// The first byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// The length in bytes, a multiple of the OS page.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the reservation owns the range, and its users are gone (see the type).
        unsafe { unmap(self.base, self.len) };
    }
}

fn map_anywhere(len: usize) -> Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let anywhere = ptr::null_mut::<u8>();
    // SAFETY: the kernel chooses a free place, so no mapping in use is touched.
    let start = unsafe { libc::syscall(libc::SYS_mmap, anywhere, len, protection, ANONYMOUS, -1, 0) };
    Errno::check(start).map(ptr::with_exposed_provenance_mut)
}

/// # Safety
/// The range is mapped, belongs to the caller and is used by nobody.
unsafe fn unmap(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the caller's condition. Failure leaves addresses mapped, which costs no RAM.
        unsafe { libc::syscall(libc::SYS_munmap, start, len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alignment_is_kept() {
        for shift in [0, 3, 12, 13, 16, 21, 24, 30] {
            let memory = Reservation::new(3 * page_size() - 1, 1 << shift).expect("reserve");
            assert_eq!(memory.base() as usize % (1 << shift), 0, "shift {shift}");
            assert_eq!(memory.len(), 3 * page_size());
            // SAFETY: both bytes lie in the reservation.
            unsafe {
                assert_eq!(memory.base().read(), 0);
                memory.base().add(memory.len() - 1).write(1);
            }
        }
    }

    #[test]
    fn terabytes_cost_nothing_until_touched() {
        let memory = Reservation::new(1 << 40, 2 << 20).expect("reserve 1 TiB");
        assert_eq!(memory.len(), 1 << 40);
    }

    #[test]
    fn refuses_what_cannot_be() {
        assert_eq!(Reservation::new(0, 4096).unwrap_err(), Errno::EINVAL);
        assert_eq!(Reservation::new(4096, 3).unwrap_err(), Errno::EINVAL);
        assert_eq!(Reservation::new(usize::MAX, 4096).unwrap_err(), Errno::ENOMEM);
        assert_eq!(Reservation::new(usize::MAX / 2, 4096).unwrap_err(), Errno::ENOMEM);
    }
}
