//! Rust's own memory: mapped by this library itself.
//!
//! A malloc of the program may have called this library, and hold its own locks. A malloc that begins only
//! with `main`, as in Lisp systems, later treats its earlier blocks as free; if it moves the program break,
//! the C library's heap is lost, too. And functions that may be called in signal handlers, such as `readv`,
//! allocate here.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::null_mut;

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_sys::{SignalsBlocked, SpinLock, SpinLockGuard};
use dlmalloc::{Allocator, Dlmalloc};

/// Memory of the kernel, by system calls that no hook stands in front of.
struct Kernel {
    /// Addresses for when the kernel gives no more: from, to.
    ready: Cell<(usize, usize)>,
}

impl Kernel {
    fn map(bytes: usize) -> *mut u8 {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let flags = flags | libc::MAP_NORESERVE;
        let nowhere = null_mut::<u8>();
        // SAFETY: new memory.
        address_of(|| unsafe { libc::syscall(libc::SYS_mmap, nowhere, bytes, protection, flags, -1, 0) })
    }

    fn take_ready(&self, bytes: usize) -> *mut u8 {
        let (from, to) = self.ready.get();
        if to - from < bytes {
            return null_mut();
        }
        self.ready.set((from + bytes.next_multiple_of(OS_PAGE_BYTES).min(to - from), to));
        std::ptr::with_exposed_provenance_mut(from)
    }
}

/// A system call that gives an address; null on an error. The caller may be about to look at `errno`.
fn address_of(call: impl FnOnce() -> libc::c_long) -> *mut u8 {
    let _errno = aquifer_sys::ErrnoGuard::new();
    let address = call();
    if address == -1 { null_mut() } else { std::ptr::with_exposed_provenance_mut(address as usize) }
}

// SAFETY: the kernel gives memory that nobody else has.
unsafe impl Allocator for Kernel {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let mapped = Self::map(size);
        (if mapped.is_null() { self.take_ready(size) } else { mapped }, size, 0)
    }

    fn remap(&self, ptr: *mut u8, oldsize: usize, newsize: usize, can_move: bool) -> *mut u8 {
        let flags = if can_move { libc::MREMAP_MAYMOVE } else { 0 };
        // SAFETY: the memory is ours.
        address_of(|| unsafe { libc::syscall(libc::SYS_mremap, ptr, oldsize, newsize, flags) })
    }

    fn free_part(&self, ptr: *mut u8, oldsize: usize, newsize: usize) -> bool {
        self.free(ptr.wrapping_add(newsize), oldsize - newsize)
    }

    fn free(&self, ptr: *mut u8, size: usize) -> bool {
        // SAFETY: the memory is ours, and not needed any more.
        !address_of(|| unsafe { libc::syscall(libc::SYS_munmap, ptr, size) | 1 }).is_null()
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        OS_PAGE_BYTES
    }
}

static MEMORY: SpinLock<Dlmalloc<Kernel>> =
    SpinLock::new(Dlmalloc::new_with_allocator(Kernel { ready: Cell::new((0, 0)) }));

struct OfLibrary;

#[global_allocator]
static ALLOCATOR: OfLibrary = OfLibrary;

// SAFETY: as that of `dlmalloc`, by one thread at a time; a handler does not come in between.
unsafe impl GlobalAlloc for OfLibrary {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _signals = SignalsBlocked::new();
        // SAFETY: passed on to the caller.
        unsafe { MEMORY.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _signals = SignalsBlocked::new();
        // SAFETY: passed on to the caller.
        unsafe { MEMORY.lock().calloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let _signals = SignalsBlocked::new();
        // SAFETY: passed on to the caller.
        unsafe { MEMORY.lock().free(block, layout.size(), layout.align()) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let _signals = SignalsBlocked::new();
        // SAFETY: passed on to the caller.
        unsafe { MEMORY.lock().realloc(block, layout.size(), layout.align(), bytes) }
    }
}

/// Keeps `bytes` of addresses ready, which cost no RAM: a program that has used up what it may map can still become managed, or is told why not.
pub fn keep_ready(bytes: usize) {
    let mapped = Kernel::map(bytes).expose_provenance();
    if mapped != 0 {
        let _signals = SignalsBlocked::new();
        MEMORY.lock().allocator_mut().ready.set((mapped, mapped + bytes));
    }
}

/// No thread allocates while this lives; the one that has it neither.
pub struct Rest {
    _lock: SpinLockGuard<'static, Dlmalloc<Kernel>>,
    _signals: SignalsBlocked,
}

/// Keeps threads from being between two steps of an allocation: around a fork.
pub fn rest() -> Rest {
    let _signals = SignalsBlocked::new();
    Rest { _lock: MEMORY.lock(), _signals }
}
