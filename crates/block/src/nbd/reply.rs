//! The reply to a request.

use aquifer_device::DeviceError;

use super::wire::SIMPLE_REPLY_MAGIC;

/// An error number of the protocol. They are Linux's, but few.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub u32);

impl Errno {
    /// Not allowed.
    pub const EPERM: Errno = Errno(1);
    /// The device failed.
    pub const EIO: Errno = Errno(5);
    /// No memory.
    pub const ENOMEM: Errno = Errno(12);
    /// The request makes no sense here.
    pub const EINVAL: Errno = Errno(22);
    /// No space.
    pub const ENOSPC: Errno = Errno(28);
    /// Too long.
    pub const EOVERFLOW: Errno = Errno(75);
    /// The server is ending.
    pub const ESHUTDOWN: Errno = Errno(108);
}

impl From<DeviceError> for Errno {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Full { .. } | DeviceError::WornOut { .. } => Errno::ENOSPC,
            DeviceError::OutOfRange { .. } | DeviceError::Misaligned { .. } => Errno::EINVAL,
            DeviceError::Io { errno: libc::EPERM, .. } => Errno::EPERM,
            DeviceError::Io { errno: libc::ENOMEM, .. } => Errno::ENOMEM,
            DeviceError::Io { errno: libc::ENOSPC, .. } => Errno::ENOSPC,
            // Other numbers are not of the protocol.
            DeviceError::Io { .. } | DeviceError::ShortTransfer { .. } => Errno::EIO,
        }
    }
}

/// Bytes before those of a read.
pub const REPLY_BYTES: usize = 16;

/// The beginning of a reply, or all of it.
pub fn simple(outcome: Result<(), Errno>, cookie: u64) -> [u8; REPLY_BYTES] {
    let number = outcome.err().map_or(0, |errno| errno.0);
    let mut bytes = [0; REPLY_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use aquifer_device::Operation;

    #[test]
    fn a_reply_has_magic_error_and_cookie() {
        let bytes = simple(Err(Errno::ENOSPC), 7);
        assert_eq!(bytes, [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(simple(Ok(()), 7)[4..8], [0; 4]);
    }

    #[test]
    fn errors_of_devices_have_numbers_of_the_protocol() {
        let io = |errno| DeviceError::Io { operation: Operation::Write, offset: 0, len_bytes: 512, errno };
        assert_eq!(Errno::from(io(libc::EIO)), Errno::EIO);
        assert_eq!(Errno::from(io(libc::EPERM)), Errno::EPERM);
        assert_eq!(Errno::from(io(libc::ENOMEM)), Errno::ENOMEM);
        assert_eq!(Errno::from(io(libc::EHOSTUNREACH)), Errno::EIO);
        assert_eq!(Errno::from(DeviceError::Full { offset: 0, len_bytes: 512 }), Errno::ENOSPC);
        let outside = DeviceError::OutOfRange { offset: 0, len_bytes: 1, device_bytes: 0 };
        assert_eq!(Errno::from(outside), Errno::EINVAL);
    }
}
