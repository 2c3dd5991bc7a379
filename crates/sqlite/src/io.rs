//! The methods of an open file.
//!
//! What SQLite may rely on, and why it is so:
//!
//! * **A crash keeps a prefix of the writes** (`SEQUENTIAL`). A commit of the volume takes a moment at which every write is finished or not begun, of
//!   all files; there is no way for a later write to survive without an earlier one.
//! * **Aligned writes of up to 64 KiB are whole or not at all** (`ATOMIC512` to `ATOMIC64K`).
//!   [`aquifer_volume::Volume::write`] writes a range within 64 pages atomically, and tells if it could not
//!   write all.
//! * **A file grows with its bytes** (`SAFE_APPEND`): both are in the same moment.
//! * **A write changes no other byte** (`POWERSAFE_OVERWRITE`): pages on flash are never overwritten, but written anew elsewhere.
//! * **A batch is whole or not at all** (`BATCH_ATOMIC`): [`aquifer_volume::Volume::write_together`].

use std::ffi::{c_int, c_void};
use std::sync::atomic::{Ordering, fence};

use aquifer_volume::{PAGE_BYTES, Result};

use crate::api::told;
use crate::codes;
use crate::control;
use crate::file::File;
use crate::locks::Level;
use crate::raw::{Int64, IoMethods, RawFile};

/// The methods of every file of a volume.
pub static METHODS: IoMethods = IoMethods {
    version: 3,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
    shm_map,
    shm_lock,
    shm_barrier,
    shm_unmap,
    fetch,
    unfetch,
};

/// The file behind SQLite's.
///
/// # Safety
/// `raw` was opened with [`METHODS`] and is not closed; SQLite uses a file in one thread at a time.
unsafe fn file<'a>(raw: *mut RawFile) -> &'a mut File {
    // SAFETY: the caller's word.
    unsafe { &mut *(*raw).opened.cast::<File>() }
}

/// SQLite's number for an outcome.
fn code(outcome: Result<()>, other: c_int) -> c_int {
    match outcome {
        Ok(()) => codes::OK,
        Err(error) => told(codes::code_of(&error, other), &error.to_string()),
    }
}

unsafe extern "C" fn close(raw: *mut RawFile) -> c_int {
    // SAFETY: the file was made by `Box`, and SQLite does not use it any more.
    unsafe {
        drop(Box::from_raw((*raw).opened.cast::<File>()));
        (*raw).methods = std::ptr::null();
    }
    codes::OK
}

unsafe extern "C" fn read(raw: *mut RawFile, bytes: *mut c_void, len: c_int, offset: Int64) -> c_int {
    // SAFETY: SQLite gives an open file.
    let file = unsafe { file(raw) };
    // SAFETY: SQLite gives a buffer of that length.
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes.cast::<u8>(), len as usize) };
    match file.read(offset as u64, bytes) {
        Ok(read) if read == bytes.len() => codes::OK,
        Ok(read) => {
            // SQLite wants zeros there, and is not to hear of it as an error.
            bytes[read..].fill(0);
            codes::IOERR_SHORT_READ
        }
        Err(error) => code(Err(error), codes::IOERR_READ),
    }
}

unsafe extern "C" fn write(raw: *mut RawFile, bytes: *const c_void, len: c_int, offset: Int64) -> c_int {
    // SAFETY: SQLite gives an open file and a buffer of that length.
    let (file, bytes) = unsafe { (file(raw), std::slice::from_raw_parts(bytes.cast::<u8>(), len as usize)) };
    code(file.write(offset as u64, bytes), codes::IOERR_WRITE)
}

