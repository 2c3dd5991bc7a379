//! mmap and its family.
//!
//! Private anonymous memory that is readable and writable comes from the heap if it is large. What the heap has cannot be
//! handled by the kernel alone any more: giving pages back must reach flash too.

use std::ffi::c_void;

use libc::{c_int, off_t};

use aquifer::PageHeap;
use aquifer_vm::REGION_ALIGN;
use aquifer_vm::fork::is_forked;

use crate::hooks::missing;
use crate::protect;
use crate::real::real;
use crate::route::{growing, heap_for_mapping, map, owns, resize, route, set_errno, take_over};

const PAGE: usize = 4096;
/// Memory that may be read only is protected by the heap up to this length.
const GUARD_BYTES: usize = 64 << 10;
/// Address space from this length on is reserved in the heap.
const RESERVE_BYTES_MIN: usize = 256 << 10;
/// A place that a program wishes for is the kernel's to give below this address, and for fewer bytes.
const LOW_END: usize = 1 << 32;
const WISHED_BYTES_MIN: usize = 256 << 10;
/// Distance from this library within which other libraries and code for them lie. A mapping there has to be
/// the kernel's, because all of the range may be asked for at once, as V8 does.
const NEAR_CODE_BYTES: usize = 64 << 30;
/// Of a mapping that comes from the heap, no other flags may be set.
const HARMLESS: c_int =
    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_POPULATE | libc::MAP_NONBLOCK;

type Mmap = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, off_t) -> *mut c_void;

/// The alignment of the memory that a program wishes to have at `address`, if that need not be there: allocators wish for places behind what
/// they have, or aligned ones. Low addresses are for pointers of 32 bits, but for allocators' reserves, and what is small may have to be near
/// other code.
fn wished_align(address: *mut c_void, bytes: usize, flags: c_int) -> Option<usize> {
    let address = address as usize;
    let is_low = address < LOW_END && flags & libc::MAP_NORESERVE == 0;
    match address {
        0 => Some(PAGE),
        _ if is_low || bytes < WISHED_BYTES_MIN || !address.is_multiple_of(PAGE) => None,
        _ => Some((1 << address.trailing_zeros()).min(REGION_ALIGN)),
    }
}

/// What the heap gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Memory,
    /// Addresses, which become memory when their protection is changed, or are mapped over.
    Reserve,
}

fn wanted(bytes: usize, protection: c_int, flags: c_int) -> Option<Wanted> {
    let is_private =
        flags & !HARMLESS == 0 && flags & libc::MAP_PRIVATE != 0 && flags & libc::MAP_ANONYMOUS != 0;
    const MEMORY: c_int = libc::PROT_READ | libc::PROT_WRITE;
    match protection {
        MEMORY if is_private => Some(Wanted::Memory),
        libc::PROT_NONE if is_private && bytes >= RESERVE_BYTES_MIN => Some(Wanted::Reserve),
        _ => None,
    }
}

/// Whether a program wishes to be near code, of which it will probably make more there.
fn is_near_code(address: *mut c_void) -> bool {
    !address.is_null() && (address as usize).abs_diff(is_near_code as *const () as usize) < NEAR_CODE_BYTES
}

/// Whether this process has its parent's heap as it was: what it changes is its own.
fn has_snapshot(heap: &PageHeap) -> bool {
    heap.is_managed() && is_forked()
}

/// Makes reserved pages among these memory; whether it could be done.
fn commit(heap: &PageHeap, start: usize, end: usize) -> bool {
    let bytes = end - start;
    if !heap.is_closed(start, bytes) {
        return true;
    }
    if has_snapshot(heap) {
        heap.open_in_child(start, bytes);
        let real = real!(mprotect: unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int);
        return real.is_some_and(|real| {
            // SAFETY: pages of the heap's range, which the program asks for.
            unsafe { real(start as *mut c_void, bytes, libc::PROT_READ | libc::PROT_WRITE) == 0 }
        });
    }
    done(growing(heap, bytes, || heap.commit(start, bytes)))
}

/// Whether it is; if not, why is said.
fn done(outcome: Result<(), aquifer::Error>) -> bool {
    if let Err(error) = &outcome {
        crate::route::say_why(error);
        set_errno(libc::ENOMEM);
    }
    outcome.is_ok()
}

