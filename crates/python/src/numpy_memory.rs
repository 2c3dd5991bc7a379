//! A heap as the allocator of NumPy's arrays (NEP 49).
//!
//! Each array keeps the handler that it was allocated with, a capsule, so that memory goes back to where it came from, whichever
//! handler is in use then. A handler lives as long as an array keeps it, and its heap with it.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aquifer::{Error, Hint};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyImportError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::exception;
use crate::heap::Heap;

/// What NumPy calls a handler's capsule.
const CAPSULE: &CStr = c"mem_handler";
/// Alignment of blocks: that of the longest vectors.
const ALIGN: usize = 64;
/// Places of functions in NumPy's table, since 1.22.
const SET_HANDLER: usize = 304;

/// `PyDataMemAllocator`
#[repr(C)]
struct Allocator {
    context: *mut Context,
    malloc: unsafe extern "C" fn(*mut Context, usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(*mut Context, usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut Context, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut Context, *mut c_void, usize),
}

/// `PyDataMem_Handler`
#[repr(C)]
struct Handler {
    name: [c_char; 127],
    version: u8,
    allocator: Allocator,
}

/// Where a handler allocates.
struct Context {
    heap: Arc<aquifer::Heap>,
    /// Blocks of arrays in the heap.
    blocks: Arc<AtomicUsize>,
    /// Arrays of fewer bytes stay in ordinary memory.
    threshold: usize,
}

impl Context {
    /// A block of the heap, or NULL; in a forked child, which has no heap, ordinary memory.
    fn allocate(&self, bytes: usize, zeroed: bool) -> *mut c_void {
        match self.heap.allocate_block(bytes, ALIGN) {
            Ok(block) => {
                self.blocks.fetch_add(1, Ordering::Relaxed);
                if zeroed && self.heap.block_is_recycled(bytes) {
                    // SAFETY: the block is new and has that many bytes.
                    unsafe { block.write_bytes(0, bytes) };
                }
                block.cast()
            }
            // SAFETY: a plain allocation.
            Err(Error::Forked) => unsafe { libc::calloc(1, bytes) },
            Err(_) => null_mut(),
        }
    }

    fn has(&self, block: *mut c_void) -> bool {
        self.heap.contains(block.cast())
    }

