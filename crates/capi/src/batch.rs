//! Many objects at once, now or in the background.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use aquifer::{Error, Heap, Item, Transfer, run_in_background};

use crate::default_heap;
use crate::heap::{AqHeap, null, with_shared};
use crate::message::{self, code};

/// `aq_item`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AqItem {
    object: *mut c_void,
    memory: *mut c_void,
    bytes: usize,
}

/// # Safety
/// `items` has `count` items, whose memory has the bytes they say.
unsafe fn transfer(heap: &Heap, items: *const AqItem, count: usize, write: bool) -> Result<(), Error> {
    if count == 0 {
        return Ok(());
    }
    if items.is_null() {
        return Err(null("items"));
    }
    // SAFETY: the caller says so.
    let items = unsafe { std::slice::from_raw_parts(items, count) };
    if items.iter().any(|item| item.memory.is_null() && item.bytes > 0) {
        return Err(null("memory of an item"));
    }
    let item =
        |item: &AqItem| Item { address: item.object as usize, memory: item.memory.cast(), bytes: item.bytes };
    // SAFETY: the caller says so.
    unsafe {
        heap.transfer(&mut items.iter().map(item), if write { Transfer::Write } else { Transfer::Read })
    }
}

/// A batch in the background.
struct Job {
    heap: Arc<Heap>,
    items: *const AqItem,
    count: usize,
    write: bool,
    eventfd: c_int,
    result: *mut c_int,
}

// SAFETY: the caller of aq_batch_start leaves items, memory and result alone until the batch has ended.
unsafe impl Send for Job {}

/// Value of a result while its batch is under way.
const UNDER_WAY: c_int = -1;

fn run(job: &Job) {
    // SAFETY: the caller of aq_batch_start answers for items and memory.
    let outcome = code(unsafe { transfer(&job.heap, job.items, job.count, job.write) });
    // SAFETY: the result lives until the batch has ended.
    unsafe { AtomicI32::from_ptr(job.result) }.store(outcome, Ordering::Release);
    if job.eventfd >= 0 {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes of ours. A counter that is full wakes who waits anyway.
        unsafe { libc::write(job.eventfd, one.as_ptr().cast(), one.len()) };
    }
}

/// # Safety
/// As `aq_batch_start`.
unsafe fn start(
    heap: Arc<Heap>,
    items: *const AqItem,
    count: usize,
    write: c_int,
    eventfd: c_int,
    result: *mut c_int,
) -> Result<(), Error> {
    if result.is_null() || (items.is_null() && count > 0) {
        return Err(null("items or result"));
    }
    // SAFETY: not NULL, and the caller's.
    unsafe { AtomicI32::from_ptr(result) }.store(UNDER_WAY, Ordering::Release);
    let job = Job { heap, items, count, write: write != 0, eventfd, result };
    run_in_background(Box::new(move || run(&job)))
}

macro_rules! now {
    ($($of_default:ident, $of_heap:ident, $write:literal;)*) => {$(
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $of_default(items: *const AqItem, count: usize) -> c_int {
            // SAFETY: passed on to the caller.
            default_heap::with(false, |heap| unsafe { transfer(heap, items, count, $write) }).err().unwrap_or(0)
        }

        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $of_heap(heap: *mut AqHeap, items: *const AqItem, count: usize) -> c_int {
            // SAFETY: passed on to the caller.
            code(unsafe { with_shared(heap, |heap| transfer(heap, items, count, $write)) })
        }
    )*};
}

now! {
    aq_read_batch, aq_heap_read_batch, false;
    aq_write_batch, aq_heap_write_batch, true;
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_batch_start(
    items: *const AqItem,
    count: usize,
    write: c_int,
    eventfd: c_int,
    result: *mut c_int,
) -> c_int {
    match default_heap::shared() {
        // SAFETY: passed on to the caller.
        Ok(heap) => code(unsafe { start(heap, items, count, write, eventfd, result) }),
        Err(number) => number,
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_heap_batch_start(
    heap: *mut AqHeap,
    items: *const AqItem,
    count: usize,
    write: c_int,
    eventfd: c_int,
    result: *mut c_int,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe {
        let begin = |heap: &_| start(Clone::clone(heap), items, count, write, eventfd, result);
        message::code(with_shared(heap, begin))
    }
}
