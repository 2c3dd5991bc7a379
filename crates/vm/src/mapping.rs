//! A region's pages at their addresses, and nothing about what they mean.
//!
//! | file | noun |
//! |---|---|
//! | `ranges` | how many pages are mapped in each 2 MiB range, so that empty page tables are dropped |
//! | `grace` | page tables that the kernel has let go of and not freed yet |
//! | `savers` | the bytes of written pages, which must outlive their unmapping |
//! | `trap` | by what the kernel tells that a page was touched: userfaultfd, or protection |

mod grace;
mod ranges;
mod savers;
mod trap;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aquifer_base::limits::{LEAF_RANGE_BYTES, OS_PAGE_BYTES};
use aquifer_base::{LeafId, PageId};
use aquifer_map::LeafTable;
use aquifer_sys::memory::{Advice, Presence, advise};
use aquifer_sys::{Discarder, Errno, Event, Ready, Reservation};

use crate::fault::abort_in_fault;
use crate::pool::Pool;
use grace::Grace;
use ranges::Ranges;
use savers::Saver;
use trap::Trap;

pub(crate) use savers::Secured;
pub use trap::TrapKind;

/// Pages that leave their addresses together.
pub(crate) const BATCH: usize = 64;

/// The pages of one region.
pub(crate) struct Mapping {
    trap: Trap,
    discarder: Discarder,
    ranges: Ranges,
    grace: Grace,
    savers: Option<Pool<Saver>>,
    /// The process has forked: pages may be shared with a child.
    has_children: AtomicBool,
    /// Outlives the trap.
    region: Arc<Reservation>,
}

/// Ranges that are dropped together: who wants one of them waits meanwhile.
const TOGETHER_MAX: u32 = 512;

/// No leaf. Other bytes than those of no range: two short fills are cheaper than one that is long.
const NONE: LeafId = LeafId(u32::MAX);

/// What one call to the kernel takes away.
pub(crate) struct Vanishing {
    ranges: [libc::iovec; 2 * BATCH],
    len: usize,
    /// Ranges that go as a whole.
    dropped: [LeafId; BATCH],
    dropped_len: usize,
}

impl Vanishing {
    pub(crate) fn new() -> Self {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Self { ranges: [none; 2 * BATCH], len: 0, dropped: [NONE; BATCH], dropped_len: 0 }
    }

    /// How many more pages of memory there is room for.
    pub(crate) fn room(&self) -> usize {
        self.ranges.len() - self.len
    }

    /// Adds a page of memory, wherever it is. There is room for it.
    pub(crate) fn add_memory(&mut self, memory: *mut u8) {
        self.add(libc::iovec { iov_base: memory.cast(), iov_len: OS_PAGE_BYTES });
    }

    fn add(&mut self, range: libc::iovec) {
        match self.ranges[..self.len].last_mut() {
            Some(last) if last.iov_base as usize + last.iov_len == range.iov_base as usize => {
                last.iov_len += range.iov_len;
            }
            _ => {
                self.ranges[self.len] = range;
                self.len += 1;
            }
        }
    }
}

impl Mapping {
    /// The pages of a region, whose faults the kernel still resolves; `budget_bytes` is the RAM of the heap.
    ///
    /// # Errors
    /// The kernel's: `EPERM` where userfaultfd is forbidden.
    pub(crate) fn new(
        region: Arc<Reservation>,
        table: Arc<LeafTable>,
        trap: TrapKind,
        budget_bytes: usize,
    ) -> Result<Self, Errno> {
        Ok(Self {
            trap: Trap::new(trap)?,
            discarder: Discarder::new(),
            ranges: Ranges::new(table),
            grace: Grace::new(budget_bytes),
            savers: savers::savers(),
            has_children: AtomicBool::new(false),
            region,
        })
    }

    /// First byte of the region.
    pub(crate) fn base(&self) -> *mut u8 {
        self.region.base()
    }

    /// Bytes of the region.
    pub(crate) fn region_bytes(&self) -> usize {
        self.region.len()
    }

