//! Queues.

use std::ffi::{c_int, c_void};
use std::ptr;

use aquifer_base::HomeAddress;
use aquifer_durable::Transaction;
use aquifer_durable::structures::BytesQueue;

use super::buffer::{AqBytes, DONE, answered, given, not_found, put_out};
use super::object::{fail, give};
use super::transaction::{AqTx, change, with};
use super::{ensure_given, number};

fn open(tx: &mut Transaction<'_>, home: u64) -> Result<BytesQueue, c_int> {
    BytesQueue::open(tx, HomeAddress(home)).map_err(fail)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_queue_create(tx: *mut AqTx, queue: *mut u64) -> c_int {
    let outcome = change(tx, |tx| {
        ensure_given(queue, "queue")?;
        Ok(BytesQueue::create(tx).map_err(fail)?.home().0)
    });
    // SAFETY: not NULL if the outcome is good.
    unsafe { give(queue, outcome) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_queue_destroy(tx: *mut AqTx, queue: u64) -> c_int {
    number(change(tx, |tx| open(tx, queue)?.destroy(tx).map_err(fail)))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_queue_push(
    tx: *mut AqTx,
    queue: u64,
    value: *const c_void,
    value_bytes: usize,
) -> c_int {
    number(change(tx, |tx| {
        // SAFETY: the caller's bytes.
        let value = unsafe { given(value, value_bytes, "value")? };
        open(tx, queue)?.push(tx, value).map_err(fail)
    }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_queue_front(tx: *mut AqTx, queue: u64, value: *mut AqBytes) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { aq_queue_at(tx, queue, 0, value) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_queue_at(tx: *mut AqTx, queue: u64, n: u64, value: *mut AqBytes) -> c_int {
    answered(with(tx, |tx| {
        let Some(found) = open(tx, queue)?.nth(tx, n).map_err(fail)? else { return not_found() };
        // SAFETY: the caller's room.
        unsafe { put_out(tx, (ptr::null_mut(), &[]), (value, found)) }
    }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_queue_pop(tx: *mut AqTx, queue: u64, value: *mut AqBytes) -> c_int {
    answered(change(tx, |tx| {
        let queue = open(tx, queue)?;
        let Some(found) = queue.front(tx).map_err(fail)? else { return not_found() };
        // SAFETY: the caller's room.
        let given = unsafe { put_out(tx, (ptr::null_mut(), &[]), (value, found)) };
        if given == DONE {
            queue.discard_front(tx).map_err(fail)?;
        }
        given
    }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_queue_count(tx: *mut AqTx, queue: u64, count: *mut u64) -> c_int {
    let outcome = with(tx, |tx| {
        ensure_given(count, "count")?;
        open(tx, queue)?.len(tx).map_err(fail)
    });
    // SAFETY: not NULL if the outcome is good.
    unsafe { give(count, outcome) }
}
