//! Address space: reserving it, advising the kernel about it, giving its pages back.
//!
//! Ranges start and end on OS-page boundaries everywhere; the kernel answers `EINVAL` otherwise.

mod discarder;
mod page_pipe;
mod page_tables;
mod presence;
mod range;
mod reservation;
mod shared;

pub use discarder::Discarder;
pub use page_pipe::PagePipe;
pub use page_tables::{drops_page_tables, remap_fresh};
pub use presence::{Presence, look_in_ram};
pub use range::{MappedRange, read_all_if_present, read_if_present};
pub use reservation::Reservation;
pub use shared::{Protection, SharedMemory};

use crate::errno::{Errno, Result};

/// What [`advise`] can tell the kernel about a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Free the pages now; anonymous memory reads as zeros (or as absent, if registered with a
    /// userfaultfd) afterwards.
    DontNeed,
    /// Use huge pages where they fit. A kernel without huge pages answers `EINVAL`.
    HugePage,
    /// The pages are not used of late. Where the range is a part of a huge page, the kernel divides that.
    Cold,
    /// Never use huge pages here. A kernel without huge pages answers `EINVAL`.
    NoHugePage,
    /// Leave the range out of a forked child, where it is unmapped.
    DontFork,
    /// Copy the range to a forked child, as is usual.
    DoFork,
    /// Leave the range out of core dumps.
    DontDump,
    /// Copy the range to core dumps, as is usual.
    DoDump,
    /// Bring all pages in now, as reading them would.
    PopulateRead,
    /// Allocate all pages now, writable.
    PopulateWrite,
}

impl Advice {
    const fn number(self) -> libc::c_int {
        match self {
            Advice::DontNeed => libc::MADV_DONTNEED,
            Advice::HugePage => libc::MADV_HUGEPAGE,
            Advice::Cold => libc::MADV_COLD,
            Advice::NoHugePage => libc::MADV_NOHUGEPAGE,
            Advice::DontFork => libc::MADV_DONTFORK,
            Advice::DoFork => libc::MADV_DOFORK,
            Advice::DontDump => libc::MADV_DONTDUMP,
            Advice::DoDump => libc::MADV_DODUMP,
            Advice::PopulateRead => libc::MADV_POPULATE_READ,
            Advice::PopulateWrite => libc::MADV_POPULATE_WRITE,
        }
    }
}

/// Bytes of an OS page.
pub fn page_size() -> usize {
    // SAFETY: the call only reads a constant of the system.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Gives the kernel `advice` about a range.
///
/// # Safety
/// The caller owns the range, and for [`Advice::DontNeed`] its bytes are no longer needed by anyone.
///
/// # Errors
/// The kernel's; a part of the range may have been advised then.
///
/// # Context
/// Populating may block; signal-safe.
pub unsafe fn advise(ptr: *mut u8, len: usize, advice: Advice) -> Result<()> {
    loop {
        // SAFETY: the caller answers for the range; the call reads no memory of ours.
        // The system call itself: a program's own `madvise` may be one that asks us.
        let returned = unsafe { libc::syscall(libc::SYS_madvise, ptr, len, advice.number()) };
        match Errno::check(returned) {
            Err(Errno::EINTR) => {}
            outcome => return outcome.map(drop),
        }
    }
}

/// Lets the kernel use huge pages for the whole ones among `memory`, which random accesses need fewer TLB entries
/// for. Nothing happens where the kernel has none.
pub fn prefer_huge_pages<T>(memory: &[T]) {
    const HUGE_PAGE_BYTES: usize = 2 << 20;
    let start = memory.as_ptr().cast::<u8>().cast_mut();
    let skip = start.align_offset(HUGE_PAGE_BYTES).min(size_of_val(memory));
    let len = (size_of_val(memory) - skip) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if len > 0 {
        // SAFETY: the advice changes no bytes, and the range lies in memory that the caller has borrowed.
        let _ = unsafe { advise(start.wrapping_add(skip), len, Advice::HugePage) };
    }
}

/// Makes a range accessible for what `protection` says (`PROT_NONE`, `PROT_READ` ...).
///
/// # Safety
/// The caller owns the range, and nobody uses it in a way that is not allowed then.
///
/// # Errors
/// `ENOMEM` if the process has too many mappings.
///
/// # Context
/// Signal-safe.
pub unsafe fn access(start: *mut u8, len: usize, protection: libc::c_int) -> Result<()> {
    // SAFETY: passed on to the caller. The system call itself: a program's own `mprotect` may be one that asks us.
    let returned = unsafe { libc::syscall(libc::SYS_mprotect, start, len, protection) };
    Errno::check(returned).map(drop)
}

/// Replaces whatever is mapped in a range by memory that nobody may touch.
///
/// A forked child does this to managed ranges: it must never read zeros where its parent has data.
///
/// # Safety
/// The caller owns the range, and nothing in it is needed any more in this process.
///
/// # Errors
/// `ENOMEM` if the process has too many mappings; the range is as before then.
pub unsafe fn protect_none_fixed(ptr: *mut u8, len: usize) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { map_fixed(ptr, len, libc::PROT_NONE) }
}

/// Puts a fresh anonymous mapping in the place of a range.
///
/// # Safety
/// As [`protect_none_fixed`].
unsafe fn map_fixed(ptr: *mut u8, len: usize, protection: libc::c_int) -> Result<()> {
    let flags = ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the caller owns the range that is replaced.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, ptr, len, protection, flags, -1, 0) };
    Errno::check(mapped).map(drop)
}

/// Private memory that costs no RAM and no commit charge until it is touched.
const ANONYMOUS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{died_of, in_child};

    #[test]
    fn populated_then_discarded_memory_reads_as_zeros() {
        let len = 8 * page_size();
        let memory = Reservation::new(len, page_size()).expect("reserve");
        // SAFETY: the test owns the reservation.
        unsafe {
            advise(memory.base(), len, Advice::DontFork).expect("dontfork");
            advise(memory.base(), len, Advice::DontDump).expect("dontdump");
            advise(memory.base(), len, Advice::PopulateWrite).expect("populate");
            memory.base().write_bytes(7, len);
            advise(memory.base(), len, Advice::DontNeed).expect("dontneed");
            assert!(std::slice::from_raw_parts(memory.base(), len).iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn a_crooked_range_is_refused() {
        let memory = Reservation::new(page_size(), page_size()).expect("reserve");
        // SAFETY: the kernel refuses the range before it does anything.
        let outcome = unsafe { advise(memory.base().add(1), 10, Advice::DontNeed) };
        assert_eq!(outcome, Err(Errno::EINVAL));
    }

    #[test]
    fn a_protected_range_cannot_be_read() {
        let memory = Reservation::new(page_size(), page_size()).expect("reserve");
        let status = in_child(|| {
            // SAFETY: the range belongs to the test; reading it ends the child, which is the point.
            unsafe {
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                if protect_none_fixed(memory.base(), memory.len()).is_err() {
                    return 1;
                }
                i32::from(memory.base().read_volatile())
            }
        });
        assert!(died_of(status, libc::SIGSEGV), "{status:#x}");
    }
}
