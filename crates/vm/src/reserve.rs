//! RAM that others than the cache use: the cache has as much less.
//!
//! Tables of whole pages grow with what is in use. Until then the cache has their RAM ([`Budget::lent`](crate::budget::Budget)).
//!
//! Libraries that are loaded later, stacks, and what the C library and other allocators have come on top of a heap that was given all of the
//! RAM. So the writer looks at the process now and then, and leaves it what it takes, up to a half of what the heap has.

use std::time::{Duration, Instant};

use aquifer_base::PageId;
use aquifer_sys::process::memory_of_self;

use crate::budget::ProcessRam;
use crate::leave::leave_all_in_fault;
use crate::mapping::BATCH;
use crate::pages::Pages;
use crate::strain::Watch;
use crate::usage::{Usage, usage};

/// How long nobody looks while memory comes and goes or the writer has work anyway; and when nothing changes.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
const IDLE_NS: u64 = 1_000_000_000;
/// The same while the cache has more than it should.
const LACK_NS: u64 = 5_000_000;
/// Memory that has changed by one part in so many comes and goes.
const CHANGED_PART: usize = 256;
/// Memory beside the heap up to one part of the RAM in so many is nobody's worry.
const ALLOWED_PART: usize = 64;
/// The most that the heap leaves to others: one part in so many.
const RESERVED_PART: usize = 2;

/// Who looks at the process.
pub(crate) struct Outlook {
    looked: Instant,
    /// The cache has more than it should.
    lacks: bool,
    /// What was in use at the last look, bytes, and whether that was about the same at the one before.
    used: usize,
    is_steady: bool,
    watch: Watch,
    text: Box<[u8; 8192]>,
}

impl Outlook {
    pub(crate) fn new() -> Self {
        Self {
            looked: Instant::now(),
            lacks: false,
            used: 0,
            is_steady: false,
            watch: Watch::new(),
            text: Box::new([0; 8192]),
        }
    }

    /// Waits until the writer is wanted, or may have to free RAM for others; whether it is wanted.
    pub(crate) fn wait(&self, pages: &Pages, is_over: impl Fn() -> bool) -> bool {
        if pages.process_ram.get().is_none() && pages.budget.lent == 0 {
            pages.backing.wait_until_writer_is_wanted(is_over);
            return true;
        }
        let patience_ns = match (self.lacks, self.is_steady) {
            (true, _) => LACK_NS,
            (false, false) => LOOK_PERIOD.as_nanos() as u64,
            (false, true) => IDLE_NS,
        };
        pages.backing.wait_for_writer_to_be_wanted(patience_ns, is_over)
    }

    /// Looks now and then how much all takes that is not in the cache, and leaves it that; whether the cache has more than it should.
    pub(crate) fn look(&mut self, pages: &Pages) -> bool {
        if self.looked.elapsed() >= LOOK_PERIOD {
            self.looked = Instant::now();
            let Usage { ram_bytes, cache_bytes, .. } = usage(pages, 0);
            let beside = pages.process_ram.get().map_or(0, |_| self.bytes_beside(ram_bytes));
            self.is_steady = (ram_bytes + beside).abs_diff(self.used) <= self.used / CHANGED_PART;
            self.used = ram_bytes + beside;
            if let Some(ram) = pages.process_ram.get()
                && let Some(strain) = self.watch.look(pages)
            {
                (ram.tell)(&strain);
            }
            let unplanned = pages.process_ram.get().map_or(0, |ram| unplanned(ram, beside));
            pages.residence.set_reserved(pages.budget.owed(ram_bytes - cache_bytes) + unplanned);
        }
        self.lacks = pages.residence.lacks_reserved();
        self.lacks
    }

    /// What the process takes beside its heap's `used` bytes; 0 if the kernel does not tell.
    fn bytes_beside(&mut self, used: usize) -> usize {
        memory_of_self(&mut self.text[..]).map_or(0, |memory| {
            ((memory.anonymous_bytes + memory.page_table_bytes) as usize).saturating_sub(used)
        })
    }
}

/// So much of what the process takes beside its heap was not planned.
fn unplanned(ram: &ProcessRam, beside: usize) -> usize {
    let planned = ram.all - ram.heap + ram.all / ALLOWED_PART;
    let most = (ram.heap / RESERVED_PART).min(ram.heap.saturating_sub(ram.least));
    beside.saturating_sub(planned).min(most)
}

/// Has the pages leave their addresses that stand in the slab which is to be free, and adds them to `wanted`.
pub(crate) fn unmap_wanted(pages: &Pages, wanted: &mut Vec<PageId>) {
    pages.residence.for_each_wanted(None, &mut |page| wanted.push(page));
    wanted.chunks(BATCH).for_each(|batch| leave_all_in_fault(pages, batch));
}
