//! The memory of one heap, put together: public calls, each behind a gate, over the parts below.

mod delivery;
mod freed;
mod ram;

use std::sync::{Arc, OnceLock};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{AllocationClass, Found, LeafId, PageId};
use aquifer_cache::{Class, PolicyKind};
use aquifer_log::{Head, Log};
use aquifer_map::{LeafTable, Leaves};
use aquifer_sys::helper::Helper;
use aquifer_sys::{Errno, SignalsBlocked};

use crate::backing::Backing;
use crate::batch::{self, Part, Transfer};
use crate::budget::Budget;
use crate::context::Context;
use crate::counters::{Counters, Durations};
use crate::error::{FaultError, PinError};
use crate::fill::Access;
use crate::foresight::{Foresight, Order};
use crate::gate::Gates;
use crate::hints::{self, Hint};
use crate::holds::Holds;
use crate::mapping::{Mapping, TrapKind};
use crate::natives::{NativeRegion, Natives};
use crate::page_set::Run;
use crate::pages::Pages;
use crate::pool::Pool;
use crate::residence::{Compression, Residence};
use crate::snapshot::Snapshot;
use crate::usage::{self, Usage};
use crate::{check, cleaner, closed, in_place, pin, prefetch, release, takeover, touch, waits, writer};

/// How an engine is made.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// How RAM is divided.
    pub budget: Budget,
    /// Leaves in the region: 2 MiB of address range each.
    pub leaves: u32,
    /// Which policy evicts objects.
    pub policy: PolicyKind,
    /// Whether whole pages are compressed before they leave RAM.
    pub compression: Compression,
    /// How faults reach the engine.
    pub trap: TrapKind,
    /// Most pages that are read ahead of a walk, at least 8.
    pub read_ahead_pages: u32,
}

/// What a thread of a heap does until that closes.
type Loop = Box<dyn FnOnce(&Pages, &Gates) + Send>;

/// The memory of one heap.
pub struct Engine {
    pages: Pages,
    gates: Gates,
    snapshot: Snapshot,
}

// It is moved several times on the stack of a thread that takes memory over. Tables belong into boxes.
const _: () = assert!(size_of::<Engine>() <= 24 << 10);

/// Leaves that were given out are counted from the start of the region.
impl Engine {
    /// An engine over `log`. Its threads are started by [`Engine::start`].
    ///
    /// # Errors
    /// The kernel's: `EPERM` where userfaultfd is forbidden, `ENOMEM` without address space.
    pub fn new(options: EngineOptions, log: Arc<Log>) -> Result<Self, Errno> {
        let region = NativeRegion::new(options.leaves)?;
        let engine = Self::over(region, options, log)?;
        engine.pages.mapping.take()?;
        Ok(engine)
    }

