//! The functions that these stand in front of: those of the next library in the program's order, which is not always the C
//! library (a program may be linked with a malloc of its own).

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Finds a function behind this library.
pub fn find(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// A function behind this library.
pub struct Real {
    address: AtomicPtr<c_void>,
    name: &'static CStr,
}

unsafe extern "C" {
    /// The first of them, and the end: all stand in one section of this library.
    #[link_name = "__start_aquifer_real"]
    static FIRST: u8;
    #[link_name = "__stop_aquifer_real"]
    static END: u8;
}

impl Real {
    pub const fn new(name: &'static CStr) -> Self {
        Self { address: AtomicPtr::new(std::ptr::null_mut()), name }
    }

    pub fn get(&self) -> *mut c_void {
        let found = self.address.load(Ordering::Acquire);
        if found.is_null() { self.look_up() } else { found }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let found = find(self.name);
        self.address.store(found, Ordering::Release);
        found
    }
}

/// Looks all functions up. The linker has a lock, for which a thread of the heap must not wait: its holder may wait for the heap.
pub fn find_all() {
    let (mut at, end) = ((&raw const FIRST).cast::<Real>(), (&raw const END).cast::<Real>());
    while at < end {
        // SAFETY: the section holds these alone, and the pointer is in it.
        unsafe {
            (*at).get();
            at = at.add(1);
        }
    }
}

/// The function of that name and type behind this library.
macro_rules! real {
    ($name:ident: $type:ty) => {
        $crate::real::real!(@ #[used] #[unsafe(link_section = "aquifer_real")] $name: $type)
    };
    // A function that the C library may lack is looked up when it is called. A failed look-up has the dynamic
    // linker allocate and free its error message, and a malloc that begins with `main` may do neither before.
    (elsewhere $name:ident: $type:ty) => {
        $crate::real::real!(@ $name: $type)
    };
    (@ $(#[$attribute:meta])* $name:ident: $type:ty) => {{
        $(#[$attribute])*
        static REAL: $crate::real::Real = $crate::real::Real::new(
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
        );
        // SAFETY: the type is that of the function, as its manual page says; Option is NULL where there is none.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, Option<$type>>(REAL.get()) }
    }};
}
pub(crate) use real;

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Memalign = unsafe extern "C" fn(usize, usize) -> *mut c_void;

/// Memory for the dynamic linker while it looks for the real functions. Never given back.
const EARLY_BYTES: usize = 256 << 10;

#[repr(align(64))]
struct Early(std::cell::UnsafeCell<[u8; EARLY_BYTES]>);

// SAFETY: parts are given out once each, by EARLY_USED.
unsafe impl Sync for Early {}

static EARLY: Early = Early(std::cell::UnsafeCell::new([0; EARLY_BYTES]));
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

fn early(bytes: usize, align: usize) -> *mut c_void {
    let step = bytes.max(1).next_multiple_of(64) + align.max(64);
    let start = EARLY_USED.fetch_add(step, Ordering::Relaxed);
    if start + step > EARLY_BYTES {
        return std::ptr::null_mut();
    }
    let base = EARLY.0.get() as usize + start;
    base.next_multiple_of(align.max(64)) as *mut c_void
}

/// Whether the early memory has this address.
pub fn is_early(address: *const c_void) -> bool {
    (address as usize).wrapping_sub(EARLY.0.get() as usize) < EARLY_BYTES
}

/// A real function of the malloc family. NULL while the dynamic linker is still looking for it.
struct Found {
    address: AtomicPtr<c_void>,
    name: &'static CStr,
}

/// Whether this thread is inside of the dynamic linker on our behalf.
static FINDING: AtomicUsize = AtomicUsize::new(0);

fn thread_id() -> usize {
    // SAFETY: plain numbers.
    unsafe { libc::syscall(libc::SYS_gettid) as usize }
}

impl Found {
    const fn new(name: &'static CStr) -> Self {
        Self { address: AtomicPtr::new(std::ptr::null_mut()), name }
    }

    fn get(&self) -> *mut c_void {
        let found = self.address.load(Ordering::Acquire);
        if !found.is_null() {
            return found;
        }
        let own = thread_id();
        if FINDING.load(Ordering::Relaxed) == own {
            return std::ptr::null_mut();
        }
        FINDING.store(own, Ordering::Relaxed);
        let found = find(self.name);
        FINDING.store(0, Ordering::Relaxed);
        self.address.store(found, Ordering::Release);
        found
    }
}

static MALLOC: Found = Found::new(c"malloc");
static CALLOC: Found = Found::new(c"calloc");
static REALLOC: Found = Found::new(c"realloc");
static FREE: Found = Found::new(c"free");
static MEMALIGN: Found = Found::new(c"memalign");
static USABLE: Found = Found::new(c"malloc_usable_size");

macro_rules! function {
    ($found:ident, $type:ty) => {
        // SAFETY: the type is that of the function.
        unsafe { std::mem::transmute::<*mut c_void, Option<$type>>($found.get()) }
    };
}

/// As `malloc`.
pub fn malloc(bytes: usize) -> *mut c_void {
    match function!(MALLOC, Malloc) {
        // SAFETY: the real function.
        Some(malloc) => unsafe { malloc(bytes) },
        None => early(bytes, 64),
    }
}

/// As `calloc`.
pub fn calloc(count: usize, bytes: usize) -> *mut c_void {
    match function!(CALLOC, Calloc) {
        // SAFETY: the real function.
        Some(calloc) => unsafe { calloc(count, bytes) },
        None => count.checked_mul(bytes).map_or(std::ptr::null_mut(), |all| early(all, 64)),
    }
}

/// As `memalign`.
pub fn memalign(align: usize, bytes: usize) -> *mut c_void {
    match function!(MEMALIGN, Memalign) {
        // SAFETY: the real function.
        Some(memalign) => unsafe { memalign(align, bytes) },
        None => early(bytes, align),
    }
}

/// As `realloc`.
///
/// # Safety
/// The block is NULL or of the real functions.
pub unsafe fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    if is_early(block) {
        let moved = malloc(bytes);
        if !moved.is_null() {
            let room = EARLY.0.get() as usize + EARLY_BYTES - block as usize;
            // SAFETY: the early memory has that many bytes from the block on.
            unsafe { std::ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), bytes.min(room)) };
        }
        return moved;
    }
    match function!(REALLOC, Realloc) {
        // SAFETY: passed on to the caller.
        Some(realloc) => unsafe { realloc(block, bytes) },
        None => std::ptr::null_mut(),
    }
}

