//! Memory that a system call needs to be there.
//!
//! A system call that is given an absent page of a heap fails with EFAULT, or has done half of its work before it does. So
//! the pages are brought in and pinned before the call.

use aquifer_sys::ErrnoGuard;

use crate::route::{is_managed_address, route};

const PAGE: usize = 4096;

/// Memory that stays in place until this is dropped. Nothing is done for memory of others.
pub struct Pin {
    address: usize,
    /// 0 if nothing is pinned.
    bytes: usize,
}

impl Pin {
    /// Pins `bytes` from `address` as far as they are the heap's.
    pub fn new(address: usize, bytes: usize) -> Self {
        let none = Self { address, bytes: 0 };
        if bytes == 0 || !is_managed_address(address) {
            return none;
        }
        Self::managed(address, bytes).unwrap_or(none)
    }

    /// As [`Pin::new`], for a string that ends with a zero byte.
    ///
    /// # Safety
    /// `text` is NULL or such a string.
    pub unsafe fn string(text: *const libc::c_char) -> Self {
        if !is_managed_address(text as usize) {
            return Self { address: 0, bytes: 0 };
        }
        // SAFETY: the caller says so; absent pages fault in.
        Self::new(text as usize, unsafe { libc::strlen(text) } + 1)
    }

    #[cold]
    fn managed(address: usize, bytes: usize) -> Option<Self> {
        let heap = &route()?.heap;
        let _errno = ErrnoGuard::new();
        let (base, len) = heap.range();
        let bytes = bytes.min(base + len - address);
        // Pages that cannot be pinned, because too many are, are at least brought in.
        match Self::only(address, bytes) {
            Some(pin) => Some(pin),
            None => {
                touch(address, bytes);
                None
            }
        }
    }

    /// As [`Pin::new`]; `None` if the memory could not be pinned, because too much is.
    pub fn only(address: usize, bytes: usize) -> Option<Self> {
        let none = Some(Self { address, bytes: 0 });
        if bytes == 0 || !is_managed_address(address) {
            return none;
        }
        let Some(route) = route() else { return none };
        let _errno = ErrnoGuard::new();
        match route.heap.pin(address, bytes) {
            Ok(true) => Some(Self { address, bytes }),
            // Ordinary memory is always there.
            Ok(false) => none,
            Err(_) => None,
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let _errno = ErrnoGuard::new();
            if let Some(route) = route() {
                let _ = route.heap.unpin(self.address, self.bytes);
            }
        }
    }
}

fn touch(address: usize, bytes: usize) {
    for page in (address & !(PAGE - 1)..address + bytes).step_by(PAGE) {
        // SAFETY: the caller of the system call hands this memory over for reading at least.
        unsafe { (page.max(address) as *const u8).read_volatile() };
    }
}
