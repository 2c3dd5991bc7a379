//! One buffer of a transfer, where the kernel can use it.
//!
//! Its pages are pinned. If too many are, as when hundreds of threads wait for input, another buffer takes its place while the
//! call lasts.

use crate::span::Pin;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Into the program's memory.
    In,
    /// Out of it.
    Out,
}

/// A buffer of the program's, or what takes its place.
pub struct Place {
    _pin: Option<Pin>,
    substitute: Option<Vec<u8>>,
    address: usize,
    way: Way,
}

impl Place {
    /// A place for the `bytes` at `address`, which the program hands over for a transfer.
    pub fn new(way: Way, address: usize, bytes: usize) -> Self {
        let pin = Pin::only(address, bytes);
        let substitute = pin.is_none().then(|| {
            let mut substitute = vec![0; bytes];
            if way == Way::Out {
                // SAFETY: the program hands that many bytes over for reading; absent pages fault in.
                unsafe {
                    std::ptr::copy_nonoverlapping(address as *const u8, substitute.as_mut_ptr(), bytes)
                };
            }
            substitute
        });
        Self { _pin: pin, substitute, address, way }
    }

    /// Where the kernel finds it.
    pub fn address(&mut self) -> *mut u8 {
        match &mut self.substitute {
            Some(substitute) => substitute.as_mut_ptr(),
            None => self.address as *mut u8,
        }
    }

    /// The kernel has filled in the first `bytes`.
    pub fn arrived(&self, bytes: usize) {
        if let Some(substitute) = self.substitute.as_ref().filter(|_| self.way == Way::In) {
            let bytes = bytes.min(substitute.len());
            // SAFETY: the program hands that many bytes over for writing; absent pages fault in.
            unsafe { std::ptr::copy_nonoverlapping(substitute.as_ptr(), self.address as *mut u8, bytes) };
        }
    }
}
