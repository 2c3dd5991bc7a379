//! The heap of functions that name none, and these functions.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use aquifer::{AllocationClass, Error, ErrorCode, Heap, Options};

use crate::abi::{AqOptions, AqStats};
use crate::{heap, message, sized};

static DEFAULT: RwLock<Option<Arc<Heap>>> = RwLock::new(None);

/// Opens the default heap.
pub(crate) fn open(options: Options) -> Result<(), i32> {
    let mut slot = DEFAULT.write().unwrap_or_else(PoisonError::into_inner);
    if slot.is_some() {
        return Err(message::fail_with(ErrorCode::Open, "the default heap is open already"));
    }
    *slot = Some(Arc::new(Heap::open(options).map_err(|error| message::fail(&error))?));
    Ok(())
}

/// The heap, for work that may outlast the call; it is closed when that has ended.
pub(crate) fn shared() -> Result<Arc<Heap>, i32> {
    let heap = DEFAULT.read().unwrap_or_else(PoisonError::into_inner);
    heap.clone().ok_or_else(|| message::fail_with(ErrorCode::Closed, "the default heap is not open"))
}

/// Closes it.
pub(crate) fn close() -> Result<(), i32> {
    let heap = DEFAULT.write().unwrap_or_else(PoisonError::into_inner).take();
    match heap {
        Some(_) => Ok(()),
        None => Err(message::fail_with(ErrorCode::Closed, "the default heap is not open")),
    }
}

/// Runs `with` on the default heap, opening it from the environment if `open_first`. `None`: the message
/// was kept.
pub(crate) fn with<T>(open_first: bool, with: impl FnOnce(&Heap) -> Result<T, Error>) -> Result<T, i32> {
    let heap = DEFAULT.read().unwrap_or_else(PoisonError::into_inner);
    if heap.is_some() {
        return run(heap, with);
    }
    drop(heap);
    if !open_first {
        return Err(message::fail_with(ErrorCode::Closed, "the default heap is not open; call aq_init"));
    }
    let opened = Options::from_env().map_err(|error| message::fail(&error)).and_then(open);
    // Another thread may have been first; that is as good.
    if let Err(code) = opened
        && code != ErrorCode::Open as i32
    {
        return Err(code);
    }
    run(DEFAULT.read().unwrap_or_else(PoisonError::into_inner), with)
}

fn run<T>(
    heap: RwLockReadGuard<'_, Option<Arc<Heap>>>,
    with: impl FnOnce(&Heap) -> Result<T, Error>,
) -> Result<T, i32> {
    match &*heap {
        Some(heap) => with(heap).map_err(|error| message::fail(&error)),
        None => Err(message::fail_with(ErrorCode::Closed, "the default heap was closed meanwhile")),
    }
}

fn pointer(run: impl FnOnce(&Heap) -> Result<*mut u8, Error>) -> *mut c_void {
    with(true, run).map_or(std::ptr::null_mut(), <*mut u8>::cast)
}

fn code(run: impl FnOnce(&Heap) -> Result<(), Error>) -> c_int {
    with(false, run).err().unwrap_or(0)
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn aq_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_init(options: *const AqOptions) -> c_int {
    let options = if options.is_null() {
        Options::from_env()
    } else {
        // SAFETY: the caller's options, whose strings end with zero bytes, the header says.
        unsafe { sized::read(options).and_then(|options| options.to_options()) }
    };
    match options {
        Ok(options) => open(options).err().unwrap_or(0),
        Err(error) => message::fail(&error),
    }
}

/// Closes the default heap.
#[unsafe(no_mangle)]
pub extern "C" fn aq_shutdown() -> c_int {
    close().err().unwrap_or(0)
}

/// As `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn aq_malloc(size: usize) -> *mut c_void {
    pointer(|heap| heap.allocate(size))
}

/// As `calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn aq_calloc(count: usize, size: usize) -> *mut c_void {
    pointer(|heap| heap::calloc(heap, count, size))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_realloc(object: *mut c_void, size: usize) -> *mut c_void {
    pointer(|heap| heap::realloc(heap, object.cast(), size))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_free(object: *mut c_void) -> c_int {
    if object.is_null() {
        return 0;
    }
    code(|heap| heap::free(heap, object.cast()))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_array(count: usize, size: usize, stride: *mut usize) -> *mut c_void {
    // SAFETY: passed on to the caller.
    pointer(|heap| unsafe { heap::array(heap, count, size, stride) })
}

/// As `malloc`, for blocks that share pages.
#[unsafe(no_mangle)]
pub extern "C" fn aq_page_malloc(size: usize) -> *mut c_void {
    pointer(|heap| heap::allocate_block(heap, size))
}

/// As `calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn aq_page_calloc(count: usize, size: usize) -> *mut c_void {
    pointer(|heap| heap::allocate_zeroed_block(heap, count, size))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_page_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    pointer(|heap| heap::resize_block(heap, block.cast(), size))
}

/// As `memalign`.
#[unsafe(no_mangle)]
pub extern "C" fn aq_page_memalign(alignment: usize, size: usize) -> *mut c_void {
    pointer(|heap| heap.allocate_block(size, alignment))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_usable_size(object: *const c_void) -> usize {
    with(false, |heap| heap.usable_bytes(object.cast())).unwrap_or(0)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_prefetch(objects: *const *const u8, count: usize) -> c_int {
    // SAFETY: passed on to the caller.
    code(|heap| unsafe { heap::prefetch(heap, objects, count) })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_advise(address: *const c_void, bytes: usize, hint: c_int) -> c_int {
    code(|heap| heap::advise(heap, address.cast(), bytes, hint))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_pin(address: *mut c_void, bytes: usize) -> c_int {
    code(|heap| heap.pin(address.cast(), bytes))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_unpin(address: *mut c_void, bytes: usize) -> c_int {
    code(|heap| heap.unpin(address.cast(), bytes))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_stats_get(stats: *mut AqStats) -> c_int {
    // SAFETY: passed on to the caller.
    code(|heap| unsafe { heap::stats(heap, stats) })
}

/// Proves that the default heap's parts agree.
#[unsafe(no_mangle)]
pub extern "C" fn aq_check() -> c_int {
    code(Heap::check)
}

/// The class of what the calling thread allocates, in any heap.
#[unsafe(no_mangle)]
pub extern "C" fn aq_class() -> c_uint {
    aquifer::current_class().0.into()
}

/// Objects that the calling thread allocates from now on are of this class.
#[unsafe(no_mangle)]
pub extern "C" fn aq_set_class(number: c_uint) -> c_int {
    match u8::try_from(number) {
        Ok(number) => {
            aquifer::set_class(AllocationClass(number));
            0
        }
        Err(_) => {
            message::fail(&Error::Invalid(format!("class {number} is above {} (AQ_CLASS_MAX)", u8::MAX)))
        }
    }
}
