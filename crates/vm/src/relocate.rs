//! Log to log: the cleaner's thread and its view of the table.

use std::time::Duration;

use aquifer_base::limits::LEAF_PAGES;
use aquifer_base::{LeafId, PageId};
use aquifer_device::AlignedBuffer;
use aquifer_log::cleaner::{CleanError, Found, Owner, clean};
use aquifer_log::log::reserve_segments;
use aquifer_log::victim::{Greedy, choose};
use aquifer_log::{AppendError, Head, Kind};
use aquifer_map::leaves::{LEAF_RECORD_BYTES_MAX, SCRATCH_BYTES};
use aquifer_map::{Locked, Place};

use crate::engine::Engine;
use crate::writer::{ROOM, make_room_for_pages, may_be_written};

/// Free segments beyond the reserve that the cleaner keeps ready.
const READY: u32 = 2;
/// Share of the segments, one in this many, that are kept ready in addition once the process has forked: what is cleaned while a
/// child reads the log is free only later.
const FOR_CHILDREN: u32 = 16;

struct Table<'a> {
    engine: &'a Engine,
    scratch: AlignedBuffer,
    /// Dirty pages of the leaf at hand.
    dirty: Vec<PageId>,
}

/// What a page's new record is made of.
enum Bytes<'a> {
    /// The old record.
    Survivor(&'a Found<'a>),
    /// Newer bytes in RAM.
    Newer(Locked<'a>),
}

impl Engine {
    pub(crate) fn run_cleaner(&self, mut head: Head) {
        let geometry = *self.log.geometry();
        let mut buffer = AlignedBuffer::new(geometry.block_bytes);
        let scratch = AlignedBuffer::new(SCRATCH_BYTES);
        let mut table = Table { engine: self, scratch, dirty: Vec::new() };
        let low = |engine: &Self| {
            let for_children =
                if engine.snapshot.has_children() { geometry.segments / FOR_CHILDREN } else { 0 };
            reserve_segments(geometry.segments) + READY + for_children
        };
        while self.log.wait_until_cleaning_is_wanted(low(self)) {
            let _pass = self.cleaner_gate.pass_in_fault();
            if self.log.review_readers() {
                continue;
            }
            let victim =
                choose(&Greedy, self.log.segments(), |kind| geometry.segment_room(kind), self.log.now());
            let Some(victim) = victim else {
                // Nothing is garbage now. Frees and rewrites will make some; nothing else can.
                self.log.stop_if_retired_segments_lack();
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            match clean(&self.log, victim, &mut table, &mut head, &mut buffer) {
                Ok(()) => self.counters.segments_cleaned.add(1),
                Err(CleanError::Damaged(_)) => self.counters.segments_retired.add(1),
                Err(CleanError::Append(AppendError::Full)) => {
                    self.log.stop_if_retired_segments_lack();
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
            Kind::Page | Kind::Whole => (found.id.kind, PageId(found.id.number).leaf().0),
            Kind::Leaf => (found.id.kind, found.id.number as u32),
        };
        for group in records.chunk_by(|a, b| group_of(a) == group_of(b)) {
            match group_of(&group[0]) {
                (Kind::Page | Kind::Whole, leaf) => self.relocate_leaf(LeafId(leaf), group, head)?,
                (Kind::Leaf, leaf) => {
                    for found in group {
                        head.make_room(Kind::Leaf, LEAF_RECORD_BYTES_MAX)?;
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
            let same_size =
                rest.iter().take_while(|found| found.payload.len() == first.payload.len()).count();
            head.set_class(self.engine.classes.get(leaf));
            let fit = make_room_for_pages(head, first.payload.len())?;
            let (now, later) = rest.split_at(fit.min(same_size));
            self.relocate_pages(leaf, now, fit, head);
            rest = later;
        }
        Ok(())
    }

    /// Moves the live ones of `group`, all of one size. Dirty pages of the leaf are written along in RAM's newer
    /// version: the leaf changes once for all of them, and their records stand side by side. `head` has room for
    /// `fit` records.
    fn relocate_pages(&mut self, leaf: LeafId, group: &[Found<'_>], fit: usize, head: &mut Head) {
        let engine = self.engine;
        // An unreadable leaf: its records stay where they are and the segment is retired.
        let Ok(mut held) = engine.leaves.hold(leaf, &mut self.scratch) else { return };
        let page_bytes = engine.leaves.page_bytes(leaf);
        let is_live = |found: &&Found<'_>| {
            found.payload.len() == page_bytes
                && held.place(PageId(found.id.number).index()).covers(found.address, page_bytes)
        };
        let mut moves = Vec::new();
        for found in group.iter().filter(is_live) {
            moves.push((PageId(found.id.number), Bytes::Survivor(found)));
        }
        if moves.is_empty() {
            return;
        }
        self.dirty.clear();
        if engine.log.free_segments() > reserve_segments(engine.log.geometry().segments) {
            engine.collect_dirty(leaf, fit - moves.len(), &mut self.dirty);
        }
        let newer = |&page| Some((page, Bytes::Newer(engine.entries.try_lock_if(page, may_be_written)?)));
        moves.extend(self.dirty.iter().filter_map(newer));
        // A survivor comes before the newer version of its page.
        moves.sort_by_key(|&(page, _)| page);
        for (page, bytes) in &moves {
            held.set_place(page.index(), engine.rewrite(*page, page_bytes, bytes, head));
        }
        held.store(Some(head)).expect(ROOM);
        for (_, bytes) in moves {
            if let Bytes::Newer(locked) = bytes {
                engine.release_written(locked, page_bytes);
            }
        }
    }
}

impl Engine {
    /// Appends a page's new record and says where the page is now.
    fn rewrite(&self, page: PageId, page_bytes: usize, bytes: &Bytes<'_>, head: &mut Head) -> Place {
        match bytes {
            // Newer bytes in RAM will be written anyway: the old ones need not be kept.
            Bytes::Survivor(_) if self.entries.find(page).is_some_and(|entry| entry.is_dirty()) => {
                Place::ZERO
            }
            Bytes::Survivor(found) => {
                self.counters.objects_cleaned.add(1);
                self.counters.objects_cleaned_bytes.add(page_bytes as u64);
                Place::exact(head.append(found.id, found.payload))
            }
            Bytes::Newer(locked) => self.append_page(page, page_bytes, locked, head),
        }
    }

    /// Whether the leaf lies in the region; records of an earlier heap in the same file may name others.
    fn knows_leaf(&self, leaf: LeafId) -> bool {
        (leaf.0 as usize) < self.region_bytes() / (LEAF_PAGES * aquifer_base::limits::OS_PAGE_BYTES)
    }
}
