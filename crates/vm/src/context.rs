//! Memory that a fault needs, reserved at start.

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_device::AlignedBuffer;
use aquifer_map::leaves::SCRATCH_BYTES;

/// What one fault works with.
pub(crate) struct Context {
    /// The page that is handed to the kernel: the object's bytes, zeros behind.
    pub(crate) page: AlignedBuffer,
    /// How many bytes at the start of `page` may not be zero.
    page_used: usize,
    /// Records and leaves are read here.
    pub(crate) scratch: AlignedBuffer,
}

impl Context {
    pub(crate) fn new() -> Self {
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

/// Most pages of zeros side by side.
pub(crate) const ZERO_PAGES: usize = 16;

#[repr(align(4096))]
struct Zeros([u8; ZERO_PAGES * OS_PAGE_BYTES]);

/// Never written: the kernel has no memory for it.
static ZEROS: Zeros = Zeros([0; ZERO_PAGES * OS_PAGE_BYTES]);

/// A page of zeros.
pub(crate) fn zeros() -> &'static [u8; OS_PAGE_BYTES] {
    ZEROS.0.first_chunk().expect("there are several")
}

/// Up to [`ZERO_PAGES`] of them.
pub(crate) fn zero_pages(count: usize) -> &'static [u8] {
    &ZEROS.0[..count * OS_PAGE_BYTES]
}

/// Pipes of one heap, in which pages leave: as many batches can be under way at a time.
pub(crate) const SAVERS: usize = 4;
/// What is read from a pipe at once.
pub(crate) const SAVER_BYTES: usize = 4 * OS_PAGE_BYTES;
/// RAM of all of them.
pub(crate) const SAVERS_BYTES: usize = SAVERS * SAVER_BYTES;
/// RAM of one context.
pub(crate) const CONTEXT_BYTES: usize = OS_PAGE_BYTES + SCRATCH_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_bytes_and_zeros_whatever_stood_there() {
        let mut context = Context::new();
        for len in [4096, 10, 700, 0, 4096, 1] {
            context.set_page(&vec![len as u8 | 1; len]);
            assert_eq!(context.page_used, len);
            assert!(context.page[..len].iter().all(|&byte| byte == len as u8 | 1));
            assert!(context.page[len..].iter().all(|&byte| byte == 0), "{len}");
        }
    }
}
