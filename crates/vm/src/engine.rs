//! Region, table, cache and log of one heap, put together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use aquifer_base::limits::{LEAF_RANGE_BYTES, OS_PAGE_BYTES};
use aquifer_base::{AllocationClass, LeafId, PageId};
use aquifer_cache::{Class, ObjectCache, PolicyKind};
use aquifer_log::{Head, Log};
use aquifer_map::{EntryTable, Leaves};
use aquifer_sys::memory::{Advice, advise};
use aquifer_sys::{Discarder, Errno, Features, Reservation, Userfaultfd, futex};

use crate::ahead::Ahead;
use crate::budget::Budget;
use crate::capture::{NativeRegion, Natives};
use crate::classes::Classes;
use crate::context::Context;
use crate::counters::{Counters, Durations};
use crate::digests::Digests;
use crate::first_writes::FirstWrites;
use crate::gate::Gate;
use crate::grace::Grace;
use crate::helper::Helper;
use crate::hints::Orders;
use crate::holds::Holds;
use crate::page_buffer::PageBuffer;
use crate::pool::Pool;
use crate::ranges::Ranges;
use crate::save::{Saver, savers};
use crate::snapshot::Snapshot;
use crate::streams::Streams;
use crate::trouble::Trouble;
use crate::whole_pages::Stale;

/// How an engine is made.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// How RAM is divided.
    pub budget: Budget,
    /// Leaves in the region: 2 MiB of address range each.
    pub leaves: u32,
    /// Which policy evicts objects.
    pub policy: PolicyKind,
    /// Faults are delivered as SIGBUS to the faulting thread; else to a thread that reads them.
    pub signal_faults: bool,
    /// Most pages that are read ahead of a walk, at least 8.
    pub read_ahead_pages: u32,
}

/// The memory of one heap.
pub struct Engine {
    pub(crate) region: Arc<Reservation>,
    pub(crate) uffd: Userfaultfd,
    pub(crate) discarder: Discarder,
    pub(crate) entries: EntryTable,
    pub(crate) leaves: Leaves,
    pub(crate) cache: ObjectCache,
    pub(crate) log: Arc<Log>,
    pub(crate) page_buffer: PageBuffer,
    pub(crate) page_buffer_units: usize,
    /// Pages that were taken from the page buffer and may still be mapped.
    pub(crate) leaving: AtomicUsize,
    pub(crate) ranges: Ranges,
    pub(crate) grace: Grace,
    pub(crate) contexts: Pool<Context>,
    pub(crate) stale: Stale,
    pub(crate) savers: Option<Pool<Saver>>,
    pub(crate) streams: Streams,
    pub(crate) first_writes: FirstWrites,
    pub(crate) digests: Digests,
    pub(crate) natives: Natives,
    pub(crate) ahead: Ahead,
    pub(crate) orders: Orders,
    pub(crate) classes: Classes,
    pub(crate) holds: Holds,
    pub(crate) signal_faults: bool,
    /// Passed by who uses the heap, by the writer for a pass, and by the cleaner for a segment.
    pub(crate) users_gate: Gate,
    pub(crate) writer_gate: Gate,
    pub(crate) cleaner_gate: Gate,
    pub(crate) snapshot: Snapshot,
    /// Pages whose newest bytes are only in RAM.
    pub(crate) dirty: AtomicU64,
    /// A page that must be written back before a fault can go on; `u64::MAX` if none.
    pub(crate) urgent: AtomicU64,
    pub(crate) trouble: Trouble,
    writer_wanted: AtomicU32,
    closing: AtomicBool,
    /// What happened so far.
    pub counters: Counters,
    /// How long reads from the log took.
    pub read_durations: Durations,
}

/// Leaves that were given out are counted from the start of the region.
impl Engine {
    /// An engine over `log`. Its threads are started by [`Engine::start`].
    ///
    /// # Errors
    /// The kernel's: `EPERM` where userfaultfd is forbidden, `ENOMEM` without address space.
    pub fn new(options: EngineOptions, log: Arc<Log>) -> Result<Self, Errno> {
        let region = NativeRegion::new(options.leaves)?;
        let engine = Self::over(region, options, log)?;
        engine.take_over_region()?;
        Ok(engine)
    }

