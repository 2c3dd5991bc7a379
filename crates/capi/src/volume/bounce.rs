//! Bytes on their way between files and the caller's memory.
//!
//! The caller's memory may itself be a mapped file of the volume, and touching it may fault. The fault is served in this very thread, and takes
//! locks of the volume: it would wait for itself if this thread held them. So the caller's memory is touched only while no lock is held, and the
//! volume reads into and writes from a buffer of our own.

use std::ffi::c_int;

use aquifer::ErrorCode;
use aquifer_volume::{Result, VolumeError};

use crate::message::fail_with;

/// Bytes that are copied at once.
const BOUNCE_BYTES: usize = 256 << 10;

/// The buffer for a call that moves `len` bytes.
fn buffer_for(len: usize) -> Vec<u8> {
    vec![0; len.min(BOUNCE_BYTES)]
}

/// Has `read` fill the caller's buffer, by offsets; returns how many bytes there were. An error counts only if there were none.
///
/// # Safety
/// `len` bytes can be written at `target`.
pub(super) unsafe fn read(
    offset: u64,
    target: *mut u8,
    len: usize,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize>,
) -> Result<usize> {
    let mut bounce = buffer_for(len);
    let mut done = 0;
    loop {
        let part_len = bounce.len().min(len - done);
        let part = &mut bounce[..part_len];
        let count = match read(offset.saturating_add(done as u64), part) {
            Err(error) if done == 0 => return Err(error),
            outcome => outcome.unwrap_or(0),
        };
        // SAFETY: the caller has room for `len` bytes, and `done + count` is at most `len`.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), target.add(done), count) };
        done += count;
        if count < part.len() || done == len {
            return Ok(done);
        }
    }
}

/// Has `write` take the caller's bytes, by offsets; returns how many it took. An error counts only if it took none.
///
/// # Safety
/// `len` bytes can be read at `source`.
pub(super) unsafe fn write(
    offset: u64,
    source: *const u8,
    len: usize,
    mut write: impl FnMut(u64, &[u8]) -> Result<usize>,
) -> Result<usize> {
    if offset.checked_add(len as u64).is_none() {
        return Err(VolumeError::TooLarge);
    }
    let mut bounce = buffer_for(len);
    let mut done = 0;
    loop {
        let part_len = bounce.len().min(len - done);
        let part = &mut bounce[..part_len];
        // SAFETY: the caller has `len` bytes, and `done + part_len` is at most `len`.
        unsafe { std::ptr::copy_nonoverlapping(source.add(done), part.as_mut_ptr(), part.len()) };
        let count = match write(offset + done as u64, part) {
            Err(error) if done == 0 => return Err(error),
            outcome => outcome.unwrap_or(0),
        };
        done += count;
        if count < part.len() || done == len {
            return Ok(done);
        }
    }
}

/// A copy of all of the caller's bytes, for what must happen in one step.
///
/// # Safety
/// `len` bytes can be read at `source`.
pub(super) unsafe fn copy(source: *const u8, len: usize) -> std::result::Result<Vec<u8>, c_int> {
    let mut bytes: Vec<u8> = Vec::new();
    if bytes.try_reserve_exact(len).is_err() {
        return Err(fail_with(ErrorCode::NoMemory, &format!("there is no memory for a copy of {len} bytes")));
    }
    // SAFETY: the caller has `len` bytes, and there is room for as many.
    unsafe {
        std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), len);
        bytes.set_len(len);
    }
    Ok(bytes)
}
