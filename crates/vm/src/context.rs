//! Memory that a fault needs, reserved at start.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_device::AlignedBuffer;
use aquifer_map::leaves::SCRATCH_BYTES;
use aquifer_sys::Backoff;

/// What one fault works with.
pub(crate) struct Context {
    /// The page that is handed to the kernel: the object's bytes, zeros behind.
    pub(crate) page: AlignedBuffer,
    /// How many bytes at the start of `page` may not be zero.
    pub(crate) page_used: usize,
    /// Records and leaves are read here.
    pub(crate) scratch: AlignedBuffer,
}

impl Context {
    fn new() -> Self {
        Self {
            page: AlignedBuffer::new(OS_PAGE_BYTES),
            page_used: 0,
            scratch: AlignedBuffer::new(SCRATCH_BYTES),
        }
    }

    /// Fills the page with `bytes` and zeros behind.
    pub(crate) fn set_page(&mut self, bytes: &[u8]) {
        self.page[..bytes.len()].copy_from_slice(bytes);
        if self.page_used > bytes.len() {
            self.page[bytes.len()..self.page_used].fill(0);
        }
        self.page_used = bytes.len();
    }
}

/// RAM of one context.
pub(crate) const CONTEXT_BYTES: usize = OS_PAGE_BYTES + SCRATCH_BYTES;

/// A fixed number of contexts. A fault that finds none waits for another fault to end; faults do not
/// nest, so that happens.
pub(crate) struct Contexts {
    contexts: Box<[UnsafeCell<Context>]>,
    /// Bit n is set while context n is free.
    free: AtomicU64,
}

// SAFETY: a context is used only by the thread that cleared its bit in `free`.
unsafe impl Sync for Contexts {}

impl Contexts {
    /// `count` contexts, at most 64.
    pub(crate) fn new(count: usize) -> Self {
        let count = count.clamp(1, 64);
        Self {
            contexts: (0..count).map(|_| UnsafeCell::new(Context::new())).collect(),
            free: AtomicU64::new(u64::MAX >> (64 - count)),
        }
    }

    /// RAM of all contexts.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.contexts.len() * CONTEXT_BYTES
    }

    /// Takes a context, waiting for one if all are in use.
    pub(crate) fn take_in_fault(&self) -> ContextGuard<'_> {
        let mut backoff = Backoff::new();
        loop {
            let free = self.free.load(Ordering::Relaxed);
            if free == 0 {
                backoff.wait();
                continue;
            }
            let index = free.trailing_zeros();
            let taken = free & !(1 << index);
            if self.free.compare_exchange_weak(free, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return ContextGuard { contexts: self, index };
            }
        }
    }
}

/// A context in use.
pub(crate) struct ContextGuard<'a> {
    contexts: &'a Contexts,
    index: u32,
}

impl std::ops::Deref for ContextGuard<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        // SAFETY: our bit in `free` is clear, so nobody else has this context.
        unsafe { &*self.contexts.contexts[self.index as usize].get() }
    }
}

impl std::ops::DerefMut for ContextGuard<'_> {
    fn deref_mut(&mut self) -> &mut Context {
        // SAFETY: as for `deref`, and the guard is borrowed uniquely.
        unsafe { &mut *self.contexts.contexts[self.index as usize].get() }
    }
}

impl Drop for ContextGuard<'_> {
    fn drop(&mut self) {
        self.contexts.free.fetch_or(1 << self.index, Ordering::Release);
    }
}