/// Whether a mapping of which perhaps little will be used leaves flash for others. If it does not, it stays the kernel's.
fn is_modest(heap: &PageHeap, bytes: usize) -> bool {
    bytes as u64 <= heap.free_bytes() / 4 * 3
}

/// Whole pages from an address on; `None` if it is not at the start of one, or they exceed the address space.
fn pages(address: *mut c_void, bytes: usize) -> Option<(usize, usize)> {
    let (start, end) =
        (address as usize, (address as usize).checked_add(bytes)?.checked_next_multiple_of(PAGE)?);
    start.is_multiple_of(PAGE).then_some((start, end))
}

/// What is done instead of mapping something over managed memory; `None` if the kernel is to do it.
fn map_over(address: *mut c_void, bytes: usize, protection: c_int, flags: c_int) -> Option<*mut c_void> {
    let (start, end) = pages(address, bytes)?;
    let heap = &route()?.heap;
    let is_plain =
        flags & !(HARMLESS | libc::MAP_FIXED | libc::MAP_STACK) == 0 && flags & libc::MAP_ANONYMOUS != 0;
    // Virtual machines map archives over what they have reserved, and go another way if they cannot: they may fit in their RAM.
    let is_refused = || {
        heap.is_closed(start, end - start)
            && flags & libc::MAP_PRIVATE != 0
            && protection & libc::PROT_WRITE != 0
    };
    if !is_plain && (is_refused() || !take_over(heap)) {
        set_errno(libc::ENOMEM);
        return Some(libc::MAP_FAILED);
    }
    if !has_snapshot(heap) && !done(heap.claim(start, end - start)) {
        return Some(libc::MAP_FAILED);
    }
    protect::open(start, end);
    let is_reserve = is_plain && protection == libc::PROT_NONE;
    if is_reserve && has_snapshot(heap) {
        return None;
    }
    if is_reserve && !protect::is_foreign(start) {
        let is_done = done(heap.decommit(start, end - start));
        return Some(if is_done { address } else { libc::MAP_FAILED });
    }
    if give_back(address, end - start, true) != 0 {
        return Some(libc::MAP_FAILED);
    }
    if !is_plain || protect::is_foreign(start) {
        heap.keep_ranges(start, end - start);
        return None;
    }
    // New memory of the same kind: these pages, which are empty. Many of them stay writable, so that they need not be pinned.
    let is_protected = protection != libc::PROT_READ | libc::PROT_WRITE
        && (end - start <= GUARD_BYTES || protection & libc::PROT_EXEC != 0);
    let is_set = commit(heap, start, end) && (!is_protected || protect::set(heap, start, end, protection));
    Some(if is_set { address } else { libc::MAP_FAILED })
}

macro_rules! mmap {
    ($($name:ident),*) => {$(
        /// # Safety
        /// As the manual page of `mmap` says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            address: *mut c_void,
            bytes: usize,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: off_t,
        ) -> *mut c_void {
            if let Some(wanted) = wanted(bytes, protection, flags)
                && let Some(align) = wished_align(address, bytes, flags)
                && let Some(rounded) = bytes.checked_next_multiple_of(PAGE)
                && let Some(heap) = heap_for_mapping(bytes)
                && match wanted {
                    Wanted::Memory => flags & libc::MAP_NORESERVE == 0 || is_modest(heap, bytes),
                    Wanted::Reserve => !is_near_code(address),
                }
            {
                let mapped = match wanted {
                    Wanted::Memory => map(heap, rounded, align),
                    // What has no room stays the kernel's.
                    Wanted::Reserve => heap.reserve(rounded, align).map_or(std::ptr::null_mut(), |at| at.cast()),
                };
                if !mapped.is_null() {
                    return mapped;
                }
                if wanted == Wanted::Memory && flags & libc::MAP_NORESERVE == 0 {
                    return libc::MAP_FAILED;
                }
            }
            let is_over = flags & libc::MAP_FIXED != 0 && owns(address);
            if is_over && let Some(mapped) = map_over(address, bytes, protection, flags) {
                return mapped;
            }
            match real!($name: Mmap) {
                // SAFETY: passed on to the caller.
                Some(real) => unsafe {
                    let mapped = real(address, bytes, protection, flags, fd, offset);
                    if is_over && mapped == address {
                        protect::add_foreign(address as usize, (address as usize + bytes).next_multiple_of(PAGE));
                    }
                    mapped
                },
                None => libc::MAP_FAILED,
            }
        }
    )*};
}