    /// An engine over a region that it has yet to take over, by [`Engine::take_over`]; it has as many leaves as the options say.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn over(region: NativeRegion, options: EngineOptions, log: Arc<Log>) -> Result<Self, Errno> {
        let EngineOptions { budget, leaves, policy, compression, trap, read_ahead_pages } = options;
        assert_eq!(region.leaves(), leaves);
        let table = Arc::new(LeafTable::new(leaves)?);
        let pages = Pages {
            mapping: Mapping::new(region.reservation(), table.clone(), trap, budget.total)?,
            residence: Residence::new(&budget, policy, compression)?,
            backing: Backing::new(log, table.clone(), budget.leaves)?,
            foresight: Foresight::new(table, read_ahead_pages),
            holds: Holds::new(),
            natives: Natives::none(),
            closed: region.closed().clone(),
            budget,
            process_ram: OnceLock::new(),
            contexts: Pool::new((0..budget.contexts).map(|_| Context::new())),
            counters: Box::default(),
        };
        Ok(Self { pages, gates: Gates::new(), snapshot: Snapshot::new() })
    }

    /// Threads that [`Engine::start`] starts.
    pub const THREADS: usize = 4;

    /// Starts the writer and the cleaner, which own the two ends of the log, and the thread that follows the kernel's
    /// grace periods, and the one that reads ahead.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(self: &Arc<Self>, fresh: Head, survivor: Head) -> std::io::Result<Vec<Helper>> {
        let start = |name, run: Loop| {
            let engine = self.clone();
            Helper::start(name, move || run(&engine.pages, &engine.gates))
                .map_err(|errno| std::io::Error::from_raw_os_error(errno.0))
        };
        Ok(vec![
            start(c"aquifer-writer", Box::new(move |pages, gates| writer::run(pages, gates, fresh)))?,
            start(c"aquifer-cleaner", Box::new(move |pages, gates| cleaner::run(pages, gates, survivor)))?,
            start(c"aquifer-grace", Box::new(|pages, gates| pages.mapping.run_grace(|| gates.is_closing())))?,
            start(c"aquifer-ahead", Box::new(prefetch::run))?,
        ])
    }

    /// Makes the threads end. Nothing is written back: the heap's objects go with it.
    pub fn close(&self) {
        self.gates.close();
        self.pages.backing.log().close();
        self.pages.backing.want_writer();
        self.pages.mapping.close();
        self.pages.foresight.close();
    }

    /// First byte of the region.
    pub fn base(&self) -> *mut u8 {
        self.pages.mapping.base()
    }

    /// Bytes of the region.
    pub fn region_bytes(&self) -> usize {
        self.pages.mapping.region_bytes()
    }

    /// The page that `address` lies in, if it is in the region.
    #[inline]
    pub fn page_at(&self, address: usize) -> Option<PageId> {
        self.pages.mapping.page_at(address)
    }

    /// First byte of a page.
    pub fn address_of(&self, page: PageId) -> *mut u8 {
        self.pages.mapping.address_of(page)
    }

    /// The log below.
    pub fn log(&self) -> &Log {
        self.pages.backing.log()
    }

    /// The directory of leaves.
    #[inline]
    pub fn leaves(&self) -> &Leaves {
        self.pages.backing.leaves()
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.pages.counters
    }

    /// How long threads have waited for flash so far, for pages on it and for room in RAM, nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.pages.waited_ns()
    }

    /// How long reads from the log took.
    pub fn read_durations(&self) -> &Durations {
        self.pages.backing.read_durations()
    }

    // ---- Leaves --------------------------------------------------------------

    /// Gives `leaf` out for pages of `page_bytes` with objects of `class`.
    ///
    /// # Panics
    /// If pages of `page_bytes` need slots of whole pages, but are not whole pages.
    pub fn give_out_leaf(&self, leaf: LeafId, page_bytes: usize, class: AllocationClass) {
        let is_whole = Class::for_bytes(page_bytes) == Some(Class::WHOLE);
        assert!(!is_whole || page_bytes == OS_PAGE_BYTES, "pages of {page_bytes} bytes in whole slots");
        self.pages.backing.set_class(leaf, class);
        self.pages.backing.leaves().set_page_bytes(leaf, page_bytes);
    }

    /// The class of the objects that a leaf that is given out holds.
    pub fn class_of(&self, leaf: LeafId) -> AllocationClass {
        self.pages.backing.class_of(leaf)
    }

    /// Takes a leaf back of which no page is in use.
    ///
    /// # Errors
    /// It cannot be read or changed; then it must not be given out again.
    ///
    /// # Context
    /// Blocks.
    pub fn take_back_leaf(&self, leaf: LeafId) -> Result<(), FaultError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.gates.pass_in_fault();
        release::take_back_leaf(&self.pages, leaf)
    }

    // ---- Pages that are wanted -----------------------------------------------

    /// Makes `page` accessible for reading, or with `write` for writing.
    ///
    /// # Errors
    /// [`FaultError`]; the page is as it was.
    ///
    /// # Context
    /// Runs in fault handlers. Blocks on the device for a page that is not in RAM.
    pub fn resolve_in_fault(&self, page: PageId, write: bool) -> Result<Found, FaultError> {
        touch::resolve_in_fault(&self.pages, page, Access::of(write))
    }

    /// Where the bytes of `page` can be read, and with `write` written, until [`Engine::end_use`]. Uses nest.
    ///
    /// # Errors
    /// [`PinError`]; nothing is held then.
    ///
    /// # Context
    /// Blocks on the device if the page is not in RAM. A thread that uses a page must not touch its address meanwhile.
    #[inline]
    pub fn begin_use(&self, page: PageId, write: bool) -> Result<*mut u8, PinError> {
        in_place::begin(&self.pages, &self.gates, page, write)
    }

    /// Ends one use of a page.
    ///
    /// # Errors
    /// [`PinError::NotPinned`].
    #[inline]
    pub fn end_use(&self, page: PageId) -> Result<(), PinError> {
        in_place::end(&self.pages, &self.gates, page)
    }

    /// Most pages that may be pinned at a time.
    pub fn pin_limit(&self) -> usize {
        self.pages.residence.pin_limit()
    }

    /// Maps `count` pages from `first` writable and keeps them so until [`Engine::unpin`]. Pins nest.
    ///
    /// # Errors
    /// [`PinError`]; no page of the call is pinned then.
    pub fn pin(&self, first: PageId, count: u64) -> Result<(), PinError> {
        match self.pin_up_to(first, count, self.pin_limit()) {
            Err(PinError::TooMany { .. }) if self.pages.is_whole(first) => {
                let _signals = SignalsBlocked::new();
                self.pin_up_to(first, count, self.pages.residence.pin_limit_at_most())
            }
            pinned => pinned,
        }
    }

    /// Keeps pages that a system call uses at this moment where they are, as [`Engine::pin`] does, however many are pinned.
    ///
    /// # Errors
    /// [`PinError`]; no page of the call is pinned then.
    pub fn pin_native(&self, first: PageId, count: u64) -> Result<(), PinError> {
        self.pin_up_to(first, count, usize::MAX)
    }

    fn pin_up_to(&self, first: PageId, count: u64, limit: usize) -> Result<(), PinError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.gates.pass_in_fault();
        pin::pin(&self.pages, first, count, limit)
    }

    /// Ends one pin of each of `count` pages from `first`.
    ///
    /// # Errors
    /// [`PinError::NotPinned`] with the first page that is not; earlier ones are unpinned.
    pub fn unpin(&self, first: PageId, count: u64) -> Result<(), PinError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.gates.pass_in_fault();
        (first.0..first.0 + count).try_for_each(|page| pin::unpin_page(&self.pages, PageId(page)))
    }

    /// Whether any page of the range is pinned.
    pub fn is_pinned(&self, first: PageId, count: u64) -> bool {
        pin::is_pinned(&self.pages, first, count)
    }

    /// Brings pages into the object cache. Pages that are in RAM or being brought in are skipped, and so is
    /// what finds no room: it is a hint, and the page will be faulted in.
    ///
    /// # Errors
    /// The first page that could not be read; the others of the batch are brought in.
    pub fn prefetch(&self, pages: &mut dyn Iterator<Item = PageId>) -> Result<(), FaultError> {
        prefetch::prefetch(&self.pages, &self.gates, pages)
    }

    /// Copies the parts of pages to the program's memory or from there. Each part is copied once; of the same page in the order given.
    ///
    /// # Safety
    /// The memory of each part has its bytes.
    ///
    /// # Errors
    /// The first page that cannot be used; parts of other pages may have been copied.
    pub unsafe fn transfer(&self, parts: &mut [Part], how: Transfer) -> Result<(), PinError> {
        // SAFETY: passed on to the caller.
        unsafe { batch::transfer(&self.pages, &self.gates, parts, how) }
    }

    /// Takes a hint about `count` pages from `first`.
    ///
    /// # Errors
    /// With [`Hint::WillNeed`] the first page that cannot be read.
    pub fn advise(&self, first: PageId, count: u64, hint: Hint) -> Result<(), FaultError> {
        match hint {
            Hint::WillNeed => self.prefetch(&mut (first.0..first.0 + count).map(PageId))?,
            Hint::Sequential => hints::set_order(&self.pages, first, count, Order::Sequential),
            Hint::Random => hints::set_order(&self.pages, first, count, Order::Random),
            Hint::Cold => {
                let _signals = SignalsBlocked::new();
                let _pass = self.gates.pass_in_fault();
                hints::cool(&self.pages, first, count);
            }
        }
        Ok(())
    }

    // ---- Memory that was the kernel's ----------------------------------------

    /// Takes over the region from the kernel: from here on its faults are the engine's, and what is there is native. Other threads may
    /// use it meanwhile.
    ///
    /// # Errors
    /// The kernel refused; the region is ordinary memory as before, and the engine over it of no use.
    pub fn take_over(&self) -> Result<(), Errno> {
        takeover::take_over(&self.pages)
    }

    /// Makes pages of a region that was taken over the heap's: `taken` are those that are in use. Other threads may use them
    /// meanwhile; their faults wait for nothing but their own pages.
    ///
    /// # Errors
    /// [`FaultError`]; the rest of the pages stay native ([`Engine::capture_rest`]).
    pub fn capture(&self, taken: Vec<Run>) -> Result<(), FaultError> {
        let _signals = SignalsBlocked::new();
        takeover::capture(&self.pages, taken)
    }

    /// Makes the native pages the heap's. Nobody else does meanwhile.
    ///
    /// # Errors
    /// As [`Engine::capture`].
    pub fn capture_rest(&self) -> Result<(), FaultError> {
        self.capture(Vec::new())
    }

    /// Whether more memory may be promised: what does not fit in RAM can be written.
    ///
    /// # Errors
    /// [`FaultError::Stopped`].
    pub fn check_writable(&self) -> Result<(), FaultError> {
        self.pages.backing.check_writable(PageId(0))
    }

    /// Whether pages of the region may be native.
    pub fn has_natives(&self) -> bool {
        self.pages.natives.any()
    }

    /// Makes pages that are pinned the region's own, which were protected when they were captured. Afterwards they may be unpinned.
    ///
    /// # Errors
    /// The kernel's.
    pub fn own(&self, first: PageId, count: u64) -> Result<(), FaultError> {
        let owned = self.pages.mapping.own(first, count as usize);
        owned.map_err(|errno| FaultError::Map { page: first, errno })
    }

    // ---- Memory that the program may not touch -------------------------------

    /// Empties `count` pages from `first` and closes them: nobody may touch them until [`Engine::open`].
    ///
    /// # Errors
    /// [`FaultError`]; those that were open are open.
    pub fn close_pages(&self, first: PageId, count: u64) -> Result<(), FaultError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.gates.pass_in_fault();
        closed::close(&self.pages, (first, count))
    }

    /// Closes pages, which keep their bytes and need no RAM. False if one of them must stay at its address; those that were open are then.
    pub fn hide(&self, first: PageId, count: u64) -> bool {
        let _signals = SignalsBlocked::new();
        let _pass = self.gates.pass_in_fault();
        closed::hide(&self.pages, (first, count))
    }

    /// The program is about to map something else at these addresses, which stays there.
    pub fn keep_ranges(&self, first: PageId, count: u64) {
        let _signals = SignalsBlocked::new();
        let last = PageId(first.0 + count.max(1) - 1).leaf();
        let leaves = (first.leaf().0..=last.0).map(LeafId);
        leaves
            .filter(|&leaf| self.pages.natives.keep(leaf))
            .for_each(|leaf| self.pages.mapping.guard_range(leaf));
    }

    /// Opens pages, closed or not.
    ///
    /// # Errors
    /// The kernel has too many mappings; they are closed.
    pub fn open(&self, first: PageId, count: u64) -> Result<(), FaultError> {
        closed::open(&self.pages, (first, count))
    }

    // ---- Children ------------------------------------------------------------

    /// In a child: makes `count` pages from `first` present and writable for as long as the child lives.
    ///
    /// # Errors
    /// [`PinError::Fault`].
    pub fn keep_in_snapshot(&self, first: PageId, count: u64) -> Result<(), PinError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.gates.pass_in_fault();
        self.snapshot.keep(&self.pages, first, count)
    }

    /// In a child: `count` pages from `first` read as zeros.
    ///
    /// # Errors
    /// The kernel's.
    pub fn empty_in_snapshot(&self, first: PageId, count: u64) -> Result<(), FaultError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.gates.pass_in_fault();
        self.snapshot.empty(&self.pages, first, count)
    }

    /// Whether this is a child's.
    pub fn is_snapshot(&self) -> bool {
        self.snapshot.is_active()
    }

    // ---- Account -------------------------------------------------------------

    /// What it uses now, when `leaves_in_use` leaves were given out.
    ///
    /// # Context
    /// May wait for a fork of another thread.
    pub fn usage(&self, leaves_in_use: u32) -> Usage {
        let _signals = SignalsBlocked::new();
        let _pass = self.gates.pass_in_fault();
        usage::usage(&self.pages, leaves_in_use)
    }

    /// Looks at everything and describes the first disagreement. `leaves_in_use` leaves were given out.
    ///
    /// No other thread may use the heap meanwhile; the writer and the cleaner may.
    ///
    /// # Errors
    /// A sentence that names both sides of the disagreement.
    pub fn check(&self, leaves_in_use: u32) -> Result<(), String> {
        check::check(&self.pages, leaves_in_use)
    }

    /// The long waits of this moment for memory of this heap, a sentence each: who waits, for what, and who holds it.
    pub fn long_waits(&self) -> Vec<String> {
        waits::long_waits(&self.pages)
    }

    /// The parts, for tests of this crate.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }
}
