//! Functions of explicit heaps, and what both kinds share: objects, and blocks that share pages.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use aquifer::{Error, Heap, Hint};

use crate::abi::{AqOptions, AqStats, write_stats};
use crate::message::{code, fail, pointer};
use crate::sized;

/// `aq_heap`
pub struct AqHeap(Arc<Heap>);

pub(crate) fn null(what: &str) -> Error {
    Error::Invalid(format!("{what} is NULL"))
}

fn multiply(count: usize, size: usize) -> Result<usize, Error> {
    count
        .checked_mul(size)
        .ok_or_else(|| Error::Invalid(format!("{count} objects of {size} bytes overflow the address space")))
}

pub(crate) fn calloc(heap: &Heap, count: usize, size: usize) -> Result<*mut u8, Error> {
    // New objects read as zeros anyway.
    heap.allocate(multiply(count, size)?)
}

pub(crate) fn realloc(heap: &Heap, object: *mut u8, size: usize) -> Result<*mut u8, Error> {
    if object.is_null() {
        return heap.allocate(size);
    }
    let usable = heap.usable_bytes(object)?;
    if size <= usable && size > usable / 2 {
        return Ok(object);
    }
    // An object keeps its class, whichever thread makes it larger.
    let new = aquifer::with_class(heap.class_of(object)?, || heap.allocate(size))?;
    move_to(heap, object, new, usable.min(size))
}

/// As `malloc` aligns.
const ALIGN: usize = 16;

pub(crate) fn allocate_block(heap: &Heap, size: usize) -> Result<*mut u8, Error> {
    heap.allocate_block(size, ALIGN)
}

pub(crate) fn allocate_zeroed_block(heap: &Heap, count: usize, size: usize) -> Result<*mut u8, Error> {
    let bytes = multiply(count, size)?;
    let block = allocate_block(heap, bytes)?;
    if heap.block_is_recycled(bytes) {
        // SAFETY: the block is ours and has that many bytes.
        unsafe { block.write_bytes(0, bytes) };
    }
    Ok(block)
}

pub(crate) fn resize_block(heap: &Heap, block: *mut u8, size: usize) -> Result<*mut u8, Error> {
    if block.is_null() {
        return allocate_block(heap, size);
    }
    let usable = heap.usable_bytes(block)?;
    if (size <= usable && size > usable / 2) || heap.resize_block(block, size)? {
        return Ok(block);
    }
    move_to(heap, block, allocate_block(heap, size)?, usable.min(size))
}

/// Ends a `realloc` that must move: copies `bytes` to the new place and frees the old one, which stays the valid one if that
/// fails.
fn move_to(heap: &Heap, old: *mut u8, new: *mut u8, bytes: usize) -> Result<*mut u8, Error> {
    // SAFETY: both have that many bytes and do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(old, new, bytes) };
    if let Err(error) = heap.free(old) {
        let _ = heap.free(new);
        return Err(error);
    }
    Ok(new)
}

pub(crate) fn free(heap: &Heap, object: *mut u8) -> Result<(), Error> {
    if object.is_null() { Ok(()) } else { heap.free(object) }
}

/// # Safety
/// `stride` is NULL or may be written.
pub(crate) unsafe fn array(
    heap: &Heap,
    count: usize,
    size: usize,
    stride: *mut usize,
) -> Result<*mut u8, Error> {
    let array = heap.array(count, size)?;
    if !stride.is_null() {
        // SAFETY: the caller says so.
        unsafe { *stride = array.stride_bytes() };
    }
    Ok(array.base())
}

/// # Safety
/// `objects` points to `count` pointers.
pub(crate) unsafe fn prefetch(heap: &Heap, objects: *const *const u8, count: usize) -> Result<(), Error> {
    if count == 0 {
        return Ok(());
    }
    if objects.is_null() {
        return Err(null("objects"));
    }
    // SAFETY: the caller says so.
    heap.prefetch(unsafe { std::slice::from_raw_parts(objects, count) })
}

/// # Safety
/// `stats` is NULL or points to a structure whose first field is its size.
pub(crate) unsafe fn stats(heap: &Heap, stats: *mut AqStats) -> Result<(), Error> {
    if stats.is_null() {
        return Err(null("stats"));
    }
    heap.ensure_usable()?;
    // SAFETY: the caller says so.
    unsafe { write_stats(stats, heap.stats()) }
}

/// # Safety
/// `heap` is NULL or was returned by `aq_heap_open` and not closed.
pub(crate) unsafe fn with<T>(
    heap: *mut AqHeap,
    run: impl FnOnce(&Heap) -> Result<T, Error>,
) -> Result<T, Error> {
    // SAFETY: passed on to the caller.
    unsafe { with_shared(heap, |heap| run(heap)) }
}

