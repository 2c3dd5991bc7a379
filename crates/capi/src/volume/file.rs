//! Open files.

use std::ffi::{c_char, c_int, c_uint, c_void};

use aquifer::ErrorCode;
use aquifer_volume::access::Access;
use aquifer_volume::{Kind, OpenHow, VolumeError};

use super::abi::AqInode;
use super::names::path_bytes;
use super::reach::Opened;
use super::{AqVolume, bounce, ensure_not_forked, fail_null, failed, failed_at, number, with};
use crate::message::{self, fail_with};
use crate::sized;

/// `AQ_OPEN_READ` and its like.
const READ: c_int = 1;
const WRITE: c_int = 2;
const CREATE: c_int = 4;
const EXCLUSIVE: c_int = 8;
const TRUNCATE: c_int = 16;
const APPEND: c_int = 32;

/// `aq_file`
pub struct AqFile {
    pub(super) file: Opened,
    flags: c_int,
    forks: usize,
}

impl AqFile {
    /// Fails unless the file was opened to read.
    pub(super) fn ensure_readable(&self) -> Result<(), c_int> {
        self.ensure_opened(READ, "AQ_OPEN_READ")
    }

    /// Fails unless the file was opened to write.
    pub(super) fn ensure_writable(&self) -> Result<(), c_int> {
        self.ensure_opened(WRITE, "AQ_OPEN_WRITE")
    }

    fn ensure_opened(&self, flag: c_int, name: &str) -> Result<(), c_int> {
        if self.flags & flag != 0 {
            return Ok(());
        }
        Err(fail_with(ErrorCode::Permission, &format!("the file was not opened with {name}")))
    }
}

/// What `run` makes of a file.
///
/// # Safety
/// `file` is NULL, or was made by `aq_file_open` and is not closed.
pub(super) unsafe fn with_file(file: *mut AqFile, run: impl FnOnce(&AqFile) -> Result<(), c_int>) -> c_int {
    // SAFETY: the caller says so.
    let Some(file) = (unsafe { file.as_ref() }) else { return fail_null("file") };
    number(ensure_not_forked(file.forks).and_then(|()| run(file)))
}

fn to_how(flags: c_int, mode: c_uint) -> Result<OpenHow, c_int> {
    let has = |flag| flags & flag != 0;
    let access = match (has(READ), has(WRITE)) {
        (true, true) => Access::READ.and(Access::WRITE),
        (true, false) => Access::READ,
        (false, true) => Access::WRITE,
        (false, false) => return invalid("a file is opened with AQ_OPEN_READ, AQ_OPEN_WRITE or both"),
    };
    if flags & !(READ | WRITE | CREATE | EXCLUSIVE | TRUNCATE | APPEND) != 0 {
        return invalid("flags has bits that are none of enum aq_open");
    }
    if (has(TRUNCATE) || has(APPEND)) && !has(WRITE) {
        return invalid("AQ_OPEN_TRUNCATE and AQ_OPEN_APPEND need AQ_OPEN_WRITE");
    }
    if has(EXCLUSIVE) && !has(CREATE) {
        return invalid("AQ_OPEN_EXCLUSIVE needs AQ_OPEN_CREATE");
    }
    Ok(OpenHow {
        access,
        make: has(CREATE).then_some((mode & 0o7777) as u16),
        is_new: has(EXCLUSIVE),
        is_truncated: has(TRUNCATE),
        keeps_link: false,
    })
}

fn invalid<T>(sentence: &str) -> Result<T, c_int> {
    Err(fail_with(ErrorCode::Invalid, sentence))
}

