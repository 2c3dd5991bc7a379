//! SQLite's numbers, and which of them says what went wrong with a volume.

use std::ffi::c_int;

use aquifer_volume::VolumeError;

pub const OK: c_int = 0;
pub const ERROR: c_int = 1;
pub const BUSY: c_int = 5;
pub const NOMEM: c_int = 7;
pub const READONLY: c_int = 8;
pub const IOERR: c_int = 10;
pub const NOTFOUND: c_int = 12;
pub const FULL: c_int = 13;
pub const CANTOPEN: c_int = 14;
pub const OK_LOAD_PERMANENTLY: c_int = 256;
pub const CANTOPEN_ISDIR: c_int = CANTOPEN | 2 << 8;

pub const IOERR_READ: c_int = IOERR | 1 << 8;
pub const IOERR_SHORT_READ: c_int = IOERR | 2 << 8;
pub const IOERR_WRITE: c_int = IOERR | 3 << 8;
pub const IOERR_FSYNC: c_int = IOERR | 4 << 8;
pub const IOERR_TRUNCATE: c_int = IOERR | 6 << 8;
pub const IOERR_FSTAT: c_int = IOERR | 7 << 8;
pub const IOERR_DELETE: c_int = IOERR | 10 << 8;
pub const IOERR_ACCESS: c_int = IOERR | 13 << 8;
pub const IOERR_SHMMAP: c_int = IOERR | 21 << 8;
pub const IOERR_DELETE_NOENT: c_int = IOERR | 23 << 8;
pub const IOERR_BEGIN_ATOMIC: c_int = IOERR | 29 << 8;
pub const IOERR_COMMIT_ATOMIC: c_int = IOERR | 30 << 8;
pub const IOERR_DATA: c_int = IOERR | 32 << 8;
pub const IOERR_CORRUPTFS: c_int = IOERR | 33 << 8;

pub const OPEN_READONLY: c_int = 0x1;
pub const OPEN_READWRITE: c_int = 0x2;
pub const OPEN_CREATE: c_int = 0x4;
pub const OPEN_DELETEONCLOSE: c_int = 0x8;
pub const OPEN_EXCLUSIVE: c_int = 0x10;
pub const OPEN_MAIN_DB: c_int = 0x100;

pub const ACCESS_EXISTS: c_int = 0;

pub const SHM_UNLOCK: c_int = 1;
pub const SHM_SHARED: c_int = 4;
pub const SHM_LOCKS: usize = 8;

pub const IOCAP_ATOMIC_512_TO_64K: c_int = 0x1FE;
pub const IOCAP_SAFE_APPEND: c_int = 0x200;
pub const IOCAP_SEQUENTIAL: c_int = 0x400;
pub const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;
pub const IOCAP_BATCH_ATOMIC: c_int = 0x4000;

pub const FCNTL_LOCKSTATE: c_int = 1;
pub const FCNTL_SIZE_HINT: c_int = 5;
pub const FCNTL_CHUNK_SIZE: c_int = 6;
pub const FCNTL_PERSIST_WAL: c_int = 10;
pub const FCNTL_VFSNAME: c_int = 12;
pub const FCNTL_POWERSAFE_OVERWRITE: c_int = 13;
pub const FCNTL_MMAP_SIZE: c_int = 18;
pub const FCNTL_HAS_MOVED: c_int = 20;
pub const FCNTL_BEGIN_ATOMIC_WRITE: c_int = 31;
pub const FCNTL_COMMIT_ATOMIC_WRITE: c_int = 32;
pub const FCNTL_ROLLBACK_ATOMIC_WRITE: c_int = 33;
pub const FCNTL_EXTERNAL_READER: c_int = 40;

/// The number for an error, where `other` says what was being done.
pub fn code_of(error: &VolumeError, other: c_int) -> c_int {
    match error {
        VolumeError::NoSpace | VolumeError::TooLarge => FULL,
        VolumeError::ReadOnly => READONLY,
        // The same as for a page whose checksum an extension found to be wrong.
        VolumeError::Damaged { .. } => IOERR_DATA,
        VolumeError::Corrupt(_) => IOERR_CORRUPTFS,
        _ => other,
    }
}

/// The number for what went wrong when a file or its volume was opened.
pub fn code_of_open(error: &VolumeError) -> c_int {
    match error {
        VolumeError::NoSpace => FULL,
        VolumeError::IsAFolder => CANTOPEN_ISDIR,
        VolumeError::Damaged { .. } => IOERR_DATA,
        VolumeError::Corrupt(_) => IOERR_CORRUPTFS,
        error if error.errno() == libc::EBUSY => BUSY,
        error if error.errno() == libc::ENOMEM => NOMEM,
        _ => CANTOPEN,
    }
}
