//! One request: taken apart, and checked against the export.

use super::export::Export;
use super::reply::Errno;
use super::wire::{REQUEST_MAGIC, command, command_flag, u16_at, u32_at, u64_at};

/// Longest transfer, bytes; the protocol's own default.
pub const TRANSFER_BYTES_MAX: u32 = 32 << 20;

/// What is asked of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Device to client.
    Read,
    /// Client to device: the bytes follow the request.
    Write,
    /// Make durable what was acknowledged.
    Flush,
    /// The range is no longer needed.
    Trim,
    /// The range reads as zeros from now on.
    WriteZeroes,
    /// The client leaves, and waits for no answer.
    Disconnect,
    /// Not known here; no bytes follow it.
    Unknown(u16),
}

/// A request of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What.
    pub command: Command,
    /// Its flags, those that nobody knows included.
    pub flags: u16,
    /// By which the client finds the reply.
    pub cookie: u64,
    /// First byte on the device.
    pub offset: u64,
    /// Bytes on the device.
    pub len_bytes: u32,
}

impl Request {
    /// Bytes of a request, without those that a write carries.
    pub const BYTES: usize = 28;

    /// Takes a request apart.
    ///
    /// # Errors
    /// The magic number, if it is not that of a request.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, u32> {
        let magic = u32_at(bytes, 0);
        if magic != REQUEST_MAGIC {
            return Err(magic);
        }
        let command = match u16_at(bytes, 6) {
            command::READ => Command::Read,
            command::WRITE => Command::Write,
            command::DISC => Command::Disconnect,
            command::FLUSH => Command::Flush,
            command::TRIM => Command::Trim,
            command::WRITE_ZEROES => Command::WriteZeroes,
            other => Command::Unknown(other),
        };
        Ok(Request {
            command,
            flags: u16_at(bytes, 4),
            cookie: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            len_bytes: u32_at(bytes, 24),
        })
    }

    /// Whether it is to be durable before it is answered.
    pub fn is_durable(&self) -> bool {
        self.flags & command_flag::FUA != 0
    }

    /// Whether the export allows it.
    ///
    /// # Errors
    /// What to answer; the connection goes on.
    pub fn check(&self, export: &Export) -> Result<(), Errno> {
        let flags_known = match self.command {
            Command::WriteZeroes => command_flag::FUA | command_flag::NO_HOLE,
            _ => command_flag::FUA,
        };
        if self.flags & !flags_known != 0 {
            return Err(Errno::EINVAL);
        }
        match self.command {
            Command::Read => self.check_range(export, Errno::EINVAL)?,
            Command::Write | Command::WriteZeroes => self.check_range(export, Errno::ENOSPC)?,
            Command::Trim => self.check_range(export, Errno::EINVAL)?,
            Command::Flush if self.offset != 0 || self.len_bytes != 0 => return Err(Errno::EINVAL),
            Command::Flush | Command::Disconnect => {}
            Command::Unknown(_) => return Err(Errno::EINVAL),
        }
        // Trims and zeros move no bytes, so their length costs no memory.
        let is_transfer = matches!(self.command, Command::Read | Command::Write);
        if is_transfer && self.len_bytes > TRANSFER_BYTES_MAX { Err(Errno::EOVERFLOW) } else { Ok(()) }
    }

    /// Whole blocks, and at least one, inside the export; `beyond` is what the protocol wants to hear of a range that is not inside.
    fn check_range(&self, export: &Export, beyond: Errno) -> Result<(), Errno> {
        let len = u64::from(self.len_bytes);
        let block = u64::from(export.block_bytes);
        if len == 0 || !self.offset.is_multiple_of(block) || !len.is_multiple_of(block) {
            return Err(Errno::EINVAL);
        }
        match self.offset.checked_add(len) {
            Some(end) if end <= export.size_bytes => Ok(()),
            _ => Err(beyond),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn export() -> Export {
        Export { name: String::new(), size_bytes: 64 << 20, block_bytes: 512 }
    }

    fn bytes(flags: u16, command: u16, offset: u64, len_bytes: u32) -> [u8; Request::BYTES] {
        let mut bytes = [0; Request::BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&command.to_be_bytes());
        bytes[8..16].copy_from_slice(&0x0123_4567_89ab_cdefu64.to_be_bytes());
        bytes[16..24].copy_from_slice(&offset.to_be_bytes());
        bytes[24..].copy_from_slice(&len_bytes.to_be_bytes());
        bytes
    }

    fn check(flags: u16, command: u16, offset: u64, len_bytes: u32) -> Result<(), Errno> {
        Request::parse(&bytes(flags, command, offset, len_bytes)).unwrap().check(&export())
    }

    #[test]
    fn fields_are_where_they_should_be() {
        let request = Request::parse(&bytes(1, command::WRITE, 4096, 512)).unwrap();
        let expected = Request {
            command: Command::Write,
            flags: 1,
            cookie: 0x0123_4567_89ab_cdef,
            offset: 4096,
            len_bytes: 512,
        };
        assert_eq!(request, expected);
        assert!(request.is_durable());
        assert_eq!(Request::parse(&[b'x'; Request::BYTES]), Err(0x7878_7878));
    }

    #[test]
    fn whole_blocks_inside_are_fine() {
        use command::{READ, TRIM, WRITE, WRITE_ZEROES};
        for command in [READ, WRITE, TRIM, WRITE_ZEROES] {
            assert_eq!(check(0, command, 0, 512), Ok(()));
            assert_eq!(check(1, command, (64 << 20) - 512, 512), Ok(()));
            assert_eq!(check(0, command, 0, 32 << 20), Ok(()));
        }
        assert_eq!(check(0, TRIM, 0, 64 << 20), Ok(()));
        assert_eq!(check(3, WRITE_ZEROES, 0, 64 << 20), Ok(()));
    }

    #[test]
    fn parts_of_blocks_and_nothing_are_invalid() {
        for command in [command::READ, command::WRITE, command::TRIM, command::WRITE_ZEROES] {
            for (offset, len) in [(1, 512), (0, 511), (256, 256), (0, 0)] {
                assert_eq!(check(0, command, offset, len), Err(Errno::EINVAL), "{command} {offset} {len}");
            }
        }
    }

    #[test]
    fn what_is_not_inside_has_its_own_error() {
        for offset in [64 << 20, (64 << 20) - 512, u64::MAX - 511] {
            for command in [command::READ, command::TRIM] {
                assert_eq!(check(0, command, offset, 1024), Err(Errno::EINVAL));
            }
            for command in [command::WRITE, command::WRITE_ZEROES] {
                assert_eq!(check(0, command, offset, 1024), Err(Errno::ENOSPC));
            }
        }
    }

    #[test]
    fn long_transfers_are_refused() {
        for command in [command::READ, command::WRITE] {
            assert_eq!(check(0, command, 0, (32 << 20) + 512), Err(Errno::EOVERFLOW));
        }
    }

    #[test]
    fn unknown_commands_and_flags_are_invalid() {
        assert_eq!(check(0, 5, 0, 512), Err(Errno::EINVAL));
        assert_eq!(check(0, 99, 0, 512), Err(Errno::EINVAL));
        assert_eq!(check(2, command::WRITE, 0, 512), Err(Errno::EINVAL));
        assert_eq!(check(16, command::WRITE_ZEROES, 0, 512), Err(Errno::EINVAL));
        assert_eq!(check(0, command::FLUSH, 0, 512), Err(Errno::EINVAL));
        assert_eq!(check(0, command::FLUSH, 0, 0), Ok(()));
    }

    proptest! {
        /// What passes lies inside the device, whole blocks of it, and is not too long.
        #[test]
        fn what_passes_can_be_done(mut bytes in prop::array::uniform28(any::<u8>()), is_marked in any::<bool>()) {
            if is_marked {
                bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
                bytes[4..6].fill(0);
                bytes[6] = 0;
                bytes[7] %= 8;
                // Near the device, or nothing ever passes.
                bytes[16..20].fill(0);
                bytes[20] %= 8;
                // Half of them are whole blocks.
                bytes[22] &= 0xfe;
                bytes[23] = 0;
                bytes[26] &= bytes[24] | 0xfe;
                bytes[27] &= bytes[24];
            }
            let Ok(request) = Request::parse(&bytes) else { return Ok(()) };
            // Of one that leaves no range is looked at.
            if request.command != Command::Disconnect && request.check(&export()).is_ok() {
                prop_assert!(request.offset + u64::from(request.len_bytes) <= 64 << 20);
                prop_assert!(request.offset % 512 == 0 && request.len_bytes % 512 == 0);
            }
        }
    }
}
