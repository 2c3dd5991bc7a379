//! One request, taken apart.

use super::abi::{Descriptor, SECTOR_BYTES, operation};

/// What is asked of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Device to buffer.
    Read,
    /// Buffer to device.
    Write,
    /// Make durable what was answered.
    Flush,
    /// The range is no longer needed.
    Discard,
    /// The range reads as zeros from now on.
    WriteZeroes,
    /// Not known here.
    Unknown,
}

/// A request of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What.
    pub operation: Operation,
    /// Whether it is to be durable before it is answered.
    pub is_durable: bool,
    /// First byte on the device.
    pub offset: u64,
    /// Bytes on the device.
    pub len_bytes: u64,
}

impl Request {
    /// Takes a descriptor apart. The kernel has seen to it that the range is inside the device, and of whole blocks; the device looks again.
    pub fn parse(descriptor: &Descriptor) -> Self {
        let operation = match descriptor.operation & 0xFF {
            operation::READ => Operation::Read,
            operation::WRITE => Operation::Write,
            operation::FLUSH => Operation::Flush,
            operation::DISCARD => Operation::Discard,
            operation::WRITE_ZEROES => Operation::WriteZeroes,
            _ => Operation::Unknown,
        };
        Request {
            operation,
            is_durable: descriptor.operation & operation::FLAG_FUA != 0,
            offset: descriptor.first_sector.saturating_mul(SECTOR_BYTES),
            len_bytes: u64::from(descriptor.sectors) * SECTOR_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_become_bytes() {
        let parse = |operation, first_sector, sectors| {
            Request::parse(&Descriptor { operation, sectors, first_sector, address: 0 })
        };
        let write = Request { operation: Operation::Write, is_durable: true, offset: 4096, len_bytes: 1024 };
        // Further flags mean nothing here: that it is swap, say.
        assert_eq!(parse(1 | 1 << 13 | 1 << 16, 8, 2), write);
        let zeroes = parse(5, 0, u32::MAX);
        assert_eq!((zeroes.operation, zeroes.is_durable), (Operation::WriteZeroes, false));
        assert_eq!(zeroes.len_bytes, (1 << 41) - 512);
        for (number, operation) in
            [(0, Operation::Read), (2, Operation::Flush), (3, Operation::Discard), (4, Operation::Unknown)]
        {
            assert_eq!(parse(number, 1, 1).operation, operation);
        }
        assert_eq!(parse(0, u64::MAX, 1).offset, u64::MAX);
    }
}
