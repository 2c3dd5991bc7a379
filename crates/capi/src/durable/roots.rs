//! Roots with names.

use std::ffi::{CStr, c_char, c_int};

use aquifer_base::HomeAddress;
use aquifer_durable::{Error, Root, Roots};

use super::object::{fail, give, object};
use super::transaction::{AqTx, change, with};
use super::{ensure_given, fail_null, number};

/// A string of the program; `None` for NULL.
///
/// # Safety
/// NULL, or a string that lives as long as the call.
unsafe fn text<'t>(string: *const c_char) -> Option<&'t [u8]> {
    // SAFETY: the caller says so.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_bytes())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_root_named(
    tx: *mut AqTx,
    name: *const c_char,
    kind: *const c_char,
    root: *mut u64,
) -> c_int {
    let outcome = with(tx, |tx| {
        ensure_given(root, "root")?;
        // SAFETY: the caller's strings.
        let (name, kind) = unsafe { (text(name), text(kind)) };
        let name = name.ok_or_else(|| fail_null("name"))?;
        Ok(tx.named(name, kind.unwrap_or_default()).map_err(fail)?.map_or(0, |object| object.0))
    });
    // SAFETY: not NULL if the outcome is good.
    unsafe { give(root, outcome) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_set_root_named(
    tx: *mut AqTx,
    name: *const c_char,
    kind: *const c_char,
    root: u64,
) -> c_int {
    number(change(tx, |tx| {
        // SAFETY: the caller's strings.
        let (name, kind) = unsafe { (text(name), text(kind)) };
        let name = name.ok_or_else(|| fail_null("name"))?;
        let root = if root == 0 { None } else { Some(object(tx, root)?) };
        if let Some(root) = root {
            tx.size(root).map_err(fail)?;
        }
        tx.set_named(name, kind.unwrap_or_default(), root).map_err(fail)
    }))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_tx_next_root(
    tx: *mut AqTx,
    after: *const c_char,
    name: *mut c_char,
    kind: *mut c_char,
    root: *mut u64,
) -> c_int {
    let outcome = with(tx, |tx| {
        if name.is_null() || root.is_null() {
            return Err(fail_null(if root.is_null() { "root" } else { "name" }));
        }
        // SAFETY: the caller's string.
        let after = unsafe { text(after) }.unwrap_or_default();
        let end = Root { name: Vec::new(), type_name: Vec::new(), object: HomeAddress(0) };
        let found = tx.next_named(after).map_err(fail)?.unwrap_or(end);
        let fits = |text: &[u8]| text.len() <= aquifer_durable::NAME_BYTES_MAX;
        // Of a file that was tampered with.
        if fits(&found.name) && fits(&found.type_name) { Ok(found) } else { Err(fail(Error::Name)) }
    });
    let found = outcome.map(|found| {
        // SAFETY: both have room for the longest name and a zero byte; `kind` may be NULL.
        unsafe {
            write_text(name, &found.name);
            if !kind.is_null() {
                write_text(kind, &found.type_name);
            }
        }
        found.object.0
    });
    // SAFETY: not NULL if the outcome is good.
    unsafe { give(root, found) }
}

/// # Safety
/// `out` has room for `text` and a zero byte.
unsafe fn write_text(out: *mut c_char, text: &[u8]) {
    // SAFETY: the caller says so, and `text` is memory of the library.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
        out.add(text.len()).write(0);
    }
}