    /// Leaves of the region.
    pub(crate) fn leaves(&self) -> u32 {
        (self.region.len() / LEAF_RANGE_BYTES) as u32
    }

    /// The page that `address` lies in, if it is in the region.
    #[inline]
    pub(crate) fn page_at(&self, address: usize) -> Option<PageId> {
        let offset = address.checked_sub(self.region.base() as usize)?;
        (offset < self.region.len()).then(|| PageId::from_offset(offset as u64))
    }

    /// First byte of a page.
    pub(crate) fn address_of(&self, page: PageId) -> *mut u8 {
        debug_assert!(page.offset_bytes() < self.region.len() as u64);
        // SAFETY: pages handed out by this engine lie in the region.
        unsafe { self.region.base().add(page.offset_bytes() as usize) }
    }

    // ---- The region ----------------------------------------------------------

    /// From now on faults of the region are ours; on an error it is as before.
    pub(crate) fn take(&self) -> Result<(), Errno> {
        let taken = self.try_take();
        if taken.is_err() {
            for advice in [Advice::DoFork, Advice::DoDump] {
                // SAFETY: the region is ours; no byte changes.
                let _ = unsafe { advise(self.region.base(), self.region.len(), advice) };
            }
        }
        taken
    }

    fn try_take(&self) -> Result<(), Errno> {
        let region = &self.region;
        for advice in [Advice::NoHugePage, Advice::DontFork, Advice::DontDump] {
            // SAFETY: the region is ours; no byte changes.
            match unsafe { advise(region.base(), region.len(), advice) } {
                // A kernel built without huge pages has nothing to switch off.
                Err(Errno::EINVAL) if advice == Advice::NoHugePage => {}
                outcome => outcome?,
            }
        }
        // SAFETY: the region is ours and outlives the trap (field order); its faults are resolved from now on.
        unsafe { self.trap.take(region.base(), region.len()) }
    }

    /// Which pages from `first` on have bytes at their addresses, in RAM or in the kernel's swap.
    pub(crate) fn look(&self, first: PageId, present: &mut [u8], presence: &Presence) -> Result<(), Errno> {
        // SAFETY: pages of the region, of which absent ones are a userfaultfd's.
        unsafe { presence.look(self.address_of(first), present) }
    }

    /// Divides the huge page that `page` is a part of, if it is: the kernel frees a huge page as a whole, when its last part leaves.
    pub(crate) fn divide_huge(&self, page: PageId) {
        // SAFETY: a page of the region; no byte changes. Where it cannot be divided, it stays in RAM for a while longer.
        let _ = unsafe { advise(self.address_of(page), OS_PAGE_BYTES, Advice::Cold) };
    }

    /// Brings in `count` pages that are present or in the kernel's swap, and makes them the region's own, if they are the zero page or
    /// shared with a child: pages that are held by pipes must not change their place when they are written.
    ///
    /// # Errors
    /// The kernel's; `EINVAL` for pages that the program has protected.
    pub(crate) fn own(&self, first: PageId, count: usize) -> Result<(), Errno> {
        let (start, len) = (self.address_of(first), count * OS_PAGE_BYTES);
        // SAFETY: pages of the region that have bytes, which do not change.
        unsafe {
            self.trap.open(start, len)?;
            advise(start, len, Advice::PopulateWrite)
        }
    }

    /// Empties pages of which nobody keeps account.
    ///
    /// # Safety
    /// Their bytes are given up, and nobody brings them in meanwhile.
    pub(crate) unsafe fn empty(&self, first: PageId, count: usize) -> Result<(), Errno> {
        let (start, len) = (self.address_of(first), count * OS_PAGE_BYTES);
        // SAFETY: passed on to the caller.
        unsafe {
            self.trap.close(start, len)?;
            advise(start, len, Advice::DontNeed)
        }
    }

