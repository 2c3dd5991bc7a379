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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_page_is_its_bytes_and_zeros_whatever_stood_there() {
        let contexts = Contexts::new(1);
        let mut context = contexts.take_in_fault();
        for len in [4096, 10, 700, 0, 4096, 1] {
            context.set_page(&vec![len as u8 | 1; len]);
            assert_eq!(context.page_used, len);
            assert!(context.page[..len].iter().all(|&byte| byte == len as u8 | 1));
            assert!(context.page[len..].iter().all(|&byte| byte == 0), "{len}");
        }
    }

    #[test]
    fn each_is_given_to_one_fault_at_a_time() {
        for count in [1, 3, 64] {
            let contexts = Contexts::new(count);
            let mut taken: Vec<_> = (0..count).map(|_| contexts.take_in_fault()).collect();
            assert_eq!(contexts.free.load(Ordering::Relaxed), 0);
            taken.iter_mut().enumerate().for_each(|(n, context)| context.scratch[0] = n as u8);
            assert!(taken.iter().enumerate().all(|(n, context)| context.scratch[0] == n as u8));
            drop(taken);
            assert_eq!(contexts.free.load(Ordering::Relaxed).count_ones() as usize, count);
        }
    }

    #[test]
    fn there_are_one_to_sixty_four() {
        assert_eq!(Contexts::new(0).ram_bytes(), CONTEXT_BYTES);
        assert_eq!(Contexts::new(1000).ram_bytes(), 64 * CONTEXT_BYTES);
    }

    #[test]
    fn more_faults_than_contexts_wait_for_one_another() {
        let (contexts, inside) = (Contexts::new(2), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 1..=6u8 {
                let (contexts, inside) = (&contexts, &inside);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let mut context = contexts.take_in_fault();
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                        context.set_page(&[thread; 100]);
                        std::thread::yield_now();
                        assert!(context.page[..100].iter().all(|&byte| byte == thread));
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
    }
}
