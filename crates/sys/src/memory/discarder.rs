//! Giving many ranges back to the kernel at once.

use core::sync::atomic::{AtomicU8, Ordering};

use super::{Advice, Reservation, advise, page_size};
use crate::descriptors;
use crate::errno::{Errno, Result};

/// How ranges are discarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// One `process_madvise` per batch, on the process this descriptor names.
    Vectored(libc::c_int),
    /// One `madvise` per range.
    OneByOne,
}

/// Discards pages in batches: one call and one TLB shootdown for up to 1024 ranges where the
/// kernel allows `process_madvise(MADV_DONTNEED)` on the own process (6.13), else range by range.
///
/// **Fork.** On kernels without the "self" descriptor the discarder holds a pidfd, which names the
/// parent in a forked child; the kernel refuses the child's calls then. A child makes its own.
#[derive(Debug)]
pub struct Discarder {
    way: Way,
}

/// Ranges the kernel takes in one call.
const RANGES_MAX: usize = 1024;

/// `PIDFD_SELF_THREAD` of Linux 6.14: "the caller", without a descriptor. The name for the thread
/// group changed its number between releases, this one did not; the address space is the same.
const PIDFD_SELF_THREAD: libc::c_int = -10000;

impl Discarder {
    /// A discarder that uses the best way this kernel offers, found by trying it.
    ///
    /// # Context
    /// Maps a page and may open a descriptor; meant for the start of the program.
    pub fn new() -> Discarder {
        if can_discard(PIDFD_SELF_THREAD) {
            return Discarder { way: Way::Vectored(PIDFD_SELF_THREAD) };
        }
        match open_own_pidfd() {
            Ok(fd) if can_discard(fd) => Discarder { way: Way::Vectored(fd) },
            Ok(fd) => {
                descriptors::close(fd);
                Discarder::without_vector()
            }
            Err(_) => Discarder::without_vector(),
        }
    }

    /// A discarder that goes range by range on every kernel; lets tests run that path.
    pub const fn without_vector() -> Discarder {
        Discarder { way: Way::OneByOne }
    }

    /// Whether a batch is one call.
    pub fn is_vectored(&self) -> bool {
        matches!(self.way, Way::Vectored(_))
    }

    /// Frees the pages of all `ranges`; any number of them, of any length, empty ones too.
    ///
    /// # Safety
    /// The caller owns the ranges, they begin and end on OS-page boundaries, and their bytes are
    /// needed by nobody any more.
    ///
    /// # Errors
    /// That of the first range the kernel refuses. The ranges before it are discarded, and on the
    /// range-by-range path nothing after it is.
    pub unsafe fn discard(&self, ranges: &[libc::iovec]) -> Result<()> {
        match self.way {
            // SAFETY: the caller's conditions are those of the callee.
            Way::Vectored(fd) => unsafe { discard_vectored(fd, ranges) },
            // SAFETY: the same, for each range.
            Way::OneByOne => ranges.iter().try_for_each(|range| unsafe { discard_from(range, 0) }),
        }
    }
}

impl Default for Discarder {
    fn default() -> Self {
        Discarder::new()
    }
}

impl Drop for Discarder {
    fn drop(&mut self) {
        if let Way::Vectored(fd) = self.way
            && fd >= 0
        {
            descriptors::close(fd);
        }
    }
}

/// # Safety
/// As [`Discarder::discard`].
unsafe fn discard_vectored(fd: libc::c_int, ranges: &[libc::iovec]) -> Result<()> {
    let mut rest = ranges;
    while !rest.is_empty() {
        // SAFETY: the caller owns the ranges and gives their bytes up.
        let done = unsafe { process_madvise(fd, &rest[..rest.len().min(RANGES_MAX)]) }?;
        let (whole, cut_at) = whole_ranges(rest, done);
        rest = &rest[whole..];
        // A call that stopped inside a range, or in front of the first, goes on with that range
        // alone: every round makes progress.
        if let Some((first, after)) = rest.split_first()
            && (cut_at > 0 || whole == 0)
        {
            // SAFETY: what is left of a range of the caller.
            unsafe { discard_from(first, cut_at) }?;
            rest = after;
        }
    }
    Ok(())
}

/// How many whole ranges `bytes` cover, and how far they reach into the next.
fn whole_ranges(ranges: &[libc::iovec], mut bytes: usize) -> (usize, usize) {
    let mut whole = 0;
    while let Some(range) = ranges.get(whole)
        && range.iov_len <= bytes
    {
        bytes -= range.iov_len;
        whole += 1;
    }
    (whole, bytes)
}

/// # Safety
/// As [`Discarder::discard`], for the part of `range` that begins `skip` bytes into it.
unsafe fn discard_from(range: &libc::iovec, skip: usize) -> Result<()> {
    let start = range.iov_base.cast::<u8>().wrapping_add(skip);
    // SAFETY: the caller owns the range and gives its bytes up.
    unsafe { advise(start, range.iov_len - skip, Advice::DontNeed) }
}

