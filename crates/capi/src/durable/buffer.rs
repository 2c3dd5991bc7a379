//! Bytes of the program: what is put, and room for what is found.

use std::ffi::{c_int, c_void};

use aquifer::ErrorCode;
use aquifer_durable::Transaction;
use aquifer_durable::structures::bytes::{Stored, VALUE_BYTES_MAX};

use super::fail_null;
use super::object::fail;
use crate::message::fail_with;

/// `aq_bytes`
#[repr(C)]
pub struct AqBytes {
    pub(super) bytes: *mut c_void,
    pub(super) room: usize,
    pub(super) count: usize,
}

/// What a function returns when the transaction goes on, though it did not do what was asked for.
pub(super) type Answer = Result<c_int, c_int>;

pub(super) const DONE: Answer = Ok(ErrorCode::Ok as c_int);

/// There is no such key or value. The transaction goes on.
pub(super) fn not_found() -> Answer {
    Ok(fail_with(ErrorCode::NotFound, "there is no such key, or nothing behind it"))
}

/// The number of an answer.
pub(super) fn answered(answer: Answer) -> c_int {
    answer.unwrap_or_else(|code| code)
}

/// Bytes that the program gives.
///
/// # Safety
/// `bytes` points to `count` bytes that nobody changes during the call, if that is not 0.
pub(super) unsafe fn given<'b>(bytes: *const c_void, count: usize, name: &str) -> Result<&'b [u8], c_int> {
    if count == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() {
        return Err(fail_null(name));
    }
    if count > VALUE_BYTES_MAX {
        let sentence = format!("{name} has {count} bytes, which are more than {VALUE_BYTES_MAX}");
        return Err(fail_with(ErrorCode::Invalid, &sentence));
    }
    // SAFETY: the caller says so; they are not too many for a slice.
    Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), count) })
}

/// The program's key in a buffer that a key is to be put into.
///
/// # Safety
/// As the header says of an `aq_bytes`.
pub(super) unsafe fn key_in(key: *mut AqBytes) -> Result<Vec<u8>, c_int> {
    // SAFETY: NULL, or the caller's structure.
    let Some(key) = (unsafe { key.as_ref() }) else { return Err(fail_null("key")) };
    if key.count > key.room {
        let sentence = format!("key->count is {}, and key->room only {}", key.count, key.room);
        return Err(fail_with(ErrorCode::Invalid, &sentence));
    }
    // SAFETY: passed on to the caller.
    unsafe { given(key.bytes, key.count, "key->bytes") }.map(<[u8]>::to_vec)
}

/// Whether there is room for `count` bytes, which are then in `out.count` in either case.
///
/// # Safety
/// `out` is NULL, or the caller's structure.
unsafe fn has_room(out: *mut AqBytes, count: usize) -> bool {
    // SAFETY: the caller says so.
    unsafe { out.as_ref() }.is_none_or(|out| count <= out.room && (count == 0 || !out.bytes.is_null()))
}

/// The caller's room for `count` bytes; none if they are not asked for.
///
/// # Safety
/// `out` is NULL, or the caller's structure, and [`has_room`] is true for `count`.
unsafe fn room<'b>(out: *mut AqBytes, count: usize) -> Option<&'b mut [u8]> {
    // SAFETY: the caller says so.
    let out = unsafe { out.as_mut() }?;
    out.count = count;
    // SAFETY: the caller's bytes, of which there are as many.
    (count > 0).then(|| unsafe { std::slice::from_raw_parts_mut(out.bytes.cast(), count) })
}

/// Gives a key and a value to the program, or none of them if there is not room for both. NULL is not asked for. Returns whether they
/// were given.
///
/// # Safety
/// As the header says of an `aq_bytes`; `key` is NULL if there is none.
pub(super) unsafe fn put_out(
    tx: &mut Transaction<'_>,
    (key, found_key): (*mut AqBytes, &[u8]),
    (value, found): (*mut AqBytes, Stored),
) -> Answer {
    let count = if value.is_null() { 0 } else { found.len() };
    // SAFETY: passed on to the caller.
    let (key_fits, value_fits) = unsafe { (has_room(key, found_key.len()), has_room(value, count)) };
    if !key_fits || !value_fits {
        // The key stays as it is: the program asks with it once more.
        let (what, out, count) =
            if value_fits { ("key", key, found_key.len()) } else { ("value", value, count) };
        // SAFETY: it is not NULL, because that has room for all.
        let room = unsafe {
            if !value_fits {
                (*out).count = count;
            }
            (*out).room
        };
        let sentence = format!("the {what} has {count} bytes, and there is room for {room}");
        return Ok(fail_with(ErrorCode::Room, &sentence));
    }
    // SAFETY: there is room.
    unsafe {
        if let Some(out) = room(key, found_key.len()) {
            out.copy_from_slice(found_key);
        }
        if let Some(out) = room(value, count) {
            found.copy(tx, 0, out).map_err(fail)?;
        }
    }
    DONE
}
