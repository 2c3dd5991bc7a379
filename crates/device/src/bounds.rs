//! The checks that every device makes before it touches a byte.

use crate::error::DeviceError;

/// Size and grain of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Usable size; a multiple of `block_bytes`.
    pub(crate) device_bytes: u64,
    /// 512 or 4096.
    pub(crate) block_bytes: usize,
}

impl Bounds {
    /// Of a device in memory.
    ///
    /// # Panics
    /// When `block_bytes` is neither 512 nor 4096, or `device_bytes` is not a positive multiple of it.
    pub(crate) fn of_memory(device_bytes: u64, block_bytes: usize) -> Self {
        assert!(
            block_bytes == 512 || block_bytes == 4096,
            "a block has 512 or 4096 bytes, not {block_bytes}"
        );
        assert!(
            device_bytes > 0 && device_bytes.is_multiple_of(block_bytes as u64),
            "{device_bytes} bytes are not a positive number of blocks of {block_bytes}"
        );
        Bounds { device_bytes, block_bytes }
    }

    /// Whether `memory` may be moved to or from `offset`. Devices that could do with any memory check its
    /// address too, so that what works on one works on all.
    pub(crate) fn check_transfer(&self, offset: u64, memory: &[u8]) -> Result<(), DeviceError> {
        self.check_range(offset, memory.len() as u64)?;
        if memory.is_empty() || memory.as_ptr().addr().is_multiple_of(self.block_bytes) {
            return Ok(());
        }
        Err(self.misaligned(offset, memory.len() as u64))
    }

    /// Whether `len_bytes` bytes at `offset` are whole blocks inside the device.
    pub(crate) fn check_range(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let block_bytes = self.block_bytes as u64;
        if !offset.is_multiple_of(block_bytes) || !len_bytes.is_multiple_of(block_bytes) {
            return Err(self.misaligned(offset, len_bytes));
        }
        match offset.checked_add(len_bytes) {
            Some(end) if end <= self.device_bytes => Ok(()),
            _ => Err(DeviceError::OutOfRange { offset, len_bytes, device_bytes: self.device_bytes }),
        }
    }

    fn misaligned(&self, offset: u64, len_bytes: u64) -> DeviceError {
        DeviceError::Misaligned { offset, len_bytes, block_bytes: self.block_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::AlignedBuffer;

    const BOUNDS: Bounds = Bounds { device_bytes: 8192, block_bytes: 512 };

    #[test]
    fn accepts_whole_blocks_up_to_the_last() {
        let memory = AlignedBuffer::new(8192);
        assert_eq!(BOUNDS.check_transfer(0, &memory), Ok(()));
        assert_eq!(BOUNDS.check_transfer(7680, &memory[..512]), Ok(()));
        assert_eq!(BOUNDS.check_transfer(8192, &[]), Ok(()));
    }

    #[test]
    fn refuses_ends_beyond_the_device_and_beyond_64_bits() {
        let memory = AlignedBuffer::new(1024);
        for offset in [7680, 8192, u64::MAX - 511] {
            let error = BOUNDS.check_transfer(offset, &memory).unwrap_err();
            assert_eq!(error, DeviceError::OutOfRange { offset, len_bytes: 1024, device_bytes: 8192 });
        }
    }

    #[test]
    fn refuses_parts_of_blocks_and_unaligned_memory() {
        let memory = AlignedBuffer::new(2048);
        for (offset, memory) in [(1, &memory[..512]), (0, &memory[..511]), (0, &memory[8..520])] {
            assert!(matches!(BOUNDS.check_transfer(offset, memory), Err(DeviceError::Misaligned { .. })));
        }
    }
}
