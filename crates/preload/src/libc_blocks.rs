//! Small blocks that stay with the C library, how much memory they are, and from when on they do not.
//!
//! The C library's malloc is fast, and what it has is never managed. So small blocks are its own as long as they are a small part of the
//! RAM that was given. Beyond that new ones come from the heap, until enough of the others have been freed.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};

use aquifer_sys::own;

use crate::real;

/// Small blocks of the C library may take one part of the RAM in `PART`, and `BYTES_MIN` at least.
const PART: i64 = 8;
const BYTES_MIN: i64 = 2 << 20;
/// Bytes that a thread counts by itself before it adds them to the count of all.
const FLUSH_BYTES: i64 = 16 << 10;

/// What the C library has in blocks, about: each thread may have [`FLUSH_BYTES`] that are not counted yet.
static BYTES: AtomicI64 = AtomicI64::new(0);
/// Beyond this small blocks come from the heap.
static LIMIT: AtomicI64 = AtomicI64::new(i64::MAX);
/// What has a thread's own count added when it ends.
static AT_END: AtomicU32 = AtomicU32::new(0);
/// It counts: the blocks are those of the C library's own malloc.
static IS_COUNTED: AtomicBool = AtomicBool::new(false);
/// Smallest block that comes from the heap as long as small ones do not.
static LARGE: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Smallest mapping that comes from the heap.
static MAPPING: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Smallest block that comes from the heap now.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Blocks of `threshold` bytes and mappings of `mapping` and more come from the heap from now on; with `ram_bytes` smaller ones too, when those of the C
/// library are a large part of that.
pub fn begin(threshold: usize, mapping: usize, ram_bytes: Option<u64>) {
    if let Some(ram_bytes) = ram_bytes.filter(|_| !real::is_foreign()) {
        LIMIT.store((ram_bytes as i64 / PART).max(BYTES_MIN), Ordering::Relaxed);
        let mut key = 0;
        // SAFETY: a key of ours, and a function for it that lives as long as the process.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(count_at_end)) } == 0 {
            AT_END.store(key, Ordering::Relaxed);
            IS_COUNTED.store(true, Ordering::Release);
        }
    }
    LARGE.store(threshold, Ordering::Relaxed);
    MAPPING.store(mapping, Ordering::Relaxed);
    THRESHOLD.store(threshold, Ordering::Release);
}

/// The memory is the heap's from now on, which has less for what the C library has: that stays as much.
pub fn settle() {
    let limit = LIMIT.load(Ordering::Relaxed);
    let has = BYTES.load(Ordering::Relaxed);
    LIMIT.store((has + has / 8).clamp(BYTES_MIN.min(limit), limit), Ordering::Relaxed);
}

/// Smallest block that comes from the heap now.
#[inline]
pub fn threshold() -> usize {
    THRESHOLD.load(Ordering::Relaxed)
}

/// Smallest mapping that comes from the heap, as long as small blocks do not.
#[inline]
pub fn mapping_threshold() -> usize {
    MAPPING.load(Ordering::Relaxed)
}

/// Whether a block of that size stays with the C library when it has it already.
pub fn may_stay(bytes: usize) -> bool {
    bytes < LARGE.load(Ordering::Relaxed)
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
        if all.abs() >= FLUSH_BYTES || !own.counts_at_end.get() {
            own.small_bytes.set(0);
            count(all);
            if !own.counts_at_end.replace(true) {
                count_when_thread_ends();
            }
        }
    });
}

#[cold]
fn count_when_thread_ends() {
    let something = std::ptr::dangling::<u8>().cast();
    // SAFETY: the key was created. It is one of the first, for which the C library allocates nothing.
    unsafe { libc::pthread_setspecific(AT_END.load(Ordering::Relaxed), something) };
}

/// A thread ends. What it does after this is counted when that is a lot.
unsafe extern "C" fn count_at_end(_: *mut c_void) {
    own::with(|own| {
        own.counts_at_end.set(false);
        count(own.small_bytes.replace(0));
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
