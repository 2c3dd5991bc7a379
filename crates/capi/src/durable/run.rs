//! A function of the program as a transaction, again if it met another one.

use std::ffi::{c_int, c_void};

use aquifer::ErrorCode;
use aquifer_sys::Backoff;

use super::transaction::{AqTx, failure_of, is_nested, lasting};
use super::{AqDurable, fail_null};

/// What a program does in a transaction.
type Body = unsafe extern "C" fn(tx: *mut AqTx, argument: *mut c_void) -> c_int;

const CONFLICT: c_int = ErrorCode::Conflict as c_int;

/// Runs `attempt`, which returns an error and whether it was in a transaction of the program, until it has not met another one.
/// What is in a transaction of the program is run again by the program, with the whole.
fn again_on_conflict(mut attempt: impl FnMut() -> Result<(), (c_int, bool)>) -> c_int {
    let mut backoff = Backoff::new();
    loop {
        match attempt() {
            Ok(()) => return 0,
            Err((CONFLICT, false)) => backoff.wait(),
            Err((code, _)) => return code,
        }
    }
}

/// Commits or aborts the level in which the body returned `returned`. An error that comes of a conflict is one, whatever the body
/// made of it.
fn end(tx: *mut AqTx, returned: c_int) -> Result<(), c_int> {
    if returned == 0 {
        return AqTx::end_level(tx, true);
    }
    let failed = failure_of(tx);
    // The body may have ended it, against the rules; then it is said what the body returned.
    let _ = AqTx::end_level(tx, false);
    Err(if failed == CONFLICT { CONFLICT } else { returned })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_durable_run(
    heap: *mut AqDurable,
    body: Option<Body>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller closes the heap only when this has returned, and until then the transaction is counted.
    let Some(heap) = (unsafe { lasting(heap) }) else { return fail_null("heap") };
    let Some(body) = body else { return fail_null("body") };
    again_on_conflict(|| {
        let tx = AqTx::begin(heap, false).map_err(|code| (code, true))?;
        let is_nested = is_nested(tx);
        // SAFETY: the caller gives a function that takes these, and no reference to the transaction is held.
        let returned = unsafe { body(tx, argument) };
        end(tx, returned).map_err(|code| (code, is_nested))
    })
}
