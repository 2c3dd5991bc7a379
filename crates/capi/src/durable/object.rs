//! What is done in a transaction: objects and their bytes.

use std::ffi::{c_int, c_void};

use aquifer::ErrorCode;
use aquifer_base::HomeAddress;
use aquifer_durable::{Error, Transaction};

use super::transaction::{AqTx, change, with};
use super::{ensure_given, failure, number};
use crate::message::fail_with;

pub(super) fn fail(error: Error) -> c_int {
    failure::fail(&error)
}

/// The reference of an object, where one can begin.
#[inline]
pub(super) fn object(tx: &Transaction<'_>, bits: u64) -> Result<HomeAddress, c_int> {
    place(tx, bits, 0, 0)
}

/// Where `bytes` from `offset` of an object are.
#[inline]
fn place(tx: &Transaction<'_>, bits: u64, offset: u64, bytes: usize) -> Result<HomeAddress, c_int> {
    if bits == 0 {
        return Err(fail_with(ErrorCode::Invalid, "the reference is AQ_DURABLE_NULL"));
    }
    tx.place(HomeAddress(bits), offset, bytes as u64).map_err(fail)
}

/// Gives `value` to the caller if all went well.
///
/// # Safety
/// `out` is not NULL and may be written.
pub(super) unsafe fn give<T>(out: *mut T, outcome: Result<T, c_int>) -> c_int {
    match outcome {
        Ok(value) => {
            // SAFETY: the caller says so.
            unsafe { out.write(value) };
            0
        }
        Err(code) => code,
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_alloc(tx: *mut AqTx, bytes: usize, object: *mut u64) -> c_int {
    let outcome = change(tx, |tx| {
        ensure_given(object, "object")?;
        Ok(tx.alloc(bytes as u64).map_err(fail)?.0)
    });
    // SAFETY: not NULL if the outcome is good.
    unsafe { give(object, outcome) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_free(tx: *mut AqTx, freed: u64) -> c_int {
    if freed == 0 {
        return number(change(tx, |_| Ok(())));
    }
    number(change(tx, |tx| {
        let home = object(tx, freed)?;
        tx.free(home).map_err(fail)
    }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_size(tx: *mut AqTx, object: u64, bytes: *mut u64) -> c_int {
    let outcome = with(tx, |tx| {
        ensure_given(bytes, "bytes")?;
        let home = self::object(tx, object)?;
        tx.size(home).map_err(fail)
    });
    // SAFETY: not NULL if the outcome is good.
    unsafe { give(bytes, outcome) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_next(tx: *mut AqTx, after: u64, next: *mut u64) -> c_int {
    let outcome = with(tx, |tx| {
        ensure_given(next, "next")?;
        Ok(tx.next_object(HomeAddress(after)).map_err(fail)?.map_or(0, |object| object.0))
    });
    // SAFETY: not NULL if the outcome is good.
    unsafe { give(next, outcome) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_load(
    tx: *mut AqTx,
    object: u64,
    offset: u64,
    buffer: *mut c_void,
    bytes: usize,
) -> c_int {
    number(with(tx, |tx| {
        let home = place(tx, object, offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        ensure_given(buffer, "buffer")?;
        // SAFETY: the caller's buffer has that many bytes, and `place` has seen that they are not too many for a slice.
        let out = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes) };
        tx.load(home, out).map_err(fail)
    }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_store(
    tx: *mut AqTx,
    object: u64,
    offset: u64,
    buffer: *const c_void,
    bytes: usize,
) -> c_int {
    number(change(tx, |tx| {
        let home = place(tx, object, offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        ensure_given(buffer, "buffer")?;
        // SAFETY: the caller's buffer has that many bytes, and `place` has seen that they are not too many for a slice.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), bytes) };
        tx.store(home, bytes).map_err(fail)
    }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_load_u64(tx: *mut AqTx, object: u64, offset: u64, value: *mut u64) -> c_int {
    let outcome = with(tx, |tx| {
        ensure_given(value, "value")?;
        let home = place(tx, object, offset, 8)?;
        tx.load_u64(home).map_err(fail)
    });
    // SAFETY: not NULL if the outcome is good.
    unsafe { give(value, outcome) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_store_u64(tx: *mut AqTx, object: u64, offset: u64, value: u64) -> c_int {
    number(change(tx, |tx| {
        let home = place(tx, object, offset, 8)?;
        tx.store_u64(home, value).map_err(fail)
    }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_root(tx: *mut AqTx, root: *mut u64) -> c_int {
    let outcome = with(tx, |tx| {
        ensure_given(root, "root")?;
        Ok(tx.root().map_err(fail)?.map_or(0, |root| root.0))
    });
    // SAFETY: not NULL if the outcome is good.
    unsafe { give(root, outcome) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_set_root(tx: *mut AqTx, root: u64) -> c_int {
    number(change(tx, |tx| {
        let root = if root == 0 { HomeAddress(0) } else { object(tx, root)? };
        tx.set_root(root).map_err(fail)
    }))
}