unsafe extern "C" fn truncate(raw: *mut RawFile, size_bytes: Int64) -> c_int {
    // SAFETY: SQLite gives an open file.
    code(unsafe { file(raw) }.truncate(size_bytes as u64), codes::IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(raw: *mut RawFile, _flags: c_int) -> c_int {
    // SAFETY: SQLite gives an open file.
    code(unsafe { file(raw) }.lease().sync(), codes::IOERR_FSYNC)
}

unsafe extern "C" fn file_size(raw: *mut RawFile, size_bytes: *mut Int64) -> c_int {
    // SAFETY: SQLite gives an open file.
    let found = unsafe { file(raw) }.size_bytes().map(|found| {
        // SAFETY: SQLite gives a place for the size.
        unsafe { size_bytes.write(found as Int64) };
    });
    code(found, codes::IOERR_FSTAT)
}

unsafe extern "C" fn lock(raw: *mut RawFile, level: c_int) -> c_int {
    // SAFETY: SQLite gives an open file.
    let file = unsafe { file(raw) };
    let mut own = file.level;
    let is_raised = file.shared().locks().raise(&mut own, Level::from_code(level));
    file.level = own;
    if is_raised { codes::OK } else { codes::BUSY }
}

unsafe extern "C" fn unlock(raw: *mut RawFile, level: c_int) -> c_int {
    // SAFETY: SQLite gives an open file.
    let file = unsafe { file(raw) };
    let mut own = file.level;
    file.shared().locks().lower(&mut own, Level::from_code(level));
    file.level = own;
    codes::OK
}

unsafe extern "C" fn check_reserved_lock(raw: *mut RawFile, is_reserved: *mut c_int) -> c_int {
    // SAFETY: SQLite gives an open file, and a place for the answer.
    unsafe { is_reserved.write(file(raw).shared().locks().is_reserved().into()) };
    codes::OK
}

unsafe extern "C" fn file_control(raw: *mut RawFile, control: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: SQLite gives an open file, and the argument that belongs to the control.
    unsafe { control::control(file(raw), control, argument) }
}

unsafe extern "C" fn sector_size(_raw: *mut RawFile) -> c_int {
    PAGE_BYTES as c_int
}

unsafe extern "C" fn device_characteristics(raw: *mut RawFile) -> c_int {
    // SAFETY: SQLite gives an open file.
    let is_powersafe = unsafe { file(raw) }.is_powersafe;
    codes::IOCAP_ATOMIC_512_TO_64K
        | codes::IOCAP_SAFE_APPEND
        | codes::IOCAP_SEQUENTIAL
        | codes::IOCAP_BATCH_ATOMIC
        | if is_powersafe { codes::IOCAP_POWERSAFE_OVERWRITE } else { 0 }
}

unsafe extern "C" fn shm_map(
    raw: *mut RawFile,
    region: c_int,
    len: c_int,
    is_made: c_int,
    place: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite gives an open file.
    let file = unsafe { file(raw) };
    if file.lease().volume().is_err() {
        return codes::IOERR_SHMMAP;
    }
    if file.holding.is_none() {
        let holding = file.shared().wal_index().join();
        file.holding = Some(holding);
    }
    let found = file.shared().wal_index().region(region as usize, len as usize, is_made != 0);
    // SAFETY: SQLite gives a place for the address.
    unsafe { place.write(found.unwrap_or(std::ptr::null_mut())) };
    codes::OK
}

unsafe extern "C" fn shm_lock(raw: *mut RawFile, first: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: SQLite gives an open file.
    let file = unsafe { file(raw) };
    let mask = (((1u32 << count) - 1) << first) as u8;
    let mut holding = match file.holding.take() {
        Some(holding) => holding,
        None => file.shared().wal_index().join(),
    };
    let is_done = {
        let mut index = file.shared().wal_index();
        if flags & codes::SHM_UNLOCK != 0 {
            index.unlock(&mut holding, mask);
            true
        } else {
            index.lock(&mut holding, mask, flags & codes::SHM_SHARED != 0)
        }
    };
    file.holding = Some(holding);
    if is_done { codes::OK } else { codes::BUSY }
}

unsafe extern "C" fn shm_barrier(_raw: *mut RawFile) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(raw: *mut RawFile, _is_deleted: c_int) -> c_int {
    // SAFETY: SQLite gives an open file.
    let file = unsafe { file(raw) };
    if let Some(holding) = file.holding.take() {
        file.shared().wal_index().leave(holding);
    }
    codes::OK
}

/// Gives SQLite a page where it is mapped, or none: SQLite reads the page then.
unsafe extern "C" fn fetch(raw: *mut RawFile, offset: Int64, len: c_int, page: *mut *mut c_void) -> c_int {
    // SAFETY: SQLite gives an open file.
    let found = unsafe { file(raw) }.page(offset as u64, len as usize).map(|found| {
        // SAFETY: SQLite gives a place for the address.
        unsafe { page.write(found.unwrap_or(std::ptr::null_mut()).cast()) };
    });
    code(found, codes::IOERR_READ)
}

/// SQLite does not need a mapped page any more; without one, it wants the file not to be mapped.
unsafe extern "C" fn unfetch(raw: *mut RawFile, _offset: Int64, page: *mut c_void) -> c_int {
    // SAFETY: SQLite gives an open file.
    let mapped = unsafe { file(raw) }.mapped();
    if page.is_null() {
        mapped.unmap();
    } else {
        mapped.give_back();
    }
    codes::OK
}
