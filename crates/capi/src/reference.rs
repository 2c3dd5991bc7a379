//! Objects by reference, in either kind of heap.

use std::ffi::{c_int, c_void};

use aquifer::{Error, Heap, Ref};

use crate::default_heap;
use crate::heap::{AqHeap, with};
use crate::message::{code, pointer};

const WRITE: c_int = 1;

fn reference(heap: &Heap, object: *const c_void) -> Result<u64, Error> {
    Ok(heap.reference(object.cast())?.to_bits())
}

fn parse(bits: u64) -> Result<Ref, Error> {
    Ref::from_bits(bits).ok_or_else(|| Error::Invalid("the reference is AQ_REF_NULL".into()))
}

#[inline]
fn dereference(heap: &Heap, object: u64, intent: c_int) -> Result<*mut u8, Error> {
    let object = parse(object)?;
    if intent & !WRITE != 0 {
        return Err(Error::Invalid(format!("intent is {intent}; see enum aq_intent")));
    }
    if intent & WRITE != 0 {
        let mut used = heap.write(object)?;
        let bytes = used.as_mut_ptr();
        std::mem::forget(used);
        return Ok(bytes);
    }
    let used = heap.read(object)?;
    let bytes = used.as_ptr().cast_mut();
    std::mem::forget(used);
    Ok(bytes)
}

#[inline]
fn release(heap: &Heap, object: u64) -> Result<(), Error> {
    heap.end_use(parse(object)?)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_ref_of(object: *const c_void) -> u64 {
    default_heap::with(false, |heap| reference(heap, object)).unwrap_or(0)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_ref_of(heap: *mut AqHeap, object: *const c_void) -> u64 {
    // SAFETY: passed on to the caller.
    match unsafe { with(heap, |heap| reference(heap, object)) } {
        Ok(bits) => bits,
        Err(error) => {
            crate::message::fail(&error);
            0
        }
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_deref(object: u64, intent: c_int) -> *mut c_void {
    default_heap::with(false, |heap| dereference(heap, object, intent))
        .map_or(std::ptr::null_mut(), <*mut u8>::cast)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_deref(heap: *mut AqHeap, object: u64, intent: c_int) -> *mut c_void {
    // SAFETY: passed on to the caller.
    pointer(unsafe { with(heap, |heap| dereference(heap, object, intent)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_release(object: u64) -> c_int {
    default_heap::with(false, |heap| release(heap, object)).err().unwrap_or(0)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_release(heap: *mut AqHeap, object: u64) -> c_int {
    // SAFETY: passed on to the caller.
    code(unsafe { with(heap, |heap| release(heap, object)) })
}