/// One `process_madvise`; returns the bytes advised, which may be fewer than asked.
///
/// # Safety
/// As [`Discarder::discard`].
unsafe fn process_madvise(fd: libc::c_int, ranges: &[libc::iovec]) -> Result<usize> {
    loop {
        // SAFETY: the kernel reads `ranges`; the memory they name is the caller's to discard.
        let returned = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                fd,
                ranges.as_ptr(),
                ranges.len(),
                libc::MADV_DONTNEED,
                0u32,
            )
        };
        match Errno::check(returned) {
            Err(Errno::EINTR) => {}
            outcome => return outcome,
        }
    }
}

fn open_own_pidfd() -> Result<libc::c_int> {
    // SAFETY: plain numbers; pidfds are close-on-exec by themselves.
    let returned = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0u32) };
    Ok(descriptors::own(Errno::check(returned)? as libc::c_int))
}

/// Tries the call on a page of its own, and looks whether the page is gone.
fn can_discard(fd: libc::c_int) -> bool {
    let Ok(page) = Reservation::new(page_size(), page_size()) else { return false };
    let range = libc::iovec { iov_base: page.base().cast(), iov_len: page.len() };
    // SAFETY: the first byte of a mapped page that nobody else knows; the call is meant to change
    // it behind the compiler's back, hence an atomic.
    let byte = unsafe { AtomicU8::from_ptr(page.base()) };
    byte.store(1, Ordering::Relaxed);
    // SAFETY: the page belongs to this function.
    let outcome = unsafe { process_madvise(fd, &[range]) };
    outcome == Ok(page.len()) && byte.load(Ordering::Relaxed) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ended_well, in_child};

    const PAGES: usize = 3000;

    /// Every second page, so that no two ranges touch, and an empty range among them.
    fn odd_pages(memory: &Reservation) -> Vec<libc::iovec> {
        let page = page_size();
        let range = |at: usize, len| libc::iovec {
            iov_base: memory.base().wrapping_add(at * page).cast(),
            iov_len: len,
        };
        let mut ranges: Vec<_> = (1..PAGES).step_by(2).map(|at| range(at, page)).collect();
        ranges.insert(5, range(0, 0));
        ranges
    }

    fn discards_exactly_the_ranges(discarder: &Discarder) {
        let page = page_size();
        let memory = Reservation::new(PAGES * page, page).expect("reserve");
        // SAFETY: the test owns the reservation and looks at it through raw pointers only.
        unsafe {
            memory.base().write_bytes(9, memory.len());
            discarder.discard(&odd_pages(&memory)).expect("discard");
            for at in 0..PAGES {
                let expected = if at % 2 == 1 { 0 } else { 9 };
                assert_eq!(memory.base().add(at * page).read_volatile(), expected, "page {at}");
            }
        }
    }

    #[test]
    fn the_best_way_discards() {
        let discarder = Discarder::new();
        if !discarder.is_vectored() {
            eprintln!("skipped: vectored discard: this kernel refuses process_madvise(MADV_DONTNEED)");
        }
        discards_exactly_the_ranges(&discarder);
    }

    #[test]
    fn range_by_range_discards() {
        let discarder = Discarder::without_vector();
        assert!(!discarder.is_vectored());
        discards_exactly_the_ranges(&discarder);
    }

    #[test]
    fn a_pidfd_discards_like_the_self_descriptor() {
        let Ok(fd) = open_own_pidfd() else { return eprintln!("skipped: no pidfd_open") };
        let discarder = Discarder { way: Way::Vectored(fd) };
        if !can_discard(fd) {
            return eprintln!("skipped: this kernel refuses process_madvise(MADV_DONTNEED)");
        }
        discards_exactly_the_ranges(&discarder);
        let refused = in_child(|| i32::from(can_discard(fd)));
        assert!(ended_well(refused), "a child cannot discard the parent's pages");
    }

    #[test]
    fn a_bad_range_is_an_error_on_both_ways() {
        let memory = Reservation::new(4 * page_size(), page_size()).expect("reserve");
        let good = libc::iovec { iov_base: memory.base().cast(), iov_len: page_size() };
        let bad = libc::iovec { iov_base: memory.base().wrapping_add(1).cast(), iov_len: page_size() };
        for discarder in [Discarder::new(), Discarder::without_vector()] {
            // SAFETY: the good range is the test's, the bad one is refused.
            let outcome = unsafe {
                memory.base().write_bytes(3, 1);
                discarder.discard(&[good, bad])
            };
            assert_eq!(outcome, Err(Errno::EINVAL), "{discarder:?}");
            // SAFETY: the page is mapped and the test's.
            assert_eq!(unsafe { memory.base().read_volatile() }, 0, "the range before it is discarded");
        }
    }

    #[test]
    fn partial_progress_is_located() {
        let range = |len| libc::iovec { iov_base: core::ptr::null_mut(), iov_len: len };
        let ranges = [range(10), range(0), range(20)];
        assert_eq!(whole_ranges(&ranges, 0), (0, 0));
        assert_eq!(whole_ranges(&ranges, 4), (0, 4));
        assert_eq!(whole_ranges(&ranges, 10), (2, 0));
        assert_eq!(whole_ranges(&ranges, 15), (2, 5));
        assert_eq!(whole_ranges(&ranges, 30), (3, 0));
    }
}
