//! By what the kernel tells that somebody has touched an absent or write-protected page, and how pages get to their addresses and are kept from being touched.

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_sys::memory::access;
use aquifer_sys::{Errno, Event, Features, Fence, Ready, Userfaultfd, process};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How faults reach an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrapKind {
    /// userfaultfd, as SIGBUS in the faulting thread.
    Signal,
    /// userfaultfd, which a thread reads.
    Thread,
    /// Inaccessible pages, as SIGSEGV in the faulting thread: slower, and there everywhere.
    Fence,
}

/// Of the mappings that the kernel gives a process, pages behind a fence take three quarters at most: each takes two, itself and what is
/// between it and the next.
const PART_OF_MAPPINGS: (usize, usize) = (3, 8);

/// Parts in which a region is registered at most: few programs map anything over it.
const REGISTRATIONS_MAX: u32 = 100_000;

/// The trap of one region.
pub(super) enum Trap {
    Uffd { uffd: Userfaultfd, by_signal: bool },
    Fence { fence: Fence, shown: AtomicUsize, most: usize },
}

impl Trap {
    /// # Errors
    /// The kernel's: `EPERM` where userfaultfd is forbidden, `ENOENT` or `EFAULT` where fences are not possible.
    pub(super) fn new(kind: TrapKind) -> Result<Self, Errno> {
        let wanted = Features::PAGEFAULT_FLAG_WP;
        Ok(match kind {
            TrapKind::Signal => {
                Self::Uffd { uffd: Userfaultfd::open(Features::SIGBUS | wanted)?, by_signal: true }
            }
            TrapKind::Thread => {
                let uffd = Userfaultfd::open_full(wanted).or_else(|_| Userfaultfd::open(wanted))?;
                Self::Uffd { uffd, by_signal: false }
            }
            TrapKind::Fence => {
                let (part, of) = PART_OF_MAPPINGS;
                let most = process::mappings_max() * part / of;
                Self::Fence { fence: Fence::open()?, shown: AtomicUsize::new(0), most }
            }
        })
    }

    /// From now on faults on absent pages of a range are ours.
    ///
    /// # Safety
    /// The range is ours, and outlives the trap; its faults are resolved from now on.
    pub(super) unsafe fn take(&self, start: *mut u8, len: usize) -> Result<(), Errno> {
        // SAFETY: passed on to the caller.
        unsafe {
            match self {
                Self::Uffd { uffd, .. } => uffd.register(start, len, true),
                Self::Fence { fence, .. } => fence.hide(start, len),
            }
        }
    }

    /// Fills an absent page with a copy of a page of bytes.
    ///
    /// # Safety
    /// The page is the caller's, in a range that was taken; there is a whole page at `bytes`.
    ///
    /// # Errors
    /// The kernel's; `EEXIST` if the page was there. It is as before.
    pub(super) unsafe fn fill(
        &self,
        page: *mut u8,
        bytes: *const u8,
        write_protect: bool,
    ) -> Result<(), Errno> {
        // SAFETY: passed on to the caller.
        unsafe {
            match self {
                Self::Uffd { uffd, .. } => uffd.copy(page, bytes, OS_PAGE_BYTES, write_protect),
                Self::Fence { fence, .. } => fence.copy(page, bytes, write_protect),
            }
        }
    }

    /// Absent pages read as zeros, and can be written.
    ///
    /// # Safety
    /// As [`Trap::fill`].
    pub(super) unsafe fn zero(&self, start: *mut u8, len: usize) -> Result<(), Errno> {
        // SAFETY: passed on to the caller.
        unsafe {
            match self {
                Self::Uffd { uffd, .. } => uffd.zero(start, len),
                Self::Fence { fence, .. } => fence.show(start, len, false),
            }
        }
    }

    /// Fills absent pages side by side with zeros of their own; how many are there, and why not more.
    ///
    /// # Safety
    /// As [`Trap::fill`], of each page; `zeros` are as long.
    pub(super) unsafe fn fill_zeros(
        &self,
        start: *mut u8,
        zeros: &[u8],
        write_protect: bool,
    ) -> (usize, Result<(), Errno>) {
        match self {
            Self::Uffd { uffd, .. } => {
                let (from, len) = (zeros.as_ptr(), zeros.len());
                // SAFETY: passed on to the caller.
                let (done, outcome) = unsafe { uffd.copy_as_far(start, from, len, write_protect) };
                (done / OS_PAGE_BYTES, outcome)
            }
            Self::Fence { fence, .. } => {
                for (n, zeros) in zeros.chunks(OS_PAGE_BYTES).enumerate() {
                    let page = start.wrapping_add(n * OS_PAGE_BYTES);
                    // SAFETY: passed on to the caller.
                    let copied = unsafe { fence.copy(page, zeros.as_ptr(), write_protect) };
                    if copied.is_err() {
                        return (n, copied);
                    }
                }
                (zeros.len() / OS_PAGE_BYTES, Ok(()))
            }
        }
    }

