//! Begin, commit and abort, also nested.
//!
//! A transaction belongs to the thread that began it, which has it on a list. A pointer from the program is looked up there before
//! it is followed, so that a transaction that has ended, or is another thread's, is refused.

use std::cell::RefCell;
use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::Ordering;

use aquifer::ErrorCode;
use aquifer_durable::Transaction;

use super::{AqDurable, Count, ensure_given, fail_null, failure, number};
use crate::message::{aq_strerror, fail_with, keep};

/// `aq_tx`
pub struct AqTx {
    /// Refers to the heap, which is not closed while `count` counts this transaction.
    transaction: Transaction<'static>,
    heap: &'static AqDurable,
    count: &'static Count,
    /// Begins that have not ended.
    depth: usize,
    /// The depth of the first one since which nothing may be changed; 0 for none.
    reads_from: usize,
    /// The number of the first error, after which it can only be aborted; else 0.
    failed: c_int,
}

/// The heap, for as long as a transaction refers to it: the transaction is counted, and aq_durable_close leaves a heap with counted
/// ones open.
///
/// # Safety
/// `heap` is NULL, or made by aq_durable_open and not closed.
pub(super) unsafe fn lasting(heap: *mut AqDurable) -> Option<&'static AqDurable> {
    // SAFETY: the caller says so.
    unsafe { heap.as_ref() }
}

/// The transactions of a thread.
struct Mine(RefCell<Vec<*mut AqTx>>);

thread_local! {
    static MINE: Mine = const { Mine(RefCell::new(Vec::new())) };
}

impl Drop for Mine {
    /// A thread that ends aborts what it began.
    fn drop(&mut self) {
        for tx in self.0.take() {
            // SAFETY: what is on the list was made by `AqTx::begin` and has not ended.
            let _ = unsafe { *Box::from_raw(tx) }.end(false);
        }
    }
}

/// Runs `look` on the list of this thread. `None` while the thread ends.
fn with_mine<T>(look: impl FnOnce(&mut Vec<*mut AqTx>) -> T) -> Option<T> {
    MINE.try_with(|mine| look(&mut mine.0.borrow_mut())).ok()
}

/// Refuses what is no transaction of this thread.
#[inline]
fn ensure_mine(tx: *mut AqTx) -> Result<(), c_int> {
    if with_mine(|mine| mine.contains(&tx)) == Some(true) {
        return Ok(());
    }
    ensure_given(tx, "tx")?;
    Err(fail_with(ErrorCode::Invalid, "the transaction has ended, or another thread began it"))
}

/// Says that something has failed before; returns its number again.
fn fail_again(code: c_int) -> c_int {
    // SAFETY: sentences of the library end with a zero byte and are never freed.
    let sentence = unsafe { CStr::from_ptr(aq_strerror(code)) }.to_string_lossy();
    keep(code, &format!("the transaction has failed before and can only be aborted: {sentence}"))
}

