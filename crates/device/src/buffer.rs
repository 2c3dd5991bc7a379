//! Memory that any device accepts.

use std::alloc::{self, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use aquifer_base::limits::OS_PAGE_BYTES;

/// Zeroed heap memory that starts on an OS page, as direct I/O wants it.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len_bytes: usize,
}

impl AlignedBuffer {
    /// `len_bytes` bytes of zeros.
    ///
    /// # Panics
    /// When the length does not fit an `isize`. Aborts when there is no memory, like every allocation.
    #[must_use]
    pub fn new(len_bytes: usize) -> Self {
        let layout = Self::layout(len_bytes);
        // SAFETY: `layout` never has size zero.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { alloc::handle_alloc_error(layout) };
        AlignedBuffer { start, len_bytes }
    }

    /// The layout of a buffer; an empty one takes a byte, so that it has an address of its own.
    fn layout(len_bytes: usize) -> Layout {
        Layout::from_size_align(len_bytes.max(1), OS_PAGE_BYTES).expect("a buffer is shorter than isize::MAX")
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this same layout, and only `drop` frees it.
        unsafe { alloc::dealloc(self.start.as_ptr(), Self::layout(self.len_bytes)) }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len_bytes` initialised bytes that this buffer owns until it is dropped.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len_bytes) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len_bytes) }
    }
}

// SAFETY: the buffer owns its memory alone, as a `Box<[u8]>` does, so it may move to another thread.
unsafe impl Send for AlignedBuffer {}
// SAFETY: a shared reference gives only shared access to the bytes.
unsafe impl Sync for AlignedBuffer {}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("len_bytes", &self.len_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zeroed_aligned_and_writable() {
        for len_bytes in [0, 1, 512, 4096, 12_345] {
            let mut buffer = AlignedBuffer::new(len_bytes);
            assert_eq!(buffer.len(), len_bytes);
            assert_eq!(buffer.as_ptr() as usize % OS_PAGE_BYTES, 0);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(0xA5);
            assert!(buffer.iter().all(|&byte| byte == 0xA5));
        }
    }
}
