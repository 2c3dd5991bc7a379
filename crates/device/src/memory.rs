//! A device that is heap memory, for tests and for tiers that need not survive.

use std::sync::{PoisonError, RwLock};

use crate::bounds::Bounds;
use crate::device::Device;
use crate::error::DeviceError;

/// One lock covers this many bytes.
const STRIPE_BYTES: usize = 1 << 20;

/// What a discarded range reads as. Neither the old bytes nor zeros, so that a test finds the code that
/// counts on either.
pub(crate) const DISCARDED: u8 = 0xDB;

/// A device in heap memory, zeros at first.
///
/// A transfer that crosses a stripe of 1 MiB is not atomic, as on a real device.
///
/// # Context
/// Takes a lock per stripe, so it must not be reached from a fault handler: a handler that interrupts a
/// transfer to the same stripe would wait for itself.
#[derive(Debug)]
pub struct MemoryDevice {
    bounds: Bounds,
    stripes: Box<[RwLock<Box<[u8]>>]>,
}

impl MemoryDevice {
    /// A device of `len_bytes` bytes in blocks of `block_bytes`.
    ///
    /// # Panics
    /// When `block_bytes` is neither 512 nor 4096, or `len_bytes` is not a positive multiple of it that fits
    /// this machine's addresses.
    #[must_use]
    pub fn new(len_bytes: u64, block_bytes: usize) -> Self {
        let bounds = Bounds::of_memory(len_bytes, block_bytes);
        let mut rest = usize::try_from(len_bytes).expect("the device fits this machine's addresses");
        let mut stripes = Vec::with_capacity(rest.div_ceil(STRIPE_BYTES));
        while rest > 0 {
            let stripe_bytes = rest.min(STRIPE_BYTES);
            stripes.push(RwLock::new(vec![0; stripe_bytes].into_boxed_slice()));
            rest -= stripe_bytes;
        }
        MemoryDevice { bounds, stripes: stripes.into() }
    }
}

/// The parts of a range that lie in one stripe each.
fn pieces(offset: u64, len_bytes: usize) -> impl Iterator<Item = Piece> {
    // A range inside the device fits `usize`, because the device does.
    let start = offset as usize;
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = (start + done) % STRIPE_BYTES;
        let len = (len_bytes - done).min(STRIPE_BYTES - at);
        let piece = Piece { stripe: (start + done) / STRIPE_BYTES, at, done, len };
        done += len;
        (len > 0).then_some(piece)
    })
}

/// `len` bytes from `at` in a stripe, and from `done` in the request.
struct Piece {
    stripe: usize,
    at: usize,
    done: usize,
    len: usize,
}

impl Device for MemoryDevice {
    fn len_bytes(&self) -> u64 {
        self.bounds.device_bytes
    }

    fn block_bytes(&self) -> usize {
        self.bounds.block_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.bounds.check_transfer(offset, buf)?;
        for Piece { stripe, at, done, len } in pieces(offset, buf.len()) {
            // A thread that panicked while it copied left old and new bytes, which is all a device promises.
            let bytes = self.stripes[stripe].read().unwrap_or_else(PoisonError::into_inner);
            buf[done..done + len].copy_from_slice(&bytes[at..at + len]);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.bounds.check_transfer(offset, buf)?;
        for Piece { stripe, at, done, len } in pieces(offset, buf.len()) {
            let mut bytes = self.stripes[stripe].write().unwrap_or_else(PoisonError::into_inner);
            bytes[at..at + len].copy_from_slice(&buf[done..done + len]);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.bounds.check_range(offset, len_bytes)?;
        for Piece { stripe, at, len, .. } in pieces(offset, len_bytes as usize) {
            let mut bytes = self.stripes[stripe].write().unwrap_or_else(PoisonError::into_inner);
            bytes[at..at + len].fill(DISCARDED);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::AlignedBuffer;

    #[test]
    fn a_discarded_range_is_neither_old_nor_zero() {
        let device = MemoryDevice::new(3 << 20, 512);
        device.discard(1 << 20, 512).unwrap();
        let mut buffer = AlignedBuffer::new(1024);
        device.read_at((1 << 20) - 512, &mut buffer).unwrap();
        assert!(buffer[..512].iter().all(|&byte| byte == 0));
        assert!(buffer[512..].iter().all(|&byte| byte == DISCARDED));
    }

    #[test]
    #[should_panic(expected = "512 or 4096")]
    fn refuses_odd_blocks() {
        let _ = MemoryDevice::new(4096, 1024);
    }

    #[test]
    #[should_panic(expected = "not a positive number of blocks")]
    fn refuses_parts_of_blocks() {
        let _ = MemoryDevice::new(4096 + 512, 4096);
    }
}
