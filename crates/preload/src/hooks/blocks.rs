//! malloc and its family.
//!
//! The functions that allocate look at the address that they return to, to tell the C library's own blocks from the
//! program's; so each is a jump to one with that address as a last argument.

use std::arch::naked_asm;
use std::ffi::c_void;

use libc::{EINVAL, ENOMEM, c_int};

use crate::insiders;
use crate::protect;
use crate::route::{allocate, allocate_fresh, heap_for, is_block, resize, route, set_errno};
use crate::{libc_blocks, real};

const MALLOC_ALIGN: usize = 16;
const PAGE: usize = 4096;

/// A function that passes the address it returns to as one argument more, the `$nth`, to `$inner`.
macro_rules! with_caller {
    ($(fn $name:ident($($type:ty),*) -> $result:ty = $inner:path, $x86:literal, $arm:literal;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($(_: $type),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(concat!("mov ", $x86, ", [rsp]"), "jmp {inner}", inner = sym $inner);
            #[cfg(target_arch = "aarch64")]
            naked_asm!(concat!("mov ", $arm, ", x30"), "b {inner}", inner = sym $inner);
        }
    )*};
}

with_caller! {
    fn malloc(usize) -> *mut c_void = malloc_for, "rsi", "x1";
    fn calloc(usize, usize) -> *mut c_void = calloc_for, "rdx", "x2";
    fn realloc(*mut c_void, usize) -> *mut c_void = realloc_for, "rdx", "x2";
    fn reallocarray(*mut c_void, usize, usize) -> *mut c_void = reallocarray_for, "rcx", "x3";
    fn memalign(usize, usize) -> *mut c_void = memalign_for, "rdx", "x2";
    fn aligned_alloc(usize, usize) -> *mut c_void = memalign_for, "rdx", "x2";
    fn posix_memalign(*mut *mut c_void, usize, usize) -> c_int = posix_memalign_for, "rcx", "x3";
    fn valloc(usize) -> *mut c_void = valloc_for, "rsi", "x1";
    fn pvalloc(usize) -> *mut c_void = pvalloc_for, "rsi", "x1";
}

extern "C" fn malloc_for(bytes: usize, caller: usize) -> *mut c_void {
    match heap_for(bytes, caller) {
        Some(heap) => allocate(heap, bytes, MALLOC_ALIGN),
        None if insiders::is_one(caller) => insiders::allocate(MALLOC_ALIGN, bytes),
        None => libc_blocks::taken(real::malloc(bytes)),
    }
}

extern "C" fn calloc_for(count: usize, bytes: usize, caller: usize) -> *mut c_void {
    let Some(all) = count.checked_mul(bytes) else {
        set_errno(ENOMEM);
        return std::ptr::null_mut();
    };
    match heap_for(all, caller) {
        Some(heap) => {
            let block = allocate_fresh(heap, all, MALLOC_ALIGN);
            // Others read as zeros.
            if !block.is_null() && heap.is_small(block as usize) {
                // SAFETY: the block is new and has that many bytes.
                unsafe { block.cast::<u8>().write_bytes(0, all) };
            }
            block
        }
        None if insiders::is_one(caller) => {
            let block = insiders::allocate(MALLOC_ALIGN, all);
            if !block.is_null() {
                // SAFETY: the block is new and has that many bytes.
                unsafe { block.cast::<u8>().write_bytes(0, all) };
            }
            block
        }
        None => libc_blocks::taken(real::calloc(count, bytes)),
    }
}

extern "C" fn realloc_for(block: *mut c_void, bytes: usize, caller: usize) -> *mut c_void {
    if block.is_null() {
        return malloc_for(bytes, caller);
    }
    if insiders::has(block) {
        // SAFETY: it is.
        return unsafe { insiders::resize(block, bytes) };
    }
    if !is_block(block) {
        // A block of the C library moves when it becomes large, or larger while new ones are not its own.
        // SAFETY: passed on to the caller.
        let usable = || unsafe { real::usable_bytes(block) };
        let stays = heap_for(bytes, caller).is_none() || libc_blocks::may_stay(bytes) && bytes <= usable();
        if stays || real::is_early(block) {
            libc_blocks::gives(block);
            // SAFETY: passed on to the caller.
            let moved = unsafe { real::realloc(block, bytes) };
            // Without room it is where it was.
            libc_blocks::taken(if moved.is_null() && bytes > 0 { block } else { moved });
            return moved;
        }
        return move_block(block, usable(), bytes, caller);
    }
    if bytes == 0 {
        free_managed(block);
        return std::ptr::null_mut();
    }
    let Some(heap) = route().map(|route| &route.heap) else { return std::ptr::null_mut() };
    let Ok(usable) = heap.usable_bytes(block as usize) else { bad_block("realloc", block) };
    let fits = bytes <= usable && bytes > usable / 2;
    if fits || !heap.is_small(block as usize) && resize(heap, block as usize, bytes) {
        return block;
    }
    move_block(block, usable, bytes, caller)
}

