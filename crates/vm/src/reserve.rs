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
use crate::usage::{Usage, usage};

/// How long nobody looks, when the writer has work anyway; and when it has none.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
const IDLE_NS: u64 = 1_000_000_000;
/// The same while the cache has more than it should.
const LACK_NS: u64 = 5_000_000;
/// Memory beside the heap up to one part of the RAM in so many is nobody's worry.
const ALLOWED_PART: usize = 64;
/// The most that the heap leaves to others: one part in so many.
const RESERVED_PART: usize = 2;

/// Who looks at the process.
pub(crate) struct Outlook {
    looked: Instant,
    /// The cache has more than it should.
    lacks: bool,
    text: Box<[u8; 8192]>,
}

impl Outlook {
    pub(crate) fn new() -> Self {
        Self { looked: Instant::now(), lacks: false, text: Box::new([0; 8192]) }
    }

    /// Waits until the writer is wanted, or may have to free RAM for others; whether it is wanted.
    pub(crate) fn wait(&self, pages: &Pages, is_over: impl Fn() -> bool) -> bool {
        if pages.process_ram.get().is_none() && pages.budget.lent == 0 {
            pages.backing.wait_until_writer_is_wanted(is_over);
            return true;
        }
        pages.backing.wait_for_writer_to_be_wanted(if self.lacks { LACK_NS } else { IDLE_NS }, is_over)
    }

    /// Looks now and then how much all takes that is not in the cache, and leaves it that; whether the cache has more than it should.
    pub(crate) fn look(&mut self, pages: &Pages) -> bool {
        if self.looked.elapsed() >= LOOK_PERIOD {
            self.looked = Instant::now();
            let Usage { ram_bytes, cache_bytes, .. } = usage(pages, 0);
            let beside = pages.process_ram.get().and_then(|ram| self.unplanned(ram, ram_bytes)).unwrap_or(0);
            pages.residence.set_reserved(pages.budget.owed(ram_bytes - cache_bytes) + beside);
        }
        self.lacks = pages.residence.lacks_reserved();
        self.lacks
    }

    /// What the process takes beside its heap's `used` bytes, more than was planned.
    fn unplanned(&mut self, ram: &ProcessRam, used: usize) -> Option<usize> {
        let memory = memory_of_self(&mut self.text[..])?;
        let beside = ((memory.anonymous_bytes + memory.page_table_bytes) as usize).saturating_sub(used);
        let planned = ram.all - ram.heap + ram.all / ALLOWED_PART;
        let most = (ram.heap / RESERVED_PART).min(ram.heap.saturating_sub(ram.least));
        Some(beside.saturating_sub(planned).min(most))
    }
}

/// Has the pages leave their addresses that stand in the slab which is to be free, and adds them to `wanted`.
pub(crate) fn unmap_wanted(pages: &Pages, wanted: &mut Vec<PageId>) {
    pages.residence.for_each_wanted(None, &mut |page| wanted.push(page));
    wanted.chunks(BATCH).for_each(|batch| leave_all_in_fault(pages, batch));
}