    /// Protects pages that are there against writing, or ends that.
    ///
    /// # Safety
    /// As [`Trap::fill`].
    pub(super) unsafe fn protect(&self, start: *mut u8, len: usize, on: bool) -> Result<(), Errno> {
        // SAFETY: passed on to the caller.
        unsafe {
            match self {
                Self::Uffd { uffd, .. } => uffd.write_protect(start, len, on),
                Self::Fence { fence, .. } => fence.show(start, len, on),
            }
        }
    }

    /// Pages that have bytes, and nobody's care yet, can be used.
    ///
    /// # Safety
    /// As [`Trap::fill`].
    pub(super) unsafe fn open(&self, start: *mut u8, len: usize) -> Result<(), Errno> {
        match self {
            Self::Uffd { .. } => Ok(()),
            // SAFETY: passed on to the caller.
            Self::Fence { fence, .. } => unsafe { fence.show(start, len, false) },
        }
    }

    /// Nobody uses pages any more that are about to be emptied.
    ///
    /// # Safety
    /// As [`Trap::fill`].
    pub(super) unsafe fn close(&self, start: *mut u8, len: usize) -> Result<(), Errno> {
        match self {
            Self::Uffd { .. } => Ok(()),
            // SAFETY: passed on to the caller.
            Self::Fence { fence, .. } => unsafe { fence.hide(start, len) },
        }
    }

    /// Nobody may touch pages that are absent.
    ///
    /// # Safety
    /// As [`Trap::fill`].
    pub(super) unsafe fn forbid(&self, start: *mut u8, len: usize) -> Result<(), Errno> {
        match self {
            // SAFETY: passed on to the caller.
            Self::Uffd { .. } => unsafe { access(start, len, libc::PROT_NONE) },
            Self::Fence { .. } => Ok(()),
        }
    }

    /// Ends [`Trap::forbid`].
    ///
    /// # Safety
    /// As [`Trap::fill`].
    pub(super) unsafe fn permit(&self, start: *mut u8, len: usize) -> Result<(), Errno> {
        match self {
            // SAFETY: passed on to the caller.
            Self::Uffd { .. } => unsafe { access(start, len, libc::PROT_READ | libc::PROT_WRITE) },
            Self::Fence { .. } => Ok(()),
        }
    }

    /// A page has appeared.
    #[inline]
    pub(super) fn count_in_fault(&self) {
        if let Self::Fence { shown, .. } = self {
            shown.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A page has left.
    #[inline]
    pub(super) fn uncount_in_fault(&self) {
        if let Self::Fence { shown, .. } = self {
            shown.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How many pages at their addresses are too many for the kernel's mappings.
    #[inline]
    pub(super) fn excess(&self) -> usize {
        match self {
            Self::Uffd { .. } => 0,
            Self::Fence { shown, most, .. } => shown.load(Ordering::Relaxed).saturating_sub(*most),
        }
    }

    /// A thread that sleeps in the kernel for a page that is there already must be told.
    pub(super) fn wake(&self, page: *mut u8) -> Result<(), Errno> {
        match self {
            Self::Uffd { uffd, by_signal: false } => uffd.wake(page, OS_PAGE_BYTES),
            _ => Ok(()),
        }
    }

    /// Waits for a fault that a thread reads, or for `stop`.
    pub(super) fn poll(&self, stop: i32) -> Result<Ready, Errno> {
        match self {
            Self::Uffd { uffd, .. } => uffd.poll(stop, -1),
            Self::Fence { .. } => Err(Errno::ENOSYS),
        }
    }

    /// The next fault that a thread reads.
    pub(super) fn next_event(&self) -> Result<Option<Event>, Errno> {
        match self {
            Self::Uffd { uffd, .. } => uffd.read_event(),
            Self::Fence { .. } => Ok(None),
        }
    }

    /// In a child: takes its copy of a range. False if the kernel does not allow it.
    pub(super) fn take_in_child(&self, start: *mut u8, len: usize) -> bool {
        match self {
            Self::Uffd { uffd, .. } => {
                let mut tries = REGISTRATIONS_MAX;
                uffd.renew_in_child(Features::SIGBUS | Features::PAGEFAULT_FLAG_WP).is_ok()
                    && register_in_child(uffd, start, len, &mut tries)
            }
            // The child has the parent's protection.
            Self::Fence { fence, .. } => fence.renew_in_child().is_ok(),
        }
    }
}

/// Registers a range, except for pages over which the program has mapped something else. False after too many tries.
fn register_in_child(uffd: &Userfaultfd, start: *mut u8, len: usize, tries: &mut u32) -> bool {
    if *tries == 0 {
        return false;
    }
    *tries -= 1;
    // SAFETY: the range is in the region, whose faults are resolved from here on.
    if unsafe { uffd.register(start, len, true) }.is_ok() || len <= OS_PAGE_BYTES {
        return true;
    }
    let half = len / OS_PAGE_BYTES / 2 * OS_PAGE_BYTES;
    register_in_child(uffd, start, half, tries)
        && register_in_child(uffd, start.wrapping_add(half), len - half, tries)
}