    fn free(&self, block: *mut c_void) {
        if self.heap.free(block.cast()).is_ok() {
            self.blocks.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// # Safety
/// `context` is a handler's, as NumPy passes it.
unsafe extern "C" fn malloc(context: *mut Context, bytes: usize) -> *mut c_void {
    // SAFETY: the caller says so.
    let context = unsafe { &*context };
    if bytes >= context.threshold {
        return context.allocate(bytes, false);
    }
    // SAFETY: a plain allocation.
    unsafe { libc::malloc(bytes.max(1)) }
}

/// # Safety
/// As [`malloc`].
unsafe extern "C" fn calloc(context: *mut Context, count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: the caller says so.
    let context = unsafe { &*context };
    match count.checked_mul(bytes) {
        Some(all) if all >= context.threshold => context.allocate(all, true),
        // SAFETY: a plain allocation.
        Some(all) => unsafe { libc::calloc(1, all.max(1)) },
        None => null_mut(),
    }
}

/// # Safety
/// As [`malloc`]; `block` is one of this handler.
unsafe extern "C" fn realloc(context: *mut Context, block: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the caller says so.
    let here = unsafe { &*context };
    let is_ours = here.has(block);
    if !is_ours && bytes < here.threshold {
        // SAFETY: the block is one of the C library, or NULL.
        return unsafe { libc::realloc(block, bytes.max(1)) };
    }
    if is_ours && here.heap.resize_block(block.cast(), bytes.max(1)).unwrap_or(false) {
        return block;
    }
    let before = match here.heap.usable_bytes(block.cast()) {
        Ok(bytes) if is_ours => bytes,
        // SAFETY: the block is one of the C library, or NULL.
        _ => unsafe { libc::malloc_usable_size(block) },
    };
    // SAFETY: as this function.
    let moved = unsafe { malloc(context, bytes) };
    if !moved.is_null() && !block.is_null() {
        // SAFETY: both have that many bytes, and the old one is given up.
        unsafe {
            std::ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), before.min(bytes));
            free(context, block, before);
        }
    }
    moved
}

/// # Safety
/// As [`realloc`]; the block is given up.
unsafe extern "C" fn free(context: *mut Context, block: *mut c_void, _bytes: usize) {
    // SAFETY: the caller says so.
    let context = unsafe { &*context };
    if context.has(block) {
        return context.free(block);
    }
    // SAFETY: it is one of the C library.
    unsafe { libc::free(block) }
}

/// # Safety
/// `capsule` is one of [`handler`], which nobody has any more.
unsafe extern "C" fn forget(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule has a handler, which was a box, with a context, which was one too.
    unsafe {
        let handler = ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast::<Handler>();
        if !handler.is_null() {
            let handler = Box::from_raw(handler);
            drop(Box::from_raw(handler.allocator.context));
        }
    }
}

/// A handler that allocates arrays of at least `threshold` bytes in `heap`, for [`set_handler`].
#[pyfunction]
pub(crate) fn handler(py: Python<'_>, heap: &Heap, threshold: usize) -> PyResult<Py<PyAny>> {
    let (shared, blocks) = (heap.shared.open()?, heap.shared.blocks());
    let context = Box::into_raw(Box::new(Context { heap: shared, blocks, threshold: threshold.max(1) }));
    let mut name = [0; 127];
    for (to, from) in name.iter_mut().zip(b"aquifer") {
        *to = *from as c_char;
    }
    let handler = Box::new(Handler {
        name,
        version: 1,
        allocator: Allocator { context, malloc, calloc, realloc, free },
    });
    // SAFETY: the capsule owns the box; the name lives for ever.
    unsafe {
        let capsule = ffi::PyCapsule_New(Box::into_raw(handler).cast(), CAPSULE.as_ptr(), Some(forget));
        Bound::from_owned_ptr_or_err(py, capsule).map(Bound::unbind)
    }
}

/// Makes a handler that of this context, NumPy's own if it is None, and returns the one before.
#[pyfunction]
pub(crate) fn set_handler(py: Python<'_>, handler: Option<Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
    let core =
        py.import("numpy._core._multiarray_umath").or_else(|_| py.import("numpy.core._multiarray_umath"))?;
    let api = core.getattr("_ARRAY_API")?.cast_into::<PyCapsule>()?;
    let set: Option<unsafe extern "C" fn(*mut ffi::PyObject) -> *mut ffi::PyObject>;
    // SAFETY: NumPy's table has that function at this place since 1.22, and the package needs 1.26.
    unsafe {
        let table = ffi::PyCapsule_GetPointer(api.as_ptr(), std::ptr::null()).cast::<*const c_void>();
        if table.is_null() {
            return Err(PyImportError::new_err("NumPy has no table of its functions"));
        }
        set = std::mem::transmute::<*const c_void, Option<_>>(*table.add(SET_HANDLER));
    }
    let set = set.ok_or_else(|| PyImportError::new_err("this NumPy has no handlers of memory; 1.22 has"))?;
    // SAFETY: a capsule of this name, or NULL for NumPy's own.
    unsafe {
        let before = set(handler.map_or(null_mut(), |handler| handler.as_ptr()));
        Bound::from_owned_ptr_or_err(py, before).map(Bound::unbind)
    }
}

/// Has the memory of an array of `heap` leave RAM before other memory.
#[pyfunction]
pub(crate) fn give_back(py: Python<'_>, heap: &Heap, array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    let heap = heap.shared.open()?;
    if !array.is_contiguous() {
        return Err(PyValueError::new_err(
            "the array is not contiguous: give back the one that it is a view of",
        ));
    }
    // SAFETY: the array is alive, and its fields are read only.
    let address = unsafe { (*array.as_array_ptr()).fields.data }.expose_provenance();
    let bytes = array.len() * array.dtype().itemsize();
    if bytes == 0 {
        return Ok(());
    }
    py.detach(|| heap.advise(with_exposed_provenance_mut(address), bytes, Hint::Cold))
        .map_err(|error| exception(&error))
}
