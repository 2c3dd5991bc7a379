//! Numbers of a volume's errors.

use std::ffi::c_int;

use aquifer::ErrorCode;
use aquifer_volume::VolumeError;

use crate::message::fail_with;

/// Keeps the sentence of `error` for `aq_error_message` and returns its number.
pub(super) fn fail(error: &VolumeError) -> c_int {
    fail_with(code(error), &error.to_string())
}

/// As [`fail`], with the path in the sentence.
pub(super) fn fail_at(path: &[u8], error: &VolumeError) -> c_int {
    match error {
        // Its sentence has the path already.
        VolumeError::Open(_) => fail(error),
        _ => fail_with(code(error), &format!("{}: {error}", String::from_utf8_lossy(path))),
    }
}

fn code(error: &VolumeError) -> ErrorCode {
    match error {
        VolumeError::NotFound | VolumeError::NoXattr => ErrorCode::NotFound,
        VolumeError::Missing(_) => ErrorCode::FlashMissing,
        VolumeError::Exists => ErrorCode::Exists,
        VolumeError::NotAFolder => ErrorCode::NotAFolder,
        VolumeError::IsAFolder => ErrorCode::IsAFolder,
        VolumeError::NotEmpty => ErrorCode::NotEmpty,
        VolumeError::NameTooLong | VolumeError::BadName | VolumeError::XattrNameTooLong => ErrorCode::Name,
        VolumeError::PermissionDenied | VolumeError::NotOwner => ErrorCode::Permission,
        VolumeError::Invalid(_) | VolumeError::XattrNotSupported => ErrorCode::Invalid,
        VolumeError::TooLarge | VolumeError::XattrsTooLarge => ErrorCode::TooLarge,
        VolumeError::TooManyLinks | VolumeError::TooManySymlinks => ErrorCode::Links,
        VolumeError::NoSpace => ErrorCode::NoSpace,
        VolumeError::ReadOnly => ErrorCode::ReadOnly,
        VolumeError::NotAVolume(_) | VolumeError::OtherVersion { .. } => ErrorCode::Format,
        VolumeError::Damaged { .. } | VolumeError::Corrupt(_) => ErrorCode::Corrupt,
        VolumeError::Stopped(_) | VolumeError::Device(_) | VolumeError::Nand(_) => ErrorCode::Io,
        VolumeError::Open(error) => (&**error).into(),
        VolumeError::System { errno, .. } => system_code(*errno),
        VolumeError::Remote { errno, .. } => remote_code(*errno),
    }
}

/// The number for what the system refused.
fn system_code(errno: i32) -> ErrorCode {
    match errno {
        libc::ENOENT | libc::ENOTDIR => ErrorCode::FlashMissing,
        libc::EACCES | libc::EROFS => ErrorCode::FlashPermission,
        libc::ENOMEM | libc::ENOSPC => ErrorCode::NoMemory,
        // Of a userfaultfd, which files as memory need.
        libc::EPERM | libc::ENOSYS => ErrorCode::UffdForbidden,
        libc::EINVAL => ErrorCode::Kernel,
        libc::ENAMETOOLONG => ErrorCode::Name,
        // Of the process that has the volume.
        libc::EPIPE | libc::ECONNREFUSED => ErrorCode::Gone,
        libc::EPROTO | libc::EPROTOTYPE => ErrorCode::Format,
        _ => ErrorCode::Io,
    }
}

/// Translates an error number from the process that serves the volume, if it stands for no `VolumeError`.
fn remote_code(errno: i32) -> ErrorCode {
    match errno {
        libc::EINVAL => ErrorCode::Invalid,
        libc::EBADMSG => ErrorCode::Corrupt,
        libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::EUSERS | libc::EDQUOT => ErrorCode::NoMemory,
        _ => ErrorCode::Io,
    }
}
