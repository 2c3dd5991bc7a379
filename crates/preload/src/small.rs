//! Small blocks that stay with the C library, how much memory they are, and from when on they do not.
//!
//! The C library's malloc is fast, and what it has is never managed. So small blocks are its own as long as they are a small part of the
//! RAM that was given. Beyond that new ones come from the heap, until enough of the others have been freed.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use aquifer_sys::own;

use crate::real;

/// The part of the RAM that small blocks of the C library may be: one in so many, and the least.
const PART: i64 = 8;
const BYTES_MIN: i64 = 2 << 20;
/// A thread's own count is added to that of all beyond so much.
const FLUSH_BYTES: i64 = 16 << 10;

/// What the C library has in blocks, about: each thread may have [`FLUSH_BYTES`] that are not counted yet.
static BYTES: AtomicI64 = AtomicI64::new(0);
/// Beyond this small blocks come from the heap.
static LIMIT: AtomicI64 = AtomicI64::new(i64::MAX);
/// It counts: the blocks are those of the C library's own malloc.
static IS_COUNTED: AtomicBool = AtomicBool::new(false);
/// Smallest block that comes from the heap as long as small ones do not.
static LARGE: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Smallest block that comes from the heap now.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Blocks of `threshold` bytes and more come from the heap from now on; with `ram_bytes` smaller ones too, when those of the C library are
/// a large part of that.
pub fn begin(threshold: usize, ram_bytes: Option<u64>) {
    if let Some(ram_bytes) = ram_bytes.filter(|_| !real::is_foreign()) {
        LIMIT.store((ram_bytes as i64 / PART).max(BYTES_MIN), Ordering::Relaxed);
        IS_COUNTED.store(true, Ordering::Relaxed);
    }
    LARGE.store(threshold, Ordering::Relaxed);
    THRESHOLD.store(threshold, Ordering::Release);
}

/// Smallest block that comes from the heap now.
#[inline]
pub fn threshold() -> usize {
    THRESHOLD.load(Ordering::Relaxed)
}

/// What the C library has in blocks, about.
pub fn bytes() -> u64 {
    BYTES.load(Ordering::Relaxed).max(0) as u64
}

/// The C library gave `block` out, or none.
#[inline]
pub fn taken(block: *mut c_void) -> *mut c_void {
    if IS_COUNTED.load(Ordering::Relaxed) && !block.is_null() {
        // SAFETY: a block of the C library's malloc.
        note(unsafe { own_bytes(block) });
    }
    block
}

/// The C library is about to be given `block` back, or none.
#[inline]
pub fn gives(block: *mut c_void) {
    if IS_COUNTED.load(Ordering::Relaxed) && !block.is_null() && !real::is_early(block) {
        // SAFETY: as above.
        note(-unsafe { own_bytes(block) });
    }
}

/// Bytes of a block that count: not of one that is a mapping of its own.
///
/// # Safety
/// A block of the C library's malloc.
unsafe fn own_bytes(block: *mut c_void) -> i64 {
    // SAFETY: passed on to the caller.
    unsafe { real::libc_heap_bytes(block) as i64 }
}

#[inline]
fn note(bytes: i64) {
    own::with(|own| {
        let all = own.small_bytes.get() + bytes;
        own.small_bytes.set(all);
        if all.abs() >= FLUSH_BYTES {
            own.small_bytes.set(0);
            count(all);
        }
    });
}

#[cold]
fn count(bytes: i64) {
    let all = BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
    let limit = LIMIT.load(Ordering::Relaxed);
    if all > limit {
        THRESHOLD.store(0, Ordering::Relaxed);
    } else if all < limit / 4 * 3 {
        THRESHOLD.store(LARGE.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
