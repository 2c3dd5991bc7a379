//! RAM that a process uses beside its heap: the cache has as much less.
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
    text: Box<[u8; 8192]>,
}

impl Outlook {
    pub(crate) fn new() -> Self {
        Self { looked: Instant::now(), text: Box::new([0; 8192]) }
    }

    /// Waits until the writer has something to do.
    pub(crate) fn wait_for_work(&mut self, pages: &Pages, is_over: impl Fn() -> bool) {
        let Some(&ram) = pages.process_ram.get() else {
            pages.backing.wait_until_writer_is_wanted(is_over);
            return;
        };
        loop {
            let timeout_ns = if pages.residence.lacks_reserved() { LACK_NS } else { IDLE_NS };
            let is_wanted = pages.backing.wait_for_writer_to_be_wanted(timeout_ns, &is_over);
            if self.looked.elapsed() >= LOOK_PERIOD {
                self.look(pages, ram);
            }
            if is_wanted || is_over() || pages.residence.lacks_reserved() {
                return;
            }
        }
    }

    /// Leaves the process what it takes beside the heap.
    fn look(&mut self, pages: &Pages, ram: ProcessRam) {
        self.looked = Instant::now();
        let Some(memory) = memory_of_self(&mut self.text[..]) else { return };
        let used = usage(pages, 0).ram_bytes;
        let beside = ((memory.anonymous_bytes + memory.page_table_bytes) as usize).saturating_sub(used);
        let planned = ram.all - ram.heap + ram.all / ALLOWED_PART;
        let most = (ram.heap / RESERVED_PART).min(ram.heap.saturating_sub(ram.least));
        pages.residence.set_reserved(beside.saturating_sub(planned).min(most));
    }
}

/// Has the pages leave their addresses that stand in the slab which is to be free, and adds them to `wanted`.
pub(crate) fn unmap_wanted(pages: &Pages, wanted: &mut Vec<PageId>) {
    pages.residence.for_each_wanted(None, &mut |page| wanted.push(page));
    wanted.chunks(BATCH).for_each(|batch| leave_all_in_fault(pages, batch));
}