/// As [`with`], for a change.
#[inline]
pub(super) fn change<T>(
    tx: *mut AqTx,
    run: impl FnOnce(&mut Transaction<'static>) -> Result<T, c_int>,
) -> Result<T, c_int> {
    let reads_from = ensure_mine(tx).map(|()| {
        // SAFETY: it is on the list of this thread, so it has not ended.
        unsafe { &*tx }.reads_from
    })?;
    with(tx, |tx| if reads_from == 0 { run(tx) } else { Err(refuse_change()) })
}

#[cold]
fn refuse_change() -> c_int {
    let sentence =
        "the transaction only reads: aq_tx_begin_read began it, or the heap was opened with read_only";
    fail_with(ErrorCode::ReadOnly, sentence)
}

/// The number of the first error of a transaction; 0 for none, or if it is no transaction of this thread.
pub(super) fn failure_of(tx: *mut AqTx) -> c_int {
    // SAFETY: it is on the list of this thread, so it has not ended.
    ensure_mine(tx).map_or(0, |()| unsafe { &*tx }.failed)
}

/// Whether an outer begin has not ended.
pub(super) fn is_nested(tx: *mut AqTx) -> bool {
    // SAFETY: it is on the list of this thread, so it has not ended.
    ensure_mine(tx).is_ok_and(|()| unsafe { &*tx }.depth > 1)
}

/// Runs `run` in a transaction of this thread. If that fails, the transaction can only be aborted.
#[inline]
pub(super) fn with<T>(
    tx: *mut AqTx,
    run: impl FnOnce(&mut Transaction<'static>) -> Result<T, c_int>,
) -> Result<T, c_int> {
    ensure_mine(tx)?;
    // SAFETY: it is on the list of this thread, so it has not ended; nobody else uses it, as `run` does not call the program.
    let tx = unsafe { &mut *tx };
    if tx.failed != 0 {
        return Err(fail_again(tx.failed));
    }
    run(&mut tx.transaction).inspect_err(|&code| tx.failed = code)
}

impl AqTx {
    /// Begins a transaction, or another level of the one that this thread has on the heap.
    pub(super) fn begin(heap: &'static AqDurable, only_reads: bool) -> Result<*mut Self, c_int> {
        // SAFETY: what is on the list has not ended.
        let is_on_heap = |tx: &*mut Self| ptr::eq(unsafe { &**tx }.heap, heap);
        if let Some(tx) = with_mine(|mine| mine.iter().copied().find(is_on_heap)).flatten() {
            // SAFETY: as above, and no other reference to it exists.
            unsafe { &mut *tx }.nest(only_reads)?;
            return Ok(tx);
        }
        heap.ensure_not_forked()?;
        let count = heap.count_transaction();
        let transaction = heap.heap.begin();
        let reads_from = usize::from(only_reads || heap.is_read_only);
        let tx = Box::into_raw(Box::new(Self { transaction, heap, count, depth: 1, reads_from, failed: 0 }));
        if with_mine(|mine| mine.push(tx)).is_none() {
            // SAFETY: made above.
            let _ = unsafe { *Box::from_raw(tx) }.end(false);
            return Err(fail_with(ErrorCode::Invalid, "a thread that ends cannot begin a transaction"));
        }
        Ok(tx)
    }

    fn nest(&mut self, only_reads: bool) -> Result<(), c_int> {
        if self.failed != 0 {
            return Err(fail_again(self.failed));
        }
        self.depth += 1;
        if only_reads && self.reads_from == 0 {
            self.reads_from = self.depth;
        }
        Ok(())
    }

    /// Ends a level of a transaction of this thread, and with the outermost one the transaction.
    pub(super) fn end_level(tx: *mut Self, commit: bool) -> Result<(), c_int> {
        ensure_mine(tx)?;
        // SAFETY: it is on the list of this thread, so it has not ended, and nobody else uses it.
        let level = unsafe { &mut *tx };
        level.depth -= 1;
        if level.depth < level.reads_from {
            level.reads_from = 0;
        }
        if level.depth > 0 {
            return level.end_inner(commit);
        }
        with_mine(|mine| mine.retain(|&other| other != tx));
        // SAFETY: made by `begin`; it is on no list any more.
        unsafe { *Box::from_raw(tx) }.end(commit)
    }

    fn end_inner(&mut self, commit: bool) -> Result<(), c_int> {
        match (commit, self.failed) {
            (true, 0) => Ok(()),
            (true, code) => Err(fail_again(code)),
            (false, 0) => {
                self.failed = ErrorCode::Aborted as c_int;
                Ok(())
            }
            (false, _) => Ok(()),
        }
    }

    /// Ends the transaction; the heap may be closed then.
    fn end(self, commit: bool) -> Result<(), c_int> {
        let Self { transaction, heap, count, failed, .. } = self;
        let outcome = match (commit, failed) {
            (false, _) => {
                drop(transaction);
                Ok(())
            }
            (true, 0) => heap
                .ensure_not_forked()
                .and_then(|()| transaction.commit().map_err(|error| failure::fail(&error))),
            (true, code) => {
                drop(transaction);
                Err(fail_again(code))
            }
        };
        count.0.fetch_sub(1, Ordering::Release);
        outcome
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_begin(heap: *mut AqDurable, tx: *mut *mut AqTx) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { begin(heap, tx, false) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_begin_read(heap: *mut AqDurable, tx: *mut *mut AqTx) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { begin(heap, tx, true) }
}

/// # Safety
/// As the header says.
unsafe fn begin(heap: *mut AqDurable, tx: *mut *mut AqTx, only_reads: bool) -> c_int {
    // SAFETY: passed on to the caller.
    let Some(heap) = (unsafe { lasting(heap) }) else { return fail_null("heap") };
    if tx.is_null() {
        return fail_null("tx");
    }
    match AqTx::begin(heap, only_reads) {
        Ok(begun) => {
            // SAFETY: checked above.
            unsafe { *tx = begun };
            0
        }
        Err(code) => code,
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_commit(tx: *mut AqTx) -> c_int {
    number(AqTx::end_level(tx, true))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_abort(tx: *mut AqTx) -> c_int {
    number(AqTx::end_level(tx, false))
}
