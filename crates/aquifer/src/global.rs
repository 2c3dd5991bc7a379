//! A heap as the allocator of a whole program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use aquifer_heap::SMALL_BYTES_MAX;
use aquifer_sys::helper;
use aquifer_vm::fork;

use crate::error::Error;
use crate::options::Options;
use crate::page_heap::PageHeap;
use crate::stats::Stats;

/// Blocks from here on are managed: what the program's data is in, while small ones stay in ordinary memory.
const BYTES_MIN: usize = 64 << 10;
const _: () = assert!(BYTES_MIN > SMALL_BYTES_MAX);

thread_local! {
    /// This thread asks the heap for something: what that takes is ordinary memory.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The allocator of a program whose large blocks may exceed its RAM: the system's, until [`Global::open`] says how much RAM they may
/// have. Blocks of 64 KiB and more (those of large `Vec`, `String`, `HashMap`) are ordinary memory as long as they fit in that, and are
/// managed by a heap when they exceed it. Smaller blocks are always the system's; put collections of many small objects into
/// [`Blocks`](crate::Blocks) or [`typed`](crate::typed) objects.
///
/// ```
/// use aquifer::{Global, Options};
///
/// #[global_allocator]
/// static GLOBAL: Global = Global::new();
///
/// fn main() -> Result<(), aquifer::Error> {
///     GLOBAL.open(Options::new().ram_bytes(32 << 20).flash_bytes(1 << 30))?;
///     let numbers: Vec<u64> = (0..10_000_000).collect();                      // 76 MiB
///     assert_eq!(numbers.iter().sum::<u64>(), 49_999_995_000_000);
///     assert!(GLOBAL.stats().is_some());                                      // it exceeds the RAM
///     Ok(())
/// }
/// ```
///
/// # Errors
/// When flash and RAM are full, the reason is written once to standard error, and `try_reserve` fails; what does not expect that
/// (`push`, `collect`) ends the process, as always in Rust.
///
/// # Context
/// System calls may be given such memory with [`Faults::Thread`](crate::Faults), which [`Global::open`] takes where the kernel allows
/// it. A child of the process sees what its parent had, and gets ordinary memory.
pub struct Global {
    heap: OnceLock<PageHeap>,
    has_said_why: AtomicBool,
}

impl Default for Global {
    fn default() -> Self {
        Self::new()
    }
}

impl Global {
    /// The system's allocator, until it is opened.
    pub const fn new() -> Self {
        Self { heap: OnceLock::new(), has_said_why: AtomicBool::new(false) }
    }

    /// From now on large blocks have the RAM and the flash that `options` say. The flash is opened when the RAM is exceeded first.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is open; others as of [`Heap::open`](crate::Heap::open), and memory stays ordinary.
    pub fn open(&self, options: Options) -> Result<(), Error> {
        inside(|| {
            let faults = match options.faults_here() {
                crate::Faults::Signal => crate::Faults::of_calls_too(),
                chosen => chosen,
            };
            let heap = PageHeap::new(options.faults(faults))?;
            self.heap.set(heap).map_err(|_| Error::Invalid("the allocator is open already".into()))
        })
    }

    /// What the heap uses and has done; `None` as long as all blocks fit in the RAM.
    pub fn stats(&self) -> Option<Stats> {
        self.heap.get()?.stats()
    }

    /// Bytes of large blocks that there are.
    pub fn block_bytes(&self) -> u64 {
        self.heap.get().map_or(0, PageHeap::block_bytes)
    }

    /// The heap, if a block of `bytes` is to be its.
    fn heap_for(&self, bytes: usize) -> Option<&PageHeap> {
        if bytes < BYTES_MIN || IS_INSIDE.get() || helper::is_helper() {
            return None;
        }
        // A child of a process whose memory was managed has no heap.
        self.heap.get().filter(|heap| !(heap.is_managed() && fork::is_forked()))
    }

    /// The heap that `block` is of.
    fn heap_of(&self, block: *mut u8) -> Option<&PageHeap> {
        self.heap.get().filter(|heap| heap.contains(block as usize))
    }

    fn given(&self, block: Result<*mut u8, Error>) -> *mut u8 {
        block.unwrap_or_else(|error| {
            if !self.has_said_why.swap(true, Ordering::Relaxed) {
                aquifer_sys::stderr::write(format!("aquifer: memory was refused: {error}\n").as_bytes());
            }
            std::ptr::null_mut()
        })
    }

    /// # Safety
    /// As of [`GlobalAlloc::realloc`].
    unsafe fn move_block(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller says that it makes a layout.
        let moved = unsafe { self.alloc(Layout::from_size_align_unchecked(bytes, layout.align())) };
        if !moved.is_null() {
            // SAFETY: both blocks have these bytes, and the old one is not used any more.
            unsafe {
                moved.copy_from_nonoverlapping(block, layout.size().min(bytes));
                self.dealloc(block, layout);
            }
        }
        moved
    }
}

/// Asks a heap for something.
fn inside<T>(ask: impl FnOnce() -> T) -> T {
    let before = IS_INSIDE.replace(true);
    let answer = ask();
    IS_INSIDE.set(before);
    answer
}

// SAFETY: blocks of the heap have their size and alignment and are nobody else's; the others are the system's, told by where they are.
unsafe impl GlobalAlloc for Global {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.heap_for(layout.size()) {
            Some(heap) => inside(|| self.given(heap.allocate(layout.size(), layout.align()))),
            // SAFETY: passed on to the caller.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match self.heap_for(layout.size()) {
            Some(heap) => inside(|| self.given(heap.allocate_fresh(layout.size(), layout.align()))),
            // SAFETY: passed on to the caller.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.heap_of(block) {
            // It fails in a child of the process that opened the heap, which has nothing to give back.
            Some(heap) => drop(inside(|| heap.free(block.expose_provenance()))),
            // SAFETY: passed on to the caller.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        match self.heap_of(block) {
            Some(heap) => match inside(|| heap.resize(block.expose_provenance(), bytes)) {
                Ok(true) => block,
                // SAFETY: passed on to the caller.
                _ => unsafe { self.move_block(block, layout, bytes) },
            },
            // SAFETY: passed on to the caller.
            None if self.heap_for(bytes).is_some() => unsafe { self.move_block(block, layout, bytes) },
            // SAFETY: passed on to the caller.
            None => unsafe { System.realloc(block, layout, bytes) },
        }
    }
}
