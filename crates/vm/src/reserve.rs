//! RAM that a process uses beside its heap: the cache has as much less.
//!
//! Libraries that are loaded later, stacks, and what the C library and other allocators have come on top of a heap that was given all of the
//! RAM. So the writer looks at the process now and then, and leaves it what it takes, up to a half of what the heap has.

use std::time::{Duration, Instant};

use aquifer_base::PageId;
use aquifer_sys::process::memory_of_self;

use crate::leave::leave_all_in_fault;
use crate::mapping::BATCH;
use crate::pages::Pages;
use crate::usage::usage;

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

    /// Waits until the writer is wanted, or may have to free RAM for the process; whether it is wanted.
    pub(crate) fn wait(&self, pages: &Pages, is_over: impl Fn() -> bool) -> bool {
        if pages.process_ram.get().is_none() {
            pages.backing.wait_until_writer_is_wanted(is_over);
            return true;
        }
        pages.backing.wait_for_writer_to_be_wanted(if self.lacks { LACK_NS } else { IDLE_NS }, is_over)
    }

    /// Looks now and then how much the process takes beside the heap, and leaves it that; whether the cache has more than it should.
    pub(crate) fn look(&mut self, pages: &Pages) -> bool {
        if let Some(ram) = pages.process_ram.get().filter(|_| self.looked.elapsed() >= LOOK_PERIOD) {
            self.looked = Instant::now();
            if let Some(memory) = memory_of_self(&mut self.text[..]) {
                let has = (memory.anonymous_bytes + memory.page_table_bytes) as usize;
                let beside = has.saturating_sub(usage(pages, 0).ram_bytes);
                let planned = ram.all - ram.heap + ram.all / ALLOWED_PART;
                let most = (ram.heap / RESERVED_PART).min(ram.heap.saturating_sub(ram.least));
                pages.residence.set_reserved(beside.saturating_sub(planned).min(most));
            }
        }
        self.lacks = pages.residence.lacks_reserved();
        self.lacks
    }
}

/// Has the pages leave their addresses that stand in the slab which is to be free, and adds them to `wanted`.
pub(crate) fn unmap_wanted(pages: &Pages, wanted: &mut Vec<PageId>) {
    pages.residence.for_each_wanted(None, &mut |page| wanted.push(page));
    wanted.chunks(BATCH).for_each(|batch| leave_all_in_fault(pages, batch));
}