    /// Nobody may touch pages that are absent: a touch is no fault of ours, and ends the program as it does in memory of `PROT_NONE`.
    ///
    /// # Errors
    /// The kernel's: too many mappings. They are as before.
    pub(crate) fn forbid(&self, first: PageId, count: usize) -> Result<(), Errno> {
        // SAFETY: pages of the region without bytes, which nobody brings in.
        unsafe { self.trap.forbid(self.address_of(first), count * OS_PAGE_BYTES) }
    }

    /// Ends [`Mapping::forbid`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn permit(&self, first: PageId, count: usize) -> Result<(), Errno> {
        // SAFETY: pages of the region, whose faults are resolved.
        unsafe { self.trap.permit(self.address_of(first), count * OS_PAGE_BYTES) }
    }

    // ---- Pages appear --------------------------------------------------------

    /// Announces that a page of the range is about to be mapped; waits while the range is being dropped.
    pub(crate) fn enter_in_fault(&self, leaf: LeafId) {
        self.ranges.enter_in_fault(leaf);
        self.trap.count_in_fault();
    }

    /// Keeps a range, whatever leaves, until [`Mapping::unguard_ranges`]: some of its pages may be ordinary memory.
    pub(crate) fn guard_range(&self, leaf: LeafId) {
        self.ranges.guard(leaf);
    }

    /// All pages of these guarded ranges are the heap's. Those without pages go, as many side by side as there are. Few of them have a page table,
    /// for which nobody waits.
    pub(crate) fn unguard_ranges(&self, leaves: impl Iterator<Item = LeafId>) {
        let mut empty = LeafId(0)..LeafId(0);
        for leaf in leaves {
            self.ranges.unguard();
            if !self.ranges.leave_in_fault(leaf) {
                continue;
            }
            if leaf != empty.end || empty.end.0 - empty.start.0 == TOGETHER_MAX {
                self.drop_ranges_in_fault(std::mem::replace(&mut empty, leaf..leaf));
            }
            empty.end = LeafId(leaf.0 + 1);
        }
        self.drop_ranges_in_fault(empty);
    }

    /// Maps a copy of a whole page of bytes, write-protected unless `writable`.
    ///
    /// # Safety
    /// The caller holds the entry of the page, which is absent; there is a whole page at `bytes`.
    ///
    /// # Errors
    /// The kernel's; `EEXIST` if the page was there. It is as before.
    pub(crate) unsafe fn appear_in_fault(
        &self,
        page: PageId,
        bytes: *const u8,
        writable: bool,
    ) -> Result<(), Errno> {
        self.enter_in_fault(page.leaf());
        // SAFETY: the range is not being dropped; the rest is passed on to the caller.
        let copied = unsafe { self.appear_uncounted_in_fault(page, bytes, writable) };
        copied.inspect_err(|_| self.leave_range_in_fault(page.leaf()))
    }

    /// As [`Mapping::appear_in_fault`], where the range is kept by somebody else.
    ///
    /// # Safety
    /// As there; the range of the page is not dropped.
    pub(crate) unsafe fn appear_uncounted_in_fault(
        &self,
        page: PageId,
        bytes: *const u8,
        writable: bool,
    ) -> Result<(), Errno> {
        // SAFETY: passed on to the caller.
        unsafe { self.trap.fill(self.address_of(page), bytes, !writable) }
    }

    /// Maps pages of one range side by side with `zeros`, their own, write-protected unless `writable`; returns how many are there, which is less if the
    /// kernel refused one.
    ///
    /// # Safety
    /// The caller holds the entries of the pages, which are absent; `zeros` are whole pages.
    pub(crate) unsafe fn appear_zeros_in_fault(&self, first: PageId, zeros: &[u8], writable: bool) -> usize {
        let count = zeros.len() / OS_PAGE_BYTES;
        (0..count).for_each(|_| self.enter_in_fault(first.leaf()));
        // SAFETY: the range is not being dropped; the rest is passed on to the caller.
        let (done, _) = unsafe { self.trap.fill_zeros(self.address_of(first), zeros, !writable) };
        (done..count).for_each(|_| self.leave_range_in_fault(first.leaf()));
        done
    }

    /// Maps `count` pages of zeros, whose range is kept by somebody else.
    ///
    /// # Safety
    /// The pages are absent, and the caller's to bring in.
    pub(crate) unsafe fn appear_zero_uncounted(&self, first: PageId, count: usize) -> Result<(), Errno> {
        // SAFETY: passed on to the caller.
        unsafe { self.trap.zero(self.address_of(first), count * OS_PAGE_BYTES) }
    }

    /// Lets a mapped page be written.
    ///
    /// # Safety
    /// The page is mapped, and its entry is held, so that it stays so.
    pub(crate) unsafe fn allow_writes_in_fault(&self, page: PageId) -> Result<(), Errno> {
        // SAFETY: passed on to the caller.
        unsafe { self.trap.protect(self.address_of(page), OS_PAGE_BYTES, false) }
    }

    /// A thread that sleeps in the kernel for a page that is there already must be told.
    pub(crate) fn wake_in_fault(&self, page: PageId) -> Result<(), Errno> {
        self.trap.wake(self.address_of(page))
    }

    // ---- Pages vanish --------------------------------------------------------

    /// Makes ready what must go so that the pages do; page tables that the kernel has not freed yet are waited for here.
    pub(crate) fn prepare_in_fault(&self, pages: impl Iterator<Item = PageId>) -> Vanishing {
        let mut vanishing = Vanishing::new();
        for page in pages {
            let (range, dropped) = self.leave_in_fault(page);
            vanishing.add(range);
            if let Some(leaf) = dropped {
                vanishing.dropped[vanishing.dropped_len] = leaf;
                vanishing.dropped_len += 1;
            }
        }
        self.grace.drop_in_fault(vanishing.dropped_len as u64);
        vanishing
    }

    /// Has all of it vanish, by one call to the kernel.
    ///
    /// # Safety
    /// The bytes are kept elsewhere or not needed, and the entries of the pages are held.
    pub(crate) unsafe fn vanish_in_fault(&self, vanishing: &Vanishing) {
        // SAFETY: passed on to the caller; ranges are ours and locked by their counts.
        unsafe { self.discard_in_fault(&vanishing.ranges[..vanishing.len]) };
        for &leaf in &vanishing.dropped[..vanishing.dropped_len] {
            self.ranges.dropped_in_fault(leaf);
        }
    }

    /// Gives the bytes of ranges to the kernel, in the region, where nobody may touch them any more, and elsewhere.
    ///
    /// # Safety
    /// They are ours, and their bytes are not needed.
    unsafe fn discard_in_fault(&self, ranges: &[libc::iovec]) {
        let is_closed = ranges.iter().all(|range| {
            let start = range.iov_base.cast::<u8>();
            // SAFETY: passed on to the caller.
            self.page_at(start.addr()).is_none() || unsafe { self.trap.close(start, range.iov_len) }.is_ok()
        });
        // SAFETY: passed on to the caller.
        if !is_closed || unsafe { self.discarder.discard(ranges) }.is_err() {
            abort_in_fault(b"the kernel refused to unmap pages of a heap\n");
        }
    }

    /// What to unmap so that `page` goes, and the range if it goes as a whole.
    fn leave_in_fault(&self, page: PageId) -> (libc::iovec, Option<LeafId>) {
        self.trap.uncount_in_fault();
        if self.ranges.leave_in_fault(page.leaf()) {
            let start = self.address_of(page.leaf().page(0));
            (libc::iovec { iov_base: start.cast(), iov_len: LEAF_RANGE_BYTES }, Some(page.leaf()))
        } else {
            (libc::iovec { iov_base: self.address_of(page).cast(), iov_len: OS_PAGE_BYTES }, None)
        }
    }

    /// Takes a mapped page away without keeping its bytes.
    ///
    /// # Safety
    /// The caller holds its entry and wants the bytes gone.
    pub(crate) unsafe fn drop_page(&self, page: PageId) {
        let (range, dropped) = self.leave_in_fault(page);
        self.grace.drop_in_fault(u64::from(dropped.is_some()));
        // SAFETY: passed on to the caller.
        unsafe { self.discard_in_fault(&[range]) };
        if let Some(leaf) = dropped {
            self.ranges.dropped_in_fault(leaf);
        }
    }

    /// A page that was announced to its range was not mapped after all.
    pub(crate) fn leave_range_in_fault(&self, leaf: LeafId) {
        self.trap.uncount_in_fault();
        self.drop_empty_in_fault(leaf);
    }

    /// One less keeps the range; if it was the last, its page table goes.
    fn drop_empty_in_fault(&self, leaf: LeafId) {
        if self.ranges.leave_in_fault(leaf) {
            self.grace.drop_in_fault(1);
            self.drop_ranges_in_fault(leaf..LeafId(leaf.0 + 1));
        }
    }

    /// The page tables of ranges go that nothing keeps.
    fn drop_ranges_in_fault(&self, leaves: Range<LeafId>) {
        let count = leaves.end.0 - leaves.start.0;
        if count == 0 {
            return;
        }
        let start = self.address_of(leaves.start.page(0));
        let range = libc::iovec { iov_base: start.cast(), iov_len: count as usize * LEAF_RANGE_BYTES };
        // SAFETY: no page of the ranges is mapped.
        unsafe { self.discard_in_fault(&[range]) };
        (leaves.start.0..leaves.end.0).for_each(|leaf| self.ranges.dropped_in_fault(LeafId(leaf)));
    }

    /// Ranges that have a page table now, but for guarded ones.
    pub(crate) fn live_ranges(&self) -> usize {
        self.ranges.live()
    }

    /// How many pages at their addresses are more than the kernel has mappings for.
    pub(crate) fn excess(&self) -> usize {
        self.trap.excess()
    }

    /// Mapped pages of a range, and those that keep it.
    pub(crate) fn mapped(&self, leaf: LeafId) -> u32 {
        self.ranges.mapped(leaf)
    }

    /// Follows the kernel's grace periods until `is_over`.
    pub(crate) fn run_grace(&self, is_over: impl Fn() -> bool) {
        self.grace.run(is_over);
    }

    /// Wakes the thread that follows grace periods, to let it end.
    pub(crate) fn close(&self) {
        self.grace.close();
    }

    // ---- Faults that a thread reads ------------------------------------------

    /// Waits for a fault, or for `stop`.
    pub(crate) fn wait_for_faults(&self, stop: i32) -> Result<Ready, Errno> {
        self.trap.poll(stop)
    }

    /// The next fault.
    pub(crate) fn next_event(&self) -> Result<Option<Event>, Errno> {
        self.trap.next_event()
    }

    // ---- Children ------------------------------------------------------------

    /// Whether pages may be shared with a child.
    pub(crate) fn has_children(&self) -> bool {
        self.has_children.load(Ordering::Relaxed)
    }

    /// The process is about to fork.
    pub(crate) fn expect_children(&self) {
        self.has_children.store(true, Ordering::SeqCst);
    }

    /// Whether the region is copied to children.
    pub(crate) fn show_to_children(&self, shown: bool) -> Result<(), Errno> {
        let advice = if shown { Advice::DoFork } else { Advice::DontFork };
        // SAFETY: the region is ours; no byte changes.
        unsafe { advise(self.region.base(), self.region.len(), advice) }
    }

    /// In a child: a page that has bytes can be used.
    pub(crate) fn open_in_child(&self, page: PageId) -> Result<(), Errno> {
        // SAFETY: the page is this child's own.
        unsafe { self.trap.open(self.address_of(page), OS_PAGE_BYTES) }
    }

    /// In a child: takes the copy of the region. False if the kernel does not allow it.
    pub(crate) fn take_in_child(&self) -> bool {
        self.trap.take_in_child(self.region.base(), self.region.len())
    }
}
