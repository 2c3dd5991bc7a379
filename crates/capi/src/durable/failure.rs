//! Numbers of a durable heap's errors.

use std::ffi::c_int;
use std::io::ErrorKind;

use aquifer::ErrorCode;
use aquifer_durable::Error;

use crate::message::fail_with;

/// Keeps the sentence of `error` for `aq_error_message` and returns its number.
pub(super) fn fail(error: &Error) -> c_int {
    fail_with(code(error), &error.to_string())
}

fn code(error: &Error) -> ErrorCode {
    match error {
        Error::Conflict => ErrorCode::Conflict,
        Error::NotAllocated(_) | Error::NoObject(_) | Error::Beyond { .. } => ErrorCode::NotAllocated,
        Error::Full { .. } | Error::Spent => ErrorCode::NoMemory,
        Error::TooLarge { .. } => ErrorCode::Invalid,
        Error::WrongType { .. } | Error::WrongKind { .. } => ErrorCode::WrongType,
        Error::Name => ErrorCode::Name,
        Error::ReadOnly => ErrorCode::ReadOnly,
        Error::Foreign { .. } => ErrorCode::Format,
        Error::Damaged { .. } => ErrorCode::Corrupt,
        Error::Io { source, .. } => system_code(source.kind()),
    }
}

/// The number for what the system says of a heap's file.
fn system_code(kind: ErrorKind) -> ErrorCode {
    match kind {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ErrorCode::FlashMissing,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => ErrorCode::FlashPermission,
        // The lock of the file.
        ErrorKind::WouldBlock => ErrorCode::FlashBusy,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ErrorCode::FlashFull,
        ErrorKind::IsADirectory => ErrorCode::Invalid,
        _ => ErrorCode::Io,
    }
}
