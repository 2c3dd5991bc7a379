//! Memory for programs that cannot be changed.

mod pins;
mod program;
mod reserve;
mod takeover;

pub use pins::CallBuffer;
pub use program::Program;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockWriteGuard};

use aquifer_base::PageId;
use aquifer_base::limits::{LEAF_PAGES, LEAF_RANGE_BYTES, OS_PAGE_BYTES};
use aquifer_heap::paged::{self, Change, Pages};
use aquifer_heap::{HeapError, Paged, SMALL_BYTES_MAX};
use aquifer_status::Server;
use aquifer_sys::{Errno, helper, process};
use aquifer_vm::{NativeRegion, PageSet, fork};

use crate::announced::Announced;
use crate::assembly::{Assembly, check_kernel, flash_bytes_asked, ram_bytes_asked};
use crate::error::Error;
use crate::options::Options;
use crate::stats::Stats;
use crate::warm::Warm;

/// Share of RAM that ordinary memory may take before it becomes a heap's: the rest is for the heap's tables.
const NATIVE_PERCENT: u64 = 85;
/// One part in `WARM_SHARE` of the RAM holds freed blocks for reuse, at most `WARM_BYTES_MAX`.
const WARM_SHARE: u64 = 16;
const WARM_BYTES_MAX: u64 = 32 << 20;
/// Bytes of a page's record with its share of a leaf, about.
const RECORD_BYTES: u64 = OS_PAGE_BYTES as u64 + 128;
/// Share of the flash that pages can fill, in percent: the rest is for the cleaner.
const USABLE_PERCENT: u64 = 85;
/// Share of the addresses that pages can have where those are few, in percent: blocks leave gaps.
const ADDRESSES_PERCENT: u64 = 90;

/// A heap, with an answer for other processes.
struct Managed {
    _server: Option<Server>,
    parts: Arc<Assembly>,
}

/// Blocks of whole pages that are ordinary memory as long as they fit in the budget, so that a program that stays within
/// it runs as fast as without. When they exceed it, a heap is opened over them (SSDAlloc's memory pages, NSDI 2011).
///
/// # Durability
/// None.
///
/// # Context
/// All methods may be called from any thread, none from a signal handler.
pub struct PageHeap {
    options: Options,
    region: NativeRegion,
    paged: Paged,
    /// Pages in blocks.
    pages: AtomicU64,
    /// The most that there were.
    pages_high: AtomicU64,
    native_pages_max: u64,
    /// The same, less what the process has beside blocks.
    native_pages: AtomicU64,
    /// `pages` at which the process's memory is looked at next.
    next_look_pages: AtomicU64,
    pages_max: u64,
    /// Pages of mappings that are not promised: nobody may touch them yet.
    reserved: PageSet,
    /// The most that may be.
    reserved_max: u64,
    /// Held by who changes that.
    committing: Mutex<()>,
    /// By the limit on address space, and not by the flash.
    is_limited: bool,
    /// Flash could not be opened.
    is_refused: AtomicBool,
    managed: OnceLock<Managed>,
    /// Freed blocks of ordinary memory, which the books have as taken.
    warm: Mutex<Warm>,
    /// Held while pages of ordinary memory are emptied, and by who makes it a heap's.
    becoming_managed: RwLock<()>,
    /// Somebody is making it a heap's.
    is_taken_over: AtomicBool,
    /// Whose blocks they are.
    program: Option<Arc<dyn Program>>,
    /// Buffers of system calls in ordinary memory.
    announced: Announced,
    /// What the program has protected, for who makes the memory a heap's, and how that is made accessible.
    protected: Mutex<Protected>,
}

struct Protected {
    ranges: Vec<ProtectedRange>,
    open: fn(&ProtectedRange),
}

/// Pages that the program has protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtectedRange {
    /// Address of the first.
    pub start: usize,
    /// Address behind the last.
    pub end: usize,
    /// They are pinned.
    pub is_pinned: bool,
}