mmap!(mmap, mmap64);

/// Gives pages back. With `stays` their addresses are not used again.
fn give_back(address: *mut c_void, bytes: usize, stays: bool) -> c_int {
    let errno = aquifer_sys::ErrnoGuard::new();
    let Some(heap) = route().map(|route| &route.heap) else { return -1 };
    let given =
        if stays { heap.discard(address as usize, bytes) } else { heap.unmap(address as usize, bytes) };
    drop(errno);
    match given {
        Ok(()) | Err(aquifer::Error::Forked) => 0,
        Err(error) => {
            crate::route::say_why(&error);
            set_errno(libc::EIO);
            -1
        }
    }
}

/// Unmaps pages. What was mapped over managed memory leaves a hole there.
fn unmap(start: usize, end: usize) -> c_int {
    let mut outcome = 0;
    protect::open(start, end);
    protect::for_each_piece(start, end, &mut |start, end, is_foreign| {
        let (address, bytes) = (start as *mut c_void, end - start);
        if !is_foreign {
            outcome |= give_back(address, bytes, false);
            return;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        if let Some(real) = real!(mmap: Mmap) {
            // SAFETY: the program gives up what is there.
            unsafe { real(address, bytes, libc::PROT_NONE, flags, -1, 0) };
        }
    });
    outcome
}

/// # Safety
/// As the manual page of `munmap` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: usize) -> c_int {
    if owns(address) {
        return match pages(address, bytes).filter(|_| bytes > 0) {
            Some((start, end)) => unmap(start, end),
            None => {
                set_errno(libc::EINVAL);
                -1
            }
        };
    }
    match real!(munmap: unsafe extern "C" fn(*mut c_void, usize) -> c_int) {
        // SAFETY: passed on to the caller.
        Some(real) => unsafe { real(address, bytes) },
        None => missing(),
    }
}

/// # Safety
/// As the manual page of `mprotect` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, bytes: usize, protection: c_int) -> c_int {
    if owns(address)
        && !protect::is_foreign(address as usize)
        && let Some((start, end)) = pages(address, bytes).filter(|(start, end)| start < end)
        && let Some(route) = route()
    {
        let heap = &route.heap;
        // What is reserved cannot be touched already.
        let is_set = match protection {
            libc::PROT_NONE if !has_snapshot(heap) => heap
                .open_runs(start, end - start)
                .into_iter()
                .all(|(start, end)| protect::set(heap, start, end, protection)),
            _ => {
                commit(heap, start, end) && (has_snapshot(heap) || protect::set(heap, start, end, protection))
            }
        };
        if !is_set || !has_snapshot(heap) {
            return if is_set { 0 } else { -1 };
        }
    }
    match real!(mprotect: unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int) {
        // SAFETY: passed on to the caller.
        Some(real) => unsafe { real(address, bytes, protection) },
        None => missing(),
    }
}