fn move_block(block: *mut c_void, usable: usize, bytes: usize, caller: usize) -> *mut c_void {
    let moved = malloc_for(bytes, caller);
    if !moved.is_null() {
        // SAFETY: both blocks have that many bytes and do not overlap; the old one is freed once.
        unsafe {
            std::ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), usable.min(bytes));
            free(block);
        }
    }
    moved
}

extern "C" fn reallocarray_for(block: *mut c_void, count: usize, bytes: usize, caller: usize) -> *mut c_void {
    match count.checked_mul(bytes) {
        Some(all) => realloc_for(block, all, caller),
        None => {
            set_errno(ENOMEM);
            std::ptr::null_mut()
        }
    }
}

extern "C" fn memalign_for(align: usize, bytes: usize, caller: usize) -> *mut c_void {
    match heap_for(bytes, caller) {
        Some(heap) if align.is_power_of_two() && heap.range().0.is_multiple_of(align) => {
            allocate(heap, bytes, align.max(MALLOC_ALIGN))
        }
        _ if insiders::is_one(caller) => insiders::allocate(align, bytes),
        _ => libc_blocks::taken(real::memalign(align, bytes)),
    }
}

/// # Safety
/// `block` may be written.
unsafe extern "C" fn posix_memalign_for(
    block: *mut *mut c_void,
    align: usize,
    bytes: usize,
    caller: usize,
) -> c_int {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return EINVAL;
    }
    let errno = aquifer_sys::ErrnoGuard::new();
    let placed = memalign_for(align, bytes, caller);
    drop(errno);
    if placed.is_null() {
        return ENOMEM;
    }
    // SAFETY: passed on to the caller.
    unsafe { *block = placed };
    0
}

extern "C" fn valloc_for(bytes: usize, caller: usize) -> *mut c_void {
    memalign_for(PAGE, bytes, caller)
}

extern "C" fn pvalloc_for(bytes: usize, caller: usize) -> *mut c_void {
    memalign_for(PAGE, bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes), caller)
}

#[cold]
fn bad_block(function: &str, block: *mut c_void) -> ! {
    crate::tell::tell!("aquifer: {function}: {block:p} is not a block, or was freed before");
    std::process::abort()
}

fn free_managed(block: *mut c_void) {
    let errno = aquifer_sys::ErrnoGuard::new();
    let Some(route) = route() else { return };
    if !protect::is_none()
        && let Ok(usable) = route.heap.usable_bytes(block as usize)
    {
        protect::open(block as usize, block as usize + usable);
    }
    match route.heap.free(block as usize) {
        Ok(()) => {}
        // A child leaves its parent's blocks alone.
        Err(aquifer::Error::Forked) => {}
        Err(aquifer::Error::Heap(aquifer::HeapError::DoubleFree(_))) => bad_block("free", block),
        Err(aquifer::Error::Heap(_)) if route.heap.usable_bytes(block as usize).is_err() => {
            bad_block("free", block)
        }
        Err(error) => crate::route::say_why(&error),
    }
    drop(errno);
}

/// # Safety
/// As the manual page of `free` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if is_block(block) {
        free_managed(block);
    } else if insiders::has(block) {
        // SAFETY: it is.
        unsafe { insiders::free(block) };
    } else {
        libc_blocks::gives(block);
        // SAFETY: passed on to the caller.
        unsafe { real::free(block) };
    }
}

/// # Safety
/// As the manual page of `malloc_usable_size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if is_block(block) {
        return route().and_then(|route| route.heap.usable_bytes(block as usize).ok()).unwrap_or(0);
    }
    if insiders::has(block) {
        // SAFETY: it is.
        return unsafe { insiders::usable_bytes(block) };
    }
    // SAFETY: passed on to the caller.
    unsafe { real::usable_bytes(block) }
}