/// As [`with`], for work that may outlast the call.
///
/// # Safety
/// As [`with`].
pub(crate) unsafe fn with_shared<T>(
    heap: *mut AqHeap,
    run: impl FnOnce(&Arc<Heap>) -> Result<T, Error>,
) -> Result<T, Error> {
    // SAFETY: the caller says so.
    match unsafe { heap.as_ref() } {
        Some(heap) => run(&heap.0),
        None => Err(null("heap")),
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_options_init(options: *mut AqOptions, struct_bytes: usize) {
    // SAFETY: passed on to the caller.
    unsafe { sized::init(options, struct_bytes) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_open(options: *const AqOptions, heap: *mut *mut AqHeap) -> c_int {
    if heap.is_null() {
        return fail(&null("heap"));
    }
    // SAFETY: NULL, or the caller's options, whose strings end with zero bytes, the header says.
    let options = unsafe { sized::read(options).and_then(|options| options.to_options()) };
    match options.and_then(Heap::open) {
        Ok(opened) => {
            // SAFETY: checked above.
            unsafe { *heap = Box::into_raw(Box::new(AqHeap(Arc::new(opened)))) };
            0
        }
        Err(error) => fail(&error),
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_close(heap: *mut AqHeap) -> c_int {
    if heap.is_null() {
        return fail(&null("heap"));
    }
    // SAFETY: made by aq_heap_open; the caller does not use it again.
    drop(unsafe { Box::from_raw(heap) });
    0
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_malloc(heap: *mut AqHeap, size: usize) -> *mut c_void {
    // SAFETY: passed on to the caller.
    pointer(unsafe { with(heap, |heap| heap.allocate(size)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_calloc(heap: *mut AqHeap, count: usize, size: usize) -> *mut c_void {
    // SAFETY: passed on to the caller.
    pointer(unsafe { with(heap, |heap| calloc(heap, count, size)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_realloc(heap: *mut AqHeap, object: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: passed on to the caller.
    pointer(unsafe { with(heap, |heap| realloc(heap, object.cast(), size)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_free(heap: *mut AqHeap, object: *mut c_void) -> c_int {
    // SAFETY: passed on to the caller.
    code(unsafe { with(heap, |heap| free(heap, object.cast())) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_array(
    heap: *mut AqHeap,
    count: usize,
    size: usize,
    stride: *mut usize,
) -> *mut c_void {
    // SAFETY: passed on to the caller.
    pointer(unsafe { with(heap, |heap| array(heap, count, size, stride)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_page_malloc(heap: *mut AqHeap, size: usize) -> *mut c_void {
    // SAFETY: passed on to the caller.
    pointer(unsafe { with(heap, |heap| allocate_block(heap, size)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_page_calloc(heap: *mut AqHeap, count: usize, size: usize) -> *mut c_void {
    // SAFETY: passed on to the caller.
    pointer(unsafe { with(heap, |heap| allocate_zeroed_block(heap, count, size)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_page_realloc(
    heap: *mut AqHeap,
    block: *mut c_void,
    size: usize,
) -> *mut c_void {
    // SAFETY: passed on to the caller.
    pointer(unsafe { with(heap, |heap| resize_block(heap, block.cast(), size)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_page_memalign(
    heap: *mut AqHeap,
    alignment: usize,
    size: usize,
) -> *mut c_void {
    // SAFETY: passed on to the caller.
    pointer(unsafe { with(heap, |heap| heap.allocate_block(size, alignment)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_usable_size(heap: *mut AqHeap, object: *const c_void) -> usize {
    // SAFETY: passed on to the caller.
    unsafe { with(heap, |heap| heap.usable_bytes(object.cast())) }.unwrap_or(0)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_prefetch(
    heap: *mut AqHeap,
    objects: *const *const u8,
    count: usize,
) -> c_int {
    // SAFETY: passed on to the caller.
    code(unsafe { with(heap, |heap| prefetch(heap, objects, count)) })
}

pub(crate) fn advise(heap: &Heap, address: *const u8, bytes: usize, hint: c_int) -> Result<(), Error> {
    let hint = match hint {
        0 => Hint::WillNeed,
        1 => Hint::Sequential,
        2 => Hint::Random,
        3 => Hint::Cold,
        other => return Err(Error::Invalid(format!("hint is {other}; see enum aq_hint"))),
    };
    heap.advise(address, bytes, hint)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_advise(
    heap: *mut AqHeap,
    address: *const c_void,
    bytes: usize,
    hint: c_int,
) -> c_int {
    // SAFETY: passed on to the caller.
    code(unsafe { with(heap, |heap| advise(heap, address.cast(), bytes, hint)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_pin(heap: *mut AqHeap, address: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: passed on to the caller.
    code(unsafe { with(heap, |heap| heap.pin(address.cast(), bytes)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_unpin(heap: *mut AqHeap, address: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: passed on to the caller.
    code(unsafe { with(heap, |heap| heap.unpin(address.cast(), bytes)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_stats_get(heap: *mut AqHeap, out: *mut AqStats) -> c_int {
    // SAFETY: passed on to the caller.
    code(unsafe { with(heap, |heap| stats(heap, out)) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_check(heap: *mut AqHeap) -> c_int {
    // SAFETY: passed on to the caller.
    code(unsafe { with(heap, Heap::check) })
}