/// Nobody changes the books of a heap.
pub struct Rest<'a> {
    _paged: paged::Rest<'a>,
    _warm: MutexGuard<'a, Warm>,
    _becoming: RwLockWriteGuard<'a, ()>,
    _committing: MutexGuard<'a, ()>,
}

/// Why a block was not allocated.
fn full(pages: u64, used: u64, limit: u64) -> HeapError {
    let bytes = |pages| pages * OS_PAGE_BYTES as u64;
    HeapError::Full { wanted: bytes(pages), used: bytes(used), limit: bytes(limit) }
}

impl PageHeap {
    /// Reserves address space. Flash is opened when it is needed.
    ///
    /// # Errors
    /// [`Error`] if the options make no sense, or the kernel is too old or refuses address space.
    pub fn new(options: Options) -> Result<Self, Error> {
        check_kernel()?;
        // The file is read now: later would be in an allocation of the program.
        let settings = options.device_settings()?;
        let options = Options { settings, profile_path: None, ..options.object_bytes(OS_PAGE_BYTES) };
        let (ram, flash) = (ram_bytes_asked(&options)?, flash_bytes_asked(&options)?);
        let pages_max = flash / 100 * USABLE_PERCENT / RECORD_BYTES;
        // Twice as much address space, so that there are runs to choose from.
        let wanted = 2 * pages_max / LEAF_PAGES as u64 + 1;
        // Under a limit on address space a half of what is left stays for the program, tables and stacks.
        let most = process::address_space_left().map(|left| left / 2 / LEAF_RANGE_BYTES as u64);
        let leaves = most.map_or(wanted, |most| most.min(wanted));
        let pages_max = pages_max.min(leaves * LEAF_PAGES as u64 / 100 * ADDRESSES_PERCENT);
        if most.is_some() && pages_max * (OS_PAGE_BYTES as u64) < ram {
            return Err(Error::AddressSpace { left: pages_max * OS_PAGE_BYTES as u64 });
        }
        let is_limited = leaves < wanted;
        let refused = |errno| match most {
            // The kernel has no gap of that size in the address space.
            Some(_) if errno == Errno::ENOMEM => Error::AddressSpace { left: 0 },
            _ => Error::Kernel { what: "address space for managed memory", errno },
        };
        let region = reserve::region(leaves, most.is_none()).map_err(refused)?;
        let leaves = u64::from(region.leaves());
        let reserved = PageSet::new(leaves * LEAF_PAGES as u64).map_err(refused)?;
        let base = region.base().expose_provenance();
        Ok(Self {
            options,
            region,
            paged: Paged::new(PageId(0), base, leaves * LEAF_PAGES as u64),
            pages: AtomicU64::new(0),
            pages_high: AtomicU64::new(0),
            native_pages_max: ram / 100 * NATIVE_PERCENT / OS_PAGE_BYTES as u64,
            native_pages: AtomicU64::new(ram / 100 * NATIVE_PERCENT / OS_PAGE_BYTES as u64),
            next_look_pages: AtomicU64::new(0),
            pages_max,
            reserved,
            reserved_max: (leaves * LEAF_PAGES as u64).saturating_sub(pages_max / ADDRESSES_PERCENT * 100),
            is_limited,
            committing: Mutex::new(()),
            is_refused: AtomicBool::new(false),
            managed: OnceLock::new(),
            warm: Mutex::new(Warm::new((ram / WARM_SHARE).min(WARM_BYTES_MAX) as usize)),
            becoming_managed: RwLock::new(()),
            is_taken_over: AtomicBool::new(false),
            program: None,
            announced: Announced::new(),
            protected: Mutex::new(Protected { ranges: Vec::new(), open: |_| {} }),
        })
    }

    /// Whether `address` is in the range from which blocks come. Lock-free, signal-safe.
    pub fn contains(&self, address: usize) -> bool {
        self.paged.contains(address)
    }