/// # Safety
/// As the manual page of `mremap` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    old_bytes: usize,
    bytes: usize,
    flags: c_int,
    target: *mut c_void,
) -> *mut c_void {
    if !owns(address) {
        return match real!(mremap: unsafe extern "C" fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void)
        {
            // SAFETY: passed on to the caller.
            Some(real) => unsafe { real(address, old_bytes, bytes, flags, target) },
            None => libc::MAP_FAILED,
        };
    }
    let old = pages(address, old_bytes);
    let new = pages(address, bytes);
    let (Some((start, old_end)), Some((_, end))) = (old, new) else {
        set_errno(libc::EINVAL);
        return libc::MAP_FAILED;
    };
    if flags & !libc::MREMAP_MAYMOVE != 0 || start == end || start == old_end || protect::is_foreign(start) {
        set_errno(libc::EINVAL);
        return libc::MAP_FAILED;
    }
    let Some(heap) = route().map(|route| &route.heap) else { return libc::MAP_FAILED };
    if end > old_end && heap.is_closed(start, old_end - start) {
        set_errno(libc::ENOMEM);
        return libc::MAP_FAILED;
    }
    if end <= old_end {
        if end < old_end {
            unmap(end, old_end);
        }
        return address;
    }
    let (old_bytes, bytes) = (old_end - start, end - start);
    let is_whole = heap.mapping_bytes(start) == Some(old_bytes);
    if is_whole && resize(heap, start, bytes) {
        return address;
    }
    if flags & libc::MREMAP_MAYMOVE == 0 {
        set_errno(libc::ENOMEM);
        return libc::MAP_FAILED;
    }
    let moved = if has_snapshot(heap) {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let nowhere = std::ptr::null_mut();
        let mapped = real!(mmap: Mmap).map(|real| {
            // SAFETY: new memory at an address that the kernel chooses.
            unsafe { real(nowhere, bytes, protection, flags, -1, 0) }
        });
        mapped.filter(|&mapped| mapped != libc::MAP_FAILED).unwrap_or(nowhere)
    } else {
        map(heap, bytes, PAGE)
    };
    if moved.is_null() {
        return libc::MAP_FAILED;
    }
    protect::open(start, old_end);
    // SAFETY: both ranges have that many bytes and do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(address.cast::<u8>(), moved.cast(), old_bytes) };
    unmap(start, old_end);
    moved
}

/// # Safety
/// As the manual page of `madvise` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    if owns(address)
        && !protect::is_foreign(address as usize)
        && let Some(route) = route()
    {
        let Some((start, end)) = pages(address, bytes) else {
            set_errno(libc::EINVAL);
            return -1;
        };
        if matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE) {
            return if start == end {
                0
            } else {
                protect::while_unpinned(&route.heap, start, end, || give_back(address, end - start, true))
            };
        }
        // The kernel would keep these settings for the next owner of the memory.
        let is_of_forks = matches!(
            advice,
            libc::MADV_DONTFORK | libc::MADV_DOFORK | libc::MADV_WIPEONFORK | libc::MADV_KEEPONFORK
        );
        if route.heap.is_managed() || is_of_forks {
            return match advice {
                // Hints that a heap follows by itself, and what it does anyway.
                libc::MADV_NORMAL
                | libc::MADV_RANDOM
                | libc::MADV_SEQUENTIAL
                | libc::MADV_WILLNEED
                | libc::MADV_HUGEPAGE
                | libc::MADV_NOHUGEPAGE
                | libc::MADV_COLD
                | libc::MADV_PAGEOUT
                | libc::MADV_DONTFORK
                | libc::MADV_DOFORK
                | libc::MADV_KEEPONFORK
                | libc::MADV_DONTDUMP
                | libc::MADV_DODUMP => 0,
                _ => {
                    set_errno(libc::EINVAL);
                    -1
                }
            };
        }
    }
    match real!(madvise: unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int) {
        // SAFETY: passed on to the caller.
        Some(real) => unsafe { real(address, bytes, advice) },
        None => missing(),
    }
}

/// # Safety
/// As the manual page of `posix_madvise` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    if owns(address) {
        return 0;
    }
    match real!(posix_madvise: unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int) {
        // SAFETY: passed on to the caller.
        Some(real) => unsafe { real(address, bytes, advice) },
        None => libc::ENOSYS,
    }
}

/// Memory of a heap cannot be locked in RAM.
macro_rules! lock {
    ($(fn $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(address: *const c_void, bytes: usize $(, $argument: $type)*) -> c_int {
            if owns(address) {
                set_errno(libc::ENOMEM);
                return -1;
            }
            match real!($name: unsafe extern "C" fn(*const c_void, usize $(, $type)*) -> c_int) {
                // SAFETY: passed on to the caller.
                Some(real) => unsafe { real(address, bytes $(, $argument)*) },
                None => missing(),
            }
        }
    )*};
}

lock! {
    fn mlock();
    fn mlock2(flags: libc::c_uint);
}