/// As `free`.
///
/// # Safety
/// The block is NULL or of the real functions.
pub unsafe fn free(block: *mut c_void) {
    if block.is_null() || is_early(block) {
        return;
    }
    if let Some(free) = function!(FREE, Free) {
        // SAFETY: passed on to the caller.
        unsafe { free(block) };
    }
}

/// As `malloc_usable_size`.
///
/// # Safety
/// The block is NULL or of the real functions.
pub unsafe fn usable_bytes(block: *mut c_void) -> usize {
    if block.is_null() || is_early(block) {
        return 0;
    }
    match function!(USABLE, unsafe extern "C" fn(*mut c_void) -> usize) {
        // SAFETY: passed on to the caller.
        Some(usable) => unsafe { usable(block) },
        None => 0,
    }
}

unsafe extern "C" {
    fn __libc_realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

/// Whether the program has a malloc of its own, in front of this library's or behind it.
pub fn has_own_malloc() -> bool {
    // SAFETY: the name ends with a zero byte.
    let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) } as usize;
    first != 0 && !crate::route::is_insider(first) || is_foreign()
}

/// Whether the program has a malloc of its own in front of the C library's.
pub fn is_foreign() -> bool {
    let found = MALLOC.get() as usize;
    found != 0 && !crate::route::is_insider(found) && crate::route::route().is_some()
}

/// As `memalign` of the C library.
pub fn libc_memalign(align: usize, bytes: usize) -> *mut c_void {
    // SAFETY: plain numbers.
    unsafe { __libc_memalign(align, bytes) }
}

/// As `realloc` of the C library.
///
/// # Safety
/// The block is one of the C library's.
pub unsafe fn libc_realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: passed on to the caller.
    unsafe { __libc_realloc(block, bytes) }
}

/// As `free` of the C library.
///
/// # Safety
/// The block is one of the C library's.
pub unsafe fn libc_free(block: *mut c_void) {
    // SAFETY: passed on to the caller.
    unsafe { __libc_free(block) };
}

/// Bytes of the C library's heap that a block takes, with its header; 0 for one that is a mapping of its own.
///
/// # Safety
/// The block is one of the C library's.
#[inline]
pub unsafe fn libc_heap_bytes(block: *mut c_void) -> usize {
    const FLAGS: usize = 7;
    const IS_MAPPED: usize = 2;
    // SAFETY: passed on to the caller.
    let size = unsafe { block.cast::<usize>().sub(1).read() };
    if size & IS_MAPPED == 0 { size & !FLAGS } else { 0 }
}

/// As `malloc_usable_size` of the C library, from the header that stands in front of its blocks.
///
/// # Safety
/// The block is one of the C library's.
pub unsafe fn libc_usable_bytes(block: *mut c_void) -> usize {
    const FLAGS: usize = 7;
    const IS_MAPPED: usize = 2;
    // SAFETY: passed on to the caller.
    let size = unsafe { block.cast::<usize>().sub(1).read() };
    let header = if size & IS_MAPPED != 0 { 2 } else { 1 };
    (size & !FLAGS) - header * size_of::<usize>()
}