    /// First byte and length of that range.
    pub fn range(&self) -> (usize, usize) {
        (self.region.base().expose_provenance(), self.region.leaves() as usize * LEAF_PAGES * OS_PAGE_BYTES)
    }

    /// Whether a heap took over; before, pages are always there. Lock-free, signal-safe.
    pub fn is_managed(&self) -> bool {
        self.managed.get().is_some()
    }

    /// Whether this process was forked from one with a heap and could not be given its memory as it was. Lock-free,
    /// signal-safe.
    pub fn is_out_of_reach(&self) -> bool {
        fork::is_forked() && self.managed.get().is_some_and(|managed| !managed.parts.engine.is_snapshot())
    }

    /// Bytes in blocks, rounded up to pages.
    pub fn block_bytes(&self) -> u64 {
        self.pages.load(Ordering::Relaxed) * OS_PAGE_BYTES as u64
    }

    /// The most that it was.
    pub fn block_bytes_max(&self) -> u64 {
        self.pages_high.load(Ordering::Relaxed) * OS_PAGE_BYTES as u64
    }

    /// Keeps other threads from being between two steps in the books until the guard is dropped: around a fork.
    pub fn rest(&self) -> Rest<'_> {
        let _committing = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        let _becoming = self.becoming_managed.write().unwrap_or_else(PoisonError::into_inner);
        let _warm = self.warm();
        Rest { _paged: self.paged.rest(), _warm, _becoming, _committing }
    }

    fn warm(&self) -> MutexGuard<'_, Warm> {
        self.warm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back the blocks that were kept, one by one, until `is_enough`.
    fn cool(&self, is_enough: impl Fn() -> bool) -> Result<(), Error> {
        while !is_enough() {
            let Some(address) = self.warm().take_oldest() else { break };
            self.recycle(self.paged.free(address)?)?;
        }
        Ok(())
    }

    /// Bytes that blocks could still have.
    pub fn free_bytes(&self) -> u64 {
        self.pages_max.saturating_sub(self.pages.load(Ordering::Relaxed)) * OS_PAGE_BYTES as u64
    }

    fn promise(&self, pages: u64) -> Result<(), HeapError> {
        let refused = self.is_refused.load(Ordering::Relaxed);
        let limit = if refused { self.native_pages_max } else { self.pages_max };
        let more = |used: u64| (used + pages <= limit).then_some(used + pages);
        self.pages
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map(|before| {
                self.pages_high.fetch_max(before + pages, Ordering::Relaxed);
            })
            .map_err(|used| full(pages, used, limit))
    }

    /// What is in the way where there is no more: the limit on address space, if that is why there is not as much as on flash.
    fn none_left(&self, error: HeapError) -> Error {
        let is_limited = self.is_limited && !self.is_refused.load(Ordering::Relaxed);
        match error {
            HeapError::Full { .. } | HeapError::NoAddressSpace { .. } if is_limited => {
                Error::AddressSpace { left: self.pages_max * OS_PAGE_BYTES as u64 }
            }
            error => error.into(),
        }
    }

    fn take_back(&self, pages: u64) {
        self.pages.fetch_sub(pages, Ordering::Relaxed);
    }

    fn usable(&self) -> Result<(), Error> {
        if self.is_managed() && fork::is_forked() { Err(Error::Forked) } else { Ok(()) }
    }

    /// A block of at least `bytes` at a multiple of `align` bytes, a power of two. Its bytes are undefined.
    ///
    /// # Errors
    /// [`Error::Heap`] when flash or address range are used up; why flash could not be opened.
    pub fn allocate(&self, bytes: usize, align: usize) -> Result<*mut u8, Error> {
        if !self.is_managed()
            && bytes > SMALL_BYTES_MAX
            && let Some(address) = self.warm().take(bytes, align)
        {
            return Ok(std::ptr::with_exposed_provenance_mut(address));
        }
        self.allocate_fresh(bytes, align)
    }

    /// A small block, of up to [`SMALL_BYTES_MAX`], if there is one in pages that are blocks' already: then the memory does not become a heap's by it.
    pub fn try_allocate_small(&self, bytes: usize, align: usize) -> Option<*mut u8> {
        self.usable().ok()?;
        Some(std::ptr::with_exposed_provenance_mut(self.paged.try_allocate_small(bytes, align)?))
    }

    /// Whether `address` is in pages of small blocks. Lock-free, signal-safe.
    pub fn is_small(&self, address: usize) -> bool {
        self.paged.is_small(address)
    }

    /// As [`PageHeap::allocate`]; blocks that are not [small](PageHeap::is_small) read as zeros.
    ///
    /// # Errors
    /// As [`PageHeap::allocate`].
    pub fn allocate_fresh(&self, bytes: usize, align: usize) -> Result<*mut u8, Error> {
        self.usable()?;
        let promise = &mut |pages| self.promise(pages);
        let address = self
            .paged
            .allocate(bytes, align, promise, &mut |pages| self.take_back(pages))
            .map_err(|error| self.none_left(error))?;
        if let Err(error) = self.overflow() {
            let _ = self.free(address);
            return Err(error);
        }
        Ok(std::ptr::with_exposed_provenance_mut(address))
    }

    /// Pages that hold no block, at a multiple of `align` bytes, a power of two: they read as zeros and are given back by
    /// [`PageHeap::unmap`], as those of `mmap`.
    ///
    /// # Errors
    /// As [`PageHeap::allocate`].
    pub fn map(&self, bytes: usize, align: usize) -> Result<*mut u8, Error> {
        self.usable()?;
        let pages = bytes.div_ceil(OS_PAGE_BYTES) as u64;
        let promise = &mut |pages| self.promise(pages);
        let address = self
            .paged
            .allocate_mapping(pages, align, promise, &mut |pages| self.take_back(pages))
            .map_err(|error| self.none_left(error))?;
        if let Err(error) = self.overflow() {
            let _ = self.unmap(address, bytes);
            return Err(error);
        }
        Ok(std::ptr::with_exposed_provenance_mut(address))
    }

    /// Bytes of the mapping that begins at `address`.
    pub fn mapping_bytes(&self, address: usize) -> Option<usize> {
        self.paged.mapping_bytes(address)
    }

    /// Whether `address` is in a mapping.
    pub fn is_mapping(&self, address: usize) -> bool {
        self.paged.is_mapping(address)
    }

    /// Empties pages: they read as zeros.
    fn empty(&self, (first, count): Pages) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let becoming = self.becoming_managed.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(managed) = self.managed.get() {
            drop(becoming);
            return Ok(managed.parts.engine.release(first, count).map_err(HeapError::Fault)?);
        }
        self.region
            .release(first, count)
            .map_err(|errno| Error::Kernel { what: "to take back memory that was freed", errno })
    }

    fn recycle(&self, pages: Pages) -> Result<(), Error> {
        // Pages that cannot be emptied, because their leaf cannot be read, are never used again.
        self.empty(pages)?;
        let reserved = self.end_reserve(pages)?;
        self.take_back(pages.1 - reserved);
        if pages.1 > 0 {
            self.paged.recycle(pages);
        }
        Ok(())
    }

    /// Frees a block.
    ///
    /// # Errors
    /// [`Error::Heap`] if none begins at `address`.
    pub fn free(&self, address: usize) -> Result<(), Error> {
        self.usable()?;
        // Whom a thread of the library would wait for may wait for it.
        if helper::is_helper() {
            return Ok(());
        }
        if !self.is_managed() && !self.is_small(address) && self.keep_warm(address)? {
            return Ok(());
        }
        self.recycle(self.paged.free(address)?)
    }

    /// Keeps a block of ordinary memory that was freed, if there is room.
    fn keep_warm(&self, address: usize) -> Result<bool, Error> {
        let bytes = self.paged.usable_bytes(address)?;
        let mut warm = self.warm();
        if warm.has(address) {
            return Err(Error::Heap(HeapError::DoubleFree(address)));
        }
        // A heap that took over meanwhile has given back what was kept, or does so when this lock is free.
        Ok(!self.is_managed() && warm.keep(address, bytes))
    }

    /// Bytes that may be used at the block at `address`.
    ///
    /// # Errors
    /// [`Error::Heap`] if none begins there.
    pub fn usable_bytes(&self, address: usize) -> Result<usize, Error> {
        Ok(self.paged.usable_bytes(address)?)
    }

    /// Makes a block longer or shorter where it is; false if it must move.
    ///
    /// # Errors
    /// [`Error::Heap`]; the block is as before.
    pub fn resize(&self, address: usize, bytes: usize) -> Result<bool, Error> {
        self.usable()?;
        match self.paged.resize(address, bytes, &mut |pages| self.promise(pages))? {
            Change::Impossible => Ok(false),
            Change::Lost(pages) => self.recycle(pages).map(|()| true),
            Change::Gained((first, _)) => {
                if let Err(error) = self.overflow() {
                    let before = self.range().0 + first.0 as usize * OS_PAGE_BYTES - address;
                    if let Change::Lost(pages) = self.paged.resize(address, before, &mut |_| Ok(()))? {
                        self.recycle(pages)?;
                    }
                    return Err(error);
                }
                Ok(true)
            }
        }
    }

    /// Gives the pages of a range back, whichever blocks they are in, as `munmap` does.
    ///
    /// # Errors
    /// Pages that could not be emptied; the others are given back.
    pub fn unmap(&self, address: usize, bytes: usize) -> Result<(), Error> {
        if self.usable().is_err() {
            return self.discard(address, bytes);
        }
        if helper::is_helper() {
            return Ok(());
        }
        let mut outcome = Ok(());
        self.paged.cut(address, bytes, &mut |pages| {
            let recycled = self.recycle(pages);
            if outcome.is_ok() {
                outcome = recycled;
            }
        });
        outcome
    }

    /// Empties the whole pages of a range: they read as zeros, as after `madvise(MADV_DONTNEED)`.
    ///
    /// # Errors
    /// A leaf could not be read or changed.
    pub fn discard(&self, address: usize, bytes: usize) -> Result<(), Error> {
        let (first, count) = self.pages_of(address, bytes);
        match self.managed.get() {
            Some(managed) if fork::is_forked() => {
                Ok(managed.parts.engine.empty_in_snapshot(first, count).map_err(HeapError::Fault)?)
            }
            _ => self.empty((first, count)),
        }
    }

    /// The pages that a range touches, which begins in the region; what is beyond that is nobody's.
    fn pages_of(&self, address: usize, bytes: usize) -> Pages {
        let (base, len) = self.range();
        let offset = address - base;
        let end = offset.saturating_add(bytes).min(len);
        let (first, end) = (offset / OS_PAGE_BYTES, end.div_ceil(OS_PAGE_BYTES));
        (PageId(first as u64), (end - first) as u64)
    }

    /// What the heap uses and has done; `None` while the memory is ordinary.
    pub fn stats(&self) -> Option<Stats> {
        let managed = self.managed.get()?;
        let mut stats = Stats::of(&managed.parts);
        (stats.objects, stats.object_bytes) = self.paged.usage();
        let reserved = self.reserved.len() * OS_PAGE_BYTES as u64;
        stats.object_bytes = stats.object_bytes.saturating_sub(reserved);
        Some(stats)
    }

    /// Proves that the heap's parts agree. No other thread may use it meanwhile.
    ///
    /// # Errors
    /// [`Error::Invariant`] with the first disagreement.
    pub fn check(&self) -> Result<(), Error> {
        match self.managed.get() {
            Some(managed) => managed.parts.engine.check(self.region.leaves()).map_err(Error::Invariant),
            None => Ok(()),
        }
    }
}
