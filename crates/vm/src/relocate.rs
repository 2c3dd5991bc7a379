//! Log to log: the cleaner's thread and its view of the table.

use std::time::Duration;

use aquifer_base::limits::LEAF_PAGES;
use aquifer_base::{LeafId, PageId};
use aquifer_device::AlignedBuffer;
use aquifer_log::cleaner::{CleanError, Found, Owner, clean};
use aquifer_log::log::reserve_segments;
use aquifer_log::record::record_bytes;
use aquifer_log::victim::{Greedy, choose};
use aquifer_log::{AppendError, Head, Kind};
use aquifer_map::leaves::{LEAF_RECORD_BYTES_MAX, SCRATCH_BYTES};
use aquifer_map::{Held, Place};

use crate::engine::Engine;
use crate::writer::records_that_fit;

/// Free segments beyond the reserve that the cleaner keeps ready.
const READY: u32 = 4;

struct Table<'a> {
    engine: &'a Engine,
    scratch: AlignedBuffer,
}

impl Engine {
    pub(crate) fn run_cleaner(&self, mut head: Head) {
        let geometry = *self.log.geometry();
        let mut buffer = AlignedBuffer::new(geometry.block_bytes);
        let mut table = Table { engine: self, scratch: AlignedBuffer::new(SCRATCH_BYTES) };
        let low = reserve_segments(geometry.segments) + READY;
        while self.log.wait_until_cleaning_is_wanted(low) {
            let victim = choose(&Greedy, self.log.segments(), geometry.segment_bytes, self.log.now());
            let Some(victim) = victim else {
                // Nothing is garbage now. Frees and rewrites will make some; nothing else can.
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            match clean(&self.log, victim, &mut table, &mut head, &mut buffer) {
                Ok(()) => self.counters.segments_cleaned.add(1),
                Err(CleanError::Damaged(_)) => self.counters.segments_retired.add(1),
                Err(CleanError::Append(AppendError::Full)) => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Err(CleanError::Append(_)) => return,
            };
        }
    }
}

impl Owner for Table<'_> {
    fn relocate(&mut self, records: &[Found<'_>], head: &mut Head) -> Result<(), AppendError> {
        let group_of = |found: &Found<'_>| match found.id.kind {
            Kind::Page => (found.id.kind, PageId(found.id.number).leaf().0),
            Kind::Leaf => (found.id.kind, found.id.number as u32),
        };
        for group in records.chunk_by(|a, b| group_of(a) == group_of(b)) {
            match group_of(&group[0]) {
                (Kind::Page, leaf) => self.relocate_leaf(LeafId(leaf), group, head)?,
                (Kind::Leaf, leaf) => {
                    for found in group {
                        head.make_room(LEAF_RECORD_BYTES_MAX)?;
                        self.engine.leaves.relocate(LeafId(leaf), found.address, found.payload, head);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Table<'_> {
    fn relocate_leaf(
        &mut self,
        leaf: LeafId,
        group: &[Found<'_>],
        head: &mut Head,
    ) -> Result<(), AppendError> {
        if !self.engine.knows_leaf(leaf) {
            return Ok(());
        }
        let mut rest = group;
        while let Some(first) = rest.first() {
            let fit = records_that_fit(head, record_bytes(first.payload.len()))?;
            let same_size =
                rest.iter().take_while(|found| found.payload.len() == first.payload.len()).count();
            let (part, behind) = rest.split_at(fit.min(same_size));
            self.relocate_pages(leaf, part, head);
            rest = behind;
        }
        Ok(())
    }

    /// Moves the live ones of `group`, all of one size, for which `head` has room.
    fn relocate_pages(&mut self, leaf: LeafId, group: &[Found<'_>], head: &mut Head) {
        let engine = self.engine;
        // An unreadable leaf: its records stay where they are and the segment is retired.
        let Ok(mut held) = engine.leaves.hold(leaf, &mut self.scratch) else { return };
        let page_bytes = engine.leaves.page_bytes(leaf);
        let mut changed = false;
        for found in group.iter().filter(|found| found.payload.len() == page_bytes) {
            let page = PageId(found.id.number);
            if held.place(page.index()).covers(found.address, page_bytes) {
                self.relocate_page(&mut held, page, found, head);
                changed = true;
            }
        }
        if changed {
            held.store(Some(head)).expect("with a head there is always room");
        }
    }

    fn relocate_page(&self, held: &mut Held<'_>, page: PageId, found: &Found<'_>, head: &mut Head) {
        // Newer bytes in RAM will be written anyway: the old ones need not be kept.
        let superseded = self.engine.entries.find(page).is_some_and(|entry| entry.is_dirty());
        let place = if superseded {
            Place::ZERO
        } else {
            let counters = &self.engine.counters;
            counters.objects_cleaned.add(1);
            counters.objects_cleaned_bytes.add(found.payload.len() as u64);
            Place::exact(head.append(found.id, found.payload))
        };
        held.set_place(page.index(), place);
    }
}

impl Engine {
    /// Whether the leaf lies in the region; records of an earlier heap in the same file may name others.
    fn knows_leaf(&self, leaf: LeafId) -> bool {
        (leaf.0 as usize) < self.region_bytes() / (LEAF_PAGES * aquifer_base::limits::OS_PAGE_BYTES)
    }
}
