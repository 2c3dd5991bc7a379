//! Which pages have bytes: in RAM, or in the kernel's swap.

use crate::descriptors;
use crate::errno::{Errno, Result};
use crate::memory::{Advice, advise, page_size};

const BITS_PRESENT: u64 = 1 << 63;
const BITS_SWAPPED: u64 = 1 << 62;
/// Entries of the page map that are read at once.
const ENTRIES: usize = 256;
/// One page, by `mincore`.
const IN_RAM: u8 = 1;

/// Tells which pages of this process have bytes.
///
/// `mincore` does not: of a page that the kernel has swapped it says the same as of one that was never touched.
pub struct Presence {
    /// The page map of this process; negative where there is none.
    page_map: i32,
}

impl Presence {
    /// Opens the page map. Without `/proc`, or a descriptor, pages are looked at one by one, which is slower.
    pub fn new() -> Self {
        let page_map = open_page_map();
        Self { page_map: if page_map < 0 { page_map } else { descriptors::own(page_map) } }
    }

    /// Whether pages can be looked at that may not be read.
    pub fn has_page_map(&self) -> bool {
        self.page_map >= 0
    }

    /// Makes this value, which a forked child inherited and which tells of its parent's pages, the child's own.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Context
    /// Signal-safe.
    pub fn renew_in_child(&self) -> Result<()> {
        if self.page_map < 0 {
            return Ok(());
        }
        let own = open_page_map();
        // SAFETY: both descriptors are ours. The system calls themselves: a program's own may be such that spare our descriptors.
        unsafe {
            let returned = libc::syscall(libc::SYS_dup3, own, self.page_map, libc::O_CLOEXEC);
            libc::syscall(libc::SYS_close, own);
            Errno::check(returned).map(drop)
        }
    }

    /// Without the page map.
    #[cfg(test)]
    fn slow() -> Self {
        Self { page_map: -1 }
    }

    /// Whether each page from `start` has bytes, as 1 or 0.
    ///
    /// # Safety
    /// The pages are mapped and readable. Without a page map those that are in swap are brought in; nothing else is
    /// touched.
    ///
    /// # Errors
    /// The kernel's.
    pub unsafe fn look(&self, start: *mut u8, pages: &mut [u8]) -> Result<()> {
        if self.page_map < 0 {
            // SAFETY: passed on to the caller.
            return unsafe { look_one_by_one(start, pages) };
        }
        let mut entries = [0u64; ENTRIES];
        let mut first = start.addr() / page_size();
        for part in pages.chunks_mut(ENTRIES) {
            let (offset, wanted) = ((first * 8) as i64, part.len() * 8);
            // SAFETY: reads into the array, which has room.
            let read = unsafe {
                libc::syscall(libc::SYS_pread64, self.page_map, entries.as_mut_ptr(), wanted, offset)
            };
            if Errno::check(read)? as usize != wanted {
                return Err(Errno::EFAULT);
            }
            for (page, entry) in part.iter_mut().zip(&entries) {
                *page = u8::from(entry & (BITS_PRESENT | BITS_SWAPPED) != 0);
            }
            first += part.len();
        }
        Ok(())
    }
}

fn open_page_map() -> i32 {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let path = c"/proc/self/pagemap".as_ptr();
    // SAFETY: a path that ends with a zero byte.
    unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags) as i32 }
}

impl Default for Presence {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if self.page_map >= 0 {
            descriptors::forget(self.page_map);
            // By the call itself: a program's own `close` may be one that asks us.
            // SAFETY: the descriptor is ours.
            unsafe { libc::syscall(libc::SYS_close, self.page_map) };
        }
    }
}

/// Whether each page from `start` is in RAM, as 1 or 0.
///
/// # Safety
/// The pages are mapped.
///
/// # Errors
/// The kernel's.
pub unsafe fn look_in_ram(start: *const u8, pages: &mut [u8]) -> Result<()> {
    let len = pages.len() * page_size();
    // SAFETY: the kernel writes one byte per page of the range.
    let looked = unsafe { libc::syscall(libc::SYS_mincore, start, len, pages.as_mut_ptr()) };
    Errno::check(looked)?;
    pages.iter_mut().for_each(|page| *page &= IN_RAM);
    Ok(())
}

/// Memory that a userfaultfd has is absent if it cannot be populated, and swapped if it can. Elsewhere absent pages are populated too,
/// with the zero page.
///
/// # Safety
/// As [`Presence::look`].
unsafe fn look_one_by_one(start: *mut u8, pages: &mut [u8]) -> Result<()> {
    let page_bytes = page_size();
    // SAFETY: passed on to the caller.
    unsafe { look_in_ram(start, pages)? };
    for (n, page) in pages.iter_mut().enumerate() {
        if *page == 0 {
            // SAFETY: the caller says that the page may be read.
            let populated = unsafe { advise(start.add(n * page_bytes), page_bytes, Advice::PopulateRead) };
            *page = match populated {
                Ok(()) => 1,
                Err(Errno::EFAULT) => 0,
                Err(errno) => return Err(errno),
            };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Features, Reservation, Userfaultfd};

    const PAGES: usize = 600;

    fn touched(page: usize) -> bool {
        page.is_multiple_of(3) || page > 550
    }

    fn check(presence: &Presence) {
        let bytes = page_size();
        let memory = Reservation::new(PAGES * bytes, bytes).expect("reserve");
        let Ok(uffd) = Userfaultfd::open(Features::SIGBUS) else {
            println!("SKIPPED presence: userfaultfd is refused here");
            return;
        };
        for page in (0..PAGES).filter(|&page| touched(page)) {
            // SAFETY: the test owns the reservation.
            unsafe { memory.base().add(page * bytes).write_volatile(1) };
        }
        let mut pages = [9; PAGES];
        // SAFETY: the test owns the reservation, whose faults nobody needs.
        unsafe {
            uffd.register(memory.base(), memory.len(), false).expect("register");
            presence.look(memory.base(), &mut pages).expect("look");
        }
        for (page, &has_bytes) in pages.iter().enumerate() {
            assert_eq!(has_bytes == 1, touched(page), "page {page}");
        }
    }

    #[test]
    fn touched_pages_are_told_from_others() {
        check(&Presence::new());
    }

    #[test]
    fn and_without_a_page_map() {
        check(&Presence::slow());
    }
}
