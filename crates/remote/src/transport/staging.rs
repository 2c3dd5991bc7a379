//! Memory of this process that transfers read into and write from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aquifer_sys::errno::{Errno, Result};
use aquifer_sys::memory::{Advice, MappedRange, Protection, SharedMemory, advise};

/// A part of staging memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

/// Memory that outlives every endpoint that knows it. The link decides which thread may touch which part, by
/// the promise of [`Endpoint::post`](super::Endpoint::post).
#[derive(Debug)]
pub struct Staging {
    range: MappedRange,
    /// Where another process can map it too.
    shared: Option<SharedMemory>,
    is_given_out: AtomicBool,
}

impl Staging {
    /// Memory of `len` bytes.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(len: usize) -> Result<Arc<Staging>> {
        Ok(Staging::of(MappedRange::of_own_memory(len, true)?, None))
    }

    /// Memory of `len` bytes that can be given to another process.
    ///
    /// # Errors
    /// `ENOMEM`; `EMFILE` when there are too many descriptors.
    pub fn shareable(len: usize) -> Result<Arc<Staging>> {
        let shared = SharedMemory::of_fixed_len(len as u64)?;
        let range = shared.map(0, len, Protection::Write)?;
        Ok(Staging::of(range, Some(shared)))
    }

    fn of(range: MappedRange, shared: Option<SharedMemory>) -> Arc<Staging> {
        let staging = Staging { range, shared, is_given_out: AtomicBool::new(false) };
        // Touched here, so that no transfer has to wait for a page.
        staging.wipe();
        Arc::new(staging)
    }

    /// What another process is given; from then on it has this memory for ever. `None` if the memory is not of that kind.
    #[must_use]
    pub fn give_out(&self) -> Option<&SharedMemory> {
        let shared = self.shared.as_ref()?;
        self.is_given_out.store(true, Ordering::Relaxed);
        Some(shared)
    }

    /// Somebody may reach it from now on whose reach does not end when it is taken back.
    pub fn note_given_out(&self) {
        self.is_given_out.store(true, Ordering::Relaxed);
    }

    /// Takes its RAM from it, and makes all bytes zero. Its addresses stay, so that what still comes there is in nobody's way.
    pub fn empty(&self) {
        let (base, len) = (self.range.base(), self.range.len());
        // SAFETY: the range is mapped for as long as the value lives, no reference into it exists, and its bytes are needed by nobody.
        let emptied = unsafe {
            // Pages that are locked cannot be dropped.
            libc::munlock(base.cast(), len);
            advise(base, len, Advice::DontNeed)
        };
        if emptied.is_err() {
            self.wipe();
        }
    }

    /// Whether another process was given it, so that nobody else may ever have it.
    #[must_use]
    pub fn is_given_out(&self) -> bool {
        self.is_given_out.load(Ordering::Relaxed)
    }

    /// Makes all bytes zero. Nobody may be able to reach them from outside meanwhile; if somebody can, what they are means nothing anyway.
    pub fn wipe(&self) {
        // SAFETY: the range is mapped and writable for as long as the value lives, and no reference into it exists.
        unsafe { self.range.base().write_bytes(0, self.range.len()) };
    }

    /// Keeps it in RAM, so that no transfer waits for swap.
    ///
    /// # Errors
    /// `ENOMEM` or `EPERM` when the process may not lock that much; the memory is used all the same.
    pub fn lock(&self) -> Result<()> {
        // SAFETY: the range is mapped; locking changes nothing that a program sees.
        let locked = unsafe { libc::mlock(self.range.base().cast(), self.range.len()) };
        if locked == 0 {
            Ok(())
        } else {
            Err(Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM)))
        }
    }

    /// The first byte, for a provider that registers the memory.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.range.base()
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// The first byte of a part.
    ///
    /// # Panics
    /// The part is not within.
    #[must_use]
    pub fn start(&self, part: Part) -> *mut u8 {
        assert!(part.offset <= self.len() && part.len <= self.len() - part.offset, "{part:?} is not within");
        self.base().wrapping_add(part.offset)
    }

    /// Copies bytes into a part.
    ///
    /// # Safety
    /// The part is the caller's, and no transfer uses it.
    pub unsafe fn fill(&self, part: Part, bytes: &[u8]) {
        let to = self.start(Part { len: bytes.len(), ..part });
        // SAFETY: within the range, by `start`; nobody else's, by the caller's promise.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Copies bytes out of a part.
    ///
    /// # Safety
    /// As [`Staging::fill`].
    pub unsafe fn take(&self, part: Part, bytes: &mut [u8]) {
        let from = self.start(Part { len: bytes.len(), ..part });
        // SAFETY: as in `fill`.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            // A borrower may keep the memory mapped, but its pages go. Pages that it touches afterwards count
            // as its own.
            let _ = shared.punch(0, self.range.len() as u64);
        }
    }
}