    /// An engine over a region that it has yet to take over, by [`Engine::take_over`]; it has as many leaves as the options say.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn over(region: NativeRegion, options: EngineOptions, log: Arc<Log>) -> Result<Self, Errno> {
        let EngineOptions { budget, leaves, policy, signal_faults, read_ahead_pages } = options;
        let region = region.reservation;
        assert_eq!(region.len(), leaves as usize * LEAF_RANGE_BYTES);
        let uffd = if signal_faults {
            Userfaultfd::open(Features::SIGBUS | Features::PAGEFAULT_FLAG_WP)?
        } else {
            Userfaultfd::open_full(Features::PAGEFAULT_FLAG_WP)
                .or_else(|_| Userfaultfd::open(Features::PAGEFAULT_FLAG_WP))?
        };
        Ok(Self {
            uffd,
            discarder: Discarder::new(),
            entries: EntryTable::new(budget.entries),
            leaves: Leaves::new(log.clone(), leaves, budget.leaves)?,
            cache: ObjectCache::new(budget.cache, policy)?,
            log,
            page_buffer: PageBuffer::new(budget.page_buffer_units() + 128),
            page_buffer_units: budget.page_buffer_units(),
            leaving: AtomicUsize::new(0),
            ranges: Ranges::new(leaves)?,
            grace: Grace::new(budget.total),
            contexts: Pool::new((0..budget.contexts).map(|_| Context::new())),
            stale: Stale::new(budget.cache / OS_PAGE_BYTES / 64),
            savers: savers(),
            streams: Streams::new(),
            first_writes: FirstWrites::new(),
            digests: Digests::new(),
            natives: Natives::none(),
            ahead: Ahead::new(read_ahead_pages),
            orders: Orders::new(leaves)?,
            classes: Classes::new(leaves)?,
            holds: Holds::new(),
            signal_faults,
            users_gate: Gate::new(),
            writer_gate: Gate::new(),
            cleaner_gate: Gate::new(),
            snapshot: Snapshot::new(),
            dirty: AtomicU64::new(0),
            urgent: AtomicU64::new(u64::MAX),
            trouble: Trouble::new(),
            writer_wanted: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            counters: Counters::default(),
            read_durations: Durations::default(),
            region,
        })
    }

    /// From now on faults of the region are the engine's; on an error it is as before.
    pub(crate) fn take_over_region(&self) -> Result<(), Errno> {
        let taken = self.try_take_over_region();
        if taken.is_err() {
            for advice in [Advice::DoFork, Advice::DoDump] {
                // SAFETY: the region is ours; no byte changes.
                let _ = unsafe { advise(self.region.base(), self.region.len(), advice) };
            }
        }
        taken
    }

    fn try_take_over_region(&self) -> Result<(), Errno> {
        let region = &self.region;
        for advice in [Advice::NoHugePage, Advice::DontFork, Advice::DontDump] {
            // SAFETY: the region is ours; no byte changes.
            match unsafe { advise(region.base(), region.len(), advice) } {
                // A kernel built without huge pages has nothing to switch off.
                Err(Errno::EINVAL) if advice == Advice::NoHugePage => {}
                outcome => outcome?,
            }
        }
        // SAFETY: the region is ours and outlives the userfaultfd (field order); its faults are resolved from now on.
        unsafe { self.uffd.register(region.base(), region.len(), true) }
    }

    /// Threads that [`Engine::start`] starts.
    pub const THREADS: usize = 4;

    /// Starts the writer and the cleaner, which own the two ends of the log, and the thread that follows the kernel's
    /// grace periods, and the one that reads ahead.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(self: &Arc<Self>, fresh: Head, survivor: Head) -> std::io::Result<Vec<Helper>> {
        let start = |name, run: Box<dyn FnOnce(Arc<Self>) + Send>| {
            let engine = self.clone();
            Helper::start(name, move || run(engine))
        };
        Ok(vec![
            start(c"aquifer-writer", Box::new(move |engine| engine.run_writer(fresh)))?,
            start(c"aquifer-cleaner", Box::new(move |engine| engine.run_cleaner(survivor)))?,
            start(c"aquifer-grace", Box::new(|engine| engine.run_grace()))?,
            start(c"aquifer-ahead", Box::new(|engine| engine.run_ahead()))?,
        ])
    }

    /// Makes the threads end. Nothing is written back: the heap's objects go with it.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.log.close();
        self.want_writer();
        self.grace.close();
        self.ahead.wake();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// First byte of the region.
    pub fn base(&self) -> *mut u8 {
        self.region.base()
    }

    /// Bytes of the region.
    pub fn region_bytes(&self) -> usize {
        self.region.len()
    }

    /// The page that `address` lies in, if it is in the region.
    #[inline]
    pub fn page_at(&self, address: usize) -> Option<PageId> {
        let offset = address.checked_sub(self.region.base() as usize)?;
        (offset < self.region.len()).then(|| PageId::from_offset(offset as u64))
    }

    /// First byte of a page.
    pub fn address_of(&self, page: PageId) -> *mut u8 {
        debug_assert!(page.offset_bytes() < self.region.len() as u64);
        // SAFETY: pages handed out by this engine lie in the region.
        unsafe { self.region.base().add(page.offset_bytes() as usize) }
    }

    /// The log below.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The directory of leaves.
    pub fn leaves(&self) -> &Leaves {
        &self.leaves
    }

    /// Gives `leaf` out for pages of `page_bytes` with objects of `class`.
    ///
    /// # Panics
    /// If such pages need the slots of whole pages and are none: those are told by their bytes.
    pub fn give_out_leaf(&self, leaf: LeafId, page_bytes: usize, class: AllocationClass) {
        let is_whole = Class::for_bytes(page_bytes) == Some(Class::WHOLE);
        assert!(!is_whole || page_bytes == OS_PAGE_BYTES, "pages of {page_bytes} bytes in whole slots");
        self.classes.set(leaf, class);
        self.leaves.set_page_bytes(leaf, page_bytes);
    }

    /// The class of the objects that a leaf that is given out holds.
    pub fn class_of(&self, leaf: LeafId) -> AllocationClass {
        self.classes.get(leaf)
    }

    /// Lets the writer make a pass. Cheap when it is running anyway.
    pub(crate) fn want_writer(&self) {
        if self.writer_wanted.swap(1, Ordering::AcqRel) == 0 {
            futex::wake(&self.writer_wanted, 1);
        }
    }

    /// Waits until the writer is wanted.
    pub(crate) fn wait_until_writer_is_wanted(&self) {
        while self.writer_wanted.swap(0, Ordering::AcqRel) == 0 && !self.is_closing() {
            // Interrupted or changed meanwhile: the loop looks again.
            let _ = futex::wait(&self.writer_wanted, 0, None);
        }
    }
}
