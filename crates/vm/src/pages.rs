//! The parts of a heap's memory that know nothing of each other, side by side. What is done with several of them stands above.

use std::sync::{Arc, OnceLock};

use aquifer_base::PageId;

use crate::backing::Backing;
use crate::budget::{Budget, ProcessRam};
use crate::context::Context;
use crate::counters::Counters;
use crate::foresight::Foresight;
use crate::holds::Holds;
use crate::mapping::Mapping;
use crate::natives::Natives;
use crate::page_set::PageSet;
use crate::pool::Pool;
use crate::residence::Residence;

/// The pages of one heap. Each part owns its state: its fields are its own.
pub(crate) struct Pages {
    /// Pages at their addresses.
    pub(crate) mapping: Mapping,
    /// What is in RAM, in which form.
    pub(crate) residence: Residence,
    /// Where the rest is.
    pub(crate) backing: Backing,
    /// What will be wanted.
    pub(crate) foresight: Foresight,
    /// Pins and uses that keep pages where they are.
    pub(crate) holds: Holds,
    /// What is the kernel's still.
    pub(crate) natives: Natives,
    /// What the program may not touch.
    pub(crate) closed: Arc<PageSet>,
    /// Memory that faults need.
    pub(crate) contexts: Pool<Context>,
    /// How RAM is divided.
    pub(crate) budget: Budget,
    /// RAM of the process, if the heap leaves it what it takes.
    pub(crate) process_ram: OnceLock<ProcessRam>,
    /// What happened so far.
    pub(crate) counters: Box<Counters>,
}

impl Pages {
    /// How long threads have waited for flash so far, for pages on it and for room in RAM, nanoseconds.
    pub(crate) fn waited_ns(&self) -> u64 {
        self.backing.read_durations().sum_ns() + self.residence.room_wait_ns()
    }

    /// Whether the bytes of `page` fill it.
    pub(crate) fn is_whole(&self, page: PageId) -> bool {
        self.backing.is_whole(page)
    }
}
