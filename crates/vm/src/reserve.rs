//! RAM that others than the cache use: the cache has as much less.
//!
//! Tables of whole pages grow with what is in use. Until then the cache has their RAM ([`Budget::lent`](crate::budget::Budget)).
//!
//! Libraries that are loaded later, stacks, and what the C library and other allocators have come on top of a heap that was given all of the
//! RAM. So the writer looks at the process now and then, and leaves it what it takes, up to a half of what the heap has.
//! The same when the memory cgroup has little left, which others may use: the kernel would end one of them.

use std::time::{Duration, Instant};

use aquifer_base::PageId;
use aquifer_sys::process::memory_by;

use crate::budget::ProcessRam;
use crate::leave::leave_all_in_fault;
use crate::mapping::BATCH;
use crate::pages::Pages;
use crate::strain::Watch;
use crate::usage::{Usage, usage};

/// How long nobody looks while memory comes and goes or the writer has work anyway; and when nothing changes.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
const IDLE_PERIOD: Duration = Duration::from_secs(1);
/// The same while the cache has more than it should, or the group little left.
const LACK_PERIOD: Duration = Duration::from_millis(5);
/// Memory has changed if it differs by one part in `CHANGED_PART`.
const CHANGED_PART: usize = 256;
/// Memory beside the heap may exceed the plan by one part of the RAM in `ALLOWED_PART`.
const ALLOWED_PART: usize = 64;
/// The heap leaves one part in `RESERVED_PART` of its RAM to its own process at most.
const RESERVED_PART: usize = 2;
/// One part in `MARGIN_PART` of a group's limit is to stay free, within the bounds of `MARGIN_BYTES`.
const MARGIN_PART: usize = 10;
const MARGIN_BYTES: std::ops::RangeInclusive<usize> = 4 << 20..=256 << 20;
/// At each look the heap takes back one part in `RETURN_PART` of what the group no longer needs.
const RETURN_PART: usize = 8;

/// Watches the RAM of the process and of its group.
pub(crate) struct Outlook {
    looked: Instant,
    /// The cache has more than it should.
    lacks: bool,
    /// What was in use at the last look, bytes, and whether that was about the same at the one before.
    used: usize,
    is_steady: bool,
    /// The group has little left.
    is_tight: bool,
    /// What the heap leaves to its group, bytes.
    withheld: usize,
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
            is_tight: false,
            withheld: 0,
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
        let patience = match self.is_steady {
            _ if self.lacks || self.is_tight => LACK_PERIOD,
            false => LOOK_PERIOD,
            true => IDLE_PERIOD,
        };
        pages.backing.wait_for_writer_to_be_wanted(patience.as_nanos() as u64, is_over)
    }

    /// Looks now and then how much all takes that is not in the cache, and leaves it that; whether the cache has more than it should.
    pub(crate) fn look(&mut self, pages: &Pages) -> bool {
        let period = if self.is_tight { LACK_PERIOD } else { LOOK_PERIOD };
        if self.looked.elapsed() >= period {
            self.looked = Instant::now();
            let Usage { ram_bytes, cache_bytes, .. } = usage(pages, 0);
            let beside = pages.process_ram.get().map_or(0, |ram| self.bytes_beside(ram, ram_bytes));
            self.is_steady = (ram_bytes + beside).abs_diff(self.used) <= self.used / CHANGED_PART;
            self.used = ram_bytes + beside;
            if let Some(ram) = pages.process_ram.get()
                && let Some(strain) = self.watch.look(pages)
            {
                (ram.tell)(&strain);
            }
            let reserved = pages.process_ram.get().map_or(0, |ram| {
                self.look_at_group(ram, pages.budget.cache.saturating_sub(cache_bytes));
                unplanned(ram, beside).max(self.withheld)
            });
            pages.residence.set_reserved(pages.budget.owed(ram_bytes - cache_bytes) + reserved);
        }
        self.lacks = pages.residence.lacks_reserved();
        self.lacks
    }

    /// Looks how much is left in the group, in which others may take RAM as well: the kernel ends somebody when there is none. The cache leaves `free` bytes
    /// already.
    fn look_at_group(&mut self, ram: &ProcessRam, free: usize) {
        let Some(room) = (ram.group)() else {
            self.withheld = 0;
            return;
        };
        let (limit, left) = (room.limit as usize, room.left() as usize);
        let margin = (limit / MARGIN_PART).clamp(*MARGIN_BYTES.start(), *MARGIN_BYTES.end());
        let most = ram.heap.saturating_sub(ram.least);
        // A heap that has given up all that it may need not look more often.
        self.is_tight = left < margin && self.withheld < most;
        if left < margin {
            self.withheld = self.withheld.max(free + margin - left).min(most);
        } else {
            self.withheld = self.withheld.saturating_sub((left - margin).div_ceil(RETURN_PART));
        }
        // Others are as fast as memory is.
        self.is_steady &= self.withheld == 0 && left > limit / 2;
    }

    /// What the process takes beside its heap's `used` bytes; 0 if the kernel does not tell.
    fn bytes_beside(&mut self, ram: &ProcessRam, used: usize) -> usize {
        ram.file.as_ref().and_then(|file| memory_by(file, &mut self.text[..])).map_or(0, |memory| {
            ((memory.anonymous_bytes + memory.page_table_bytes) as usize).saturating_sub(used)
        })
    }
}

/// RAM beside the heap that was not planned, up to the most that the heap may give up for it.
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
