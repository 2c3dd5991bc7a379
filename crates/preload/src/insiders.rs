//! Blocks that the C library allocates for itself, and those of the library's own threads, in a program that has a malloc of its
//! own.
//!
//! The C library hands its buffers to the kernel without asking anybody, and the program's malloc may have its memory from the
//! heap. The library's threads may work for a thread that waits in the program's malloc and holds its locks. So these blocks come
//! from the C library's malloc, and are remembered, because they are freed by the same name.

use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use aquifer_sys::helper::is_helper;

use crate::real::{self, libc_free, libc_memalign, libc_realloc, libc_usable_bytes};
use crate::route::{is_insider, is_managed_address};

static BLOCKS: LazyLock<Mutex<HashSet<usize>>> = LazyLock::new(Mutex::default);
/// How many of them are in regions of a hash, so that most of the program's own blocks are told apart without the lock:
/// the C library has its memory elsewhere. Neighbours share a counter, which stays in the processor's cache.
static COUNTS: [AtomicU32; 4096] = [const { AtomicU32::new(0) }; 4096];
const REGION_SHIFT: u32 = 20;

fn blocks() -> MutexGuard<'static, HashSet<usize>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No thread is at the blocks while this lives.
pub struct Rest {
    _blocks: MutexGuard<'static, HashSet<usize>>,
}

/// Keeps threads from the blocks: around a fork.
pub fn rest() -> Rest {
    Rest { _blocks: blocks() }
}

fn count(block: *const c_void) -> &'static AtomicU32 {
    let hash = (block as u64 >> REGION_SHIFT).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
    &COUNTS[hash as usize]
}

/// Counts `block` before the caller gets it, so that a thread that frees it sees the count.
fn remember(blocks: &mut HashSet<usize>, block: *const c_void) {
    if !block.is_null() && blocks.insert(block as usize) {
        count(block).fetch_add(1, Ordering::Relaxed);
    }
}

fn forget(blocks: &mut HashSet<usize>, block: *const c_void) {
    if blocks.remove(&(block as usize)) {
        count(block).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a block for the code at `caller` must come from the C library although the program has a malloc of its own.
pub fn is_one(caller: usize) -> bool {
    (is_insider(caller) || is_helper()) && real::is_foreign()
}

/// A block for the C library.
pub fn allocate(align: usize, bytes: usize) -> *mut c_void {
    let block = libc_memalign(align, bytes);
    remember(&mut blocks(), block);
    block
}

/// Whether `block` was allocated here for the C library.
pub fn has(block: *const c_void) -> bool {
    count(block).load(Ordering::Relaxed) > 0
        && real::is_foreign()
        && !is_managed_address(block as usize)
        && blocks().contains(&(block as usize))
}

/// As `realloc`.
///
/// # Safety
/// The block is one of these.
pub unsafe fn resize(block: *mut c_void, bytes: usize) -> *mut c_void {
    let mut blocks = blocks();
    forget(&mut blocks, block);
    // SAFETY: passed on to the caller.
    let moved = unsafe { libc_realloc(block, bytes) };
    remember(&mut blocks, if moved.is_null() && bytes > 0 { block } else { moved });
    moved
}

/// As `free`.
///
/// # Safety
/// The block is one of these.
pub unsafe fn free(block: *mut c_void) {
    forget(&mut blocks(), block);
    // SAFETY: passed on to the caller.
    unsafe { libc_free(block) };
}

/// As `malloc_usable_size`.
///
/// # Safety
/// The block is one of these.
pub unsafe fn usable_bytes(block: *mut c_void) -> usize {
    // SAFETY: passed on to the caller.
    unsafe { libc_usable_bytes(block) }
}