fn open(volume: &AqVolume, path: &[u8], flags: c_int, mode: c_uint) -> Result<AqFile, c_int> {
    let how = to_how(flags, mode)?;
    let file = volume.reach.open(path, &how).map_err(failed_at(path))?;
    if file.stat().map_err(failed)?.1.kind == Kind::Folder {
        return Err(failed_at(path)(VolumeError::IsAFolder));
    }
    Ok(AqFile { file, flags, forks: volume.forks })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_file_open(
    volume: *mut AqVolume,
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
    file: *mut *mut AqFile,
) -> c_int {
    let open = |volume: &AqVolume| {
        if file.is_null() {
            return Err(fail_null("file"));
        }
        // SAFETY: NULL, or the caller's string.
        let path = unsafe { path_bytes(path, "path") }?;
        let opened = open(volume, &path, flags, mode)?;
        // SAFETY: checked above.
        unsafe { *file = Box::into_raw(Box::new(opened)) };
        Ok(())
    };
    // SAFETY: passed on to the caller.
    unsafe { with(volume, open) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_file_close(file: *mut AqFile) -> c_int {
    // SAFETY: passed on to the caller.
    let code = unsafe { with_file(file, |_| Ok(())) };
    if code == 0 {
        // SAFETY: made by aq_file_open, and the caller does not use it again.
        drop(unsafe { Box::from_raw(file) });
    }
    code
}

/// Fails for outputs and buffers that are NULL.
fn ensure_buffer<T>(buffer: *const c_void, len: usize, done: *const T) -> Result<(), c_int> {
    if buffer.is_null() && len > 0 {
        return Err(fail_null("buffer"));
    }
    if done.is_null() { Err(fail_null("done")) } else { Ok(()) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_file_read(
    file: *mut AqFile,
    offset: u64,
    buffer: *mut c_void,
    len: usize,
    done: *mut usize,
) -> c_int {
    let read = |file: &AqFile| {
        ensure_buffer(buffer, len, done)?;
        file.ensure_readable()?;
        // SAFETY: the caller's buffer has `len` bytes.
        let count = unsafe { bounce::read(offset, buffer.cast(), len, |at, part| file.file.read(at, part)) };
        // SAFETY: checked above.
        unsafe { *done = count.map_err(failed)? };
        Ok(())
    };
    // SAFETY: passed on to the caller.
    unsafe { with_file(file, read) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_file_write(
    file: *mut AqFile,
    offset: u64,
    buffer: *const c_void,
    len: usize,
    done: *mut usize,
) -> c_int {
    let write = |file: &AqFile| {
        ensure_buffer(buffer, len, done)?;
        file.ensure_writable()?;
        let count = if file.flags & APPEND != 0 {
            // SAFETY: the caller's buffer has `len` bytes.
            append(file, &unsafe { bounce::copy(buffer.cast(), len) }?)?.1
        } else {
            // SAFETY: as above.
            unsafe { bounce::write(offset, buffer.cast(), len, |at, part| file.file.write(at, part)) }
                .map_err(failed)?
        };
        // SAFETY: checked above.
        unsafe { *done = count };
        Ok(())
    };
    // SAFETY: passed on to the caller.
    unsafe { with_file(file, write) }
}

fn append(file: &AqFile, bytes: &[u8]) -> Result<(u64, usize), c_int> {
    file.file.append(bytes).map_err(failed)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_file_append(
    file: *mut AqFile,
    buffer: *const c_void,
    len: usize,
    offset: *mut u64,
    done: *mut usize,
) -> c_int {
    let run = |file: &AqFile| {
        ensure_buffer(buffer, len, done)?;
        file.ensure_writable()?;
        // SAFETY: the caller's buffer has `len` bytes.
        let (at, count) = append(file, &unsafe { bounce::copy(buffer.cast(), len) }?)?;
        if !offset.is_null() {
            // SAFETY: the caller's number.
            unsafe { *offset = at };
        }
        // SAFETY: checked above.
        unsafe { *done = count };
        Ok(())
    };
    // SAFETY: passed on to the caller.
    unsafe { with_file(file, run) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_file_truncate(file: *mut AqFile, size_bytes: u64) -> c_int {
    let truncate = |file: &AqFile| {
        file.ensure_writable()?;
        file.file.truncate(size_bytes).map_err(failed)
    };
    // SAFETY: passed on to the caller.
    unsafe { with_file(file, truncate) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_file_punch(file: *mut AqFile, offset: u64, len_bytes: u64) -> c_int {
    let punch = |file: &AqFile| {
        file.ensure_writable()?;
        file.file.punch(offset, len_bytes).map_err(failed)
    };
    // SAFETY: passed on to the caller.
    unsafe { with_file(file, punch) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_file_sync(file: *mut AqFile) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { with_file(file, |file| file.file.sync().map_err(failed)) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_file_stat(file: *mut AqFile, inode: *mut AqInode) -> c_int {
    let stat = |file: &AqFile| {
        if inode.is_null() {
            return Err(fail_null("inode"));
        }
        let (ino, found) = file.file.stat().map_err(failed)?;
        // SAFETY: the caller's structure, whose first field is its size.
        unsafe { sized::write(inode, "aq_inode", |room| AqInode::new(room, ino, &found)) }
            .map_err(|error| message::fail(&error))
    };
    // SAFETY: passed on to the caller.
    unsafe { with_file(file, stat) }
}
