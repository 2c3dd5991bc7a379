//! Memory that a system call needs to be there.
//!
//! A system call that is given an absent page of a heap fails with EFAULT, or has done half of its work before it does. So
//! the pages are brought in and pinned before the call.

use aquifer::CallBuffer;
use aquifer_sys::ErrnoGuard;

use crate::caught;
use crate::route::{is_managed_address, route};

const PAGE: usize = 4096;

/// Memory that stays in place until this is dropped. Nothing is done for memory of others.
pub struct Pin(Option<CallBuffer>);

impl Pin {
    /// Pins `bytes` from `address` as far as they are the heap's.
    pub fn new(address: usize, bytes: usize) -> Self {
        if bytes == 0 || !is_managed_address(address) {
            return Self(None);
        }
        Self::managed(address, bytes).unwrap_or(Self(None))
    }

    /// Whether there is something that stays in place.
    pub fn is_needed(&self) -> bool {
        self.0.is_some()
    }

    /// As [`Pin::new`], for a string that ends with a zero byte.
    ///
    /// # Safety
    /// `text` is NULL or a string that ends with a zero byte.
    pub unsafe fn string(text: *const libc::c_char) -> Self {
        if !is_managed_address(text as usize) {
            return Self(None);
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
        if bytes == 0 || !is_managed_address(address) {
            return Some(Self(None));
        }
        // The kernel says what it says of memory that may not be touched.
        let Some(route) = route().filter(|route| !route.heap.is_closed(address, bytes)) else {
            return Some(Self(None));
        };
        if route.heap.is_managed() {
            caught::begin_in_thread();
        }
        let _errno = ErrnoGuard::new();
        route.heap.begin_call(address, bytes).ok().map(|buffer| Self(Some(buffer)))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let (Some(buffer), Some(route)) = (self.0.take(), route()) {
            let _errno = ErrnoGuard::new();
            let _ = route.heap.end_call(buffer);
        }
    }
}

fn touch(address: usize, bytes: usize) {
    for page in (address & !(PAGE - 1)..address + bytes).step_by(PAGE) {
        // SAFETY: the caller of the system call hands this memory over for reading at least.
        unsafe { (page.max(address) as *const u8).read_volatile() };
    }
}
