//! Log to log: the cleaner's thread and its view of the table.

use std::time::Duration;

use aquifer_base::{LeafId, PageId};
use aquifer_device::AlignedBuffer;
use aquifer_log::cleaner::{CleanError, Found, Owner, clean};
use aquifer_log::log::reserve_segments;
use aquifer_log::victim::{Greedy, choose};
use aquifer_log::{AppendError, Head, Kind};
use aquifer_map::Place;
use aquifer_map::leaves::{LEAF_RECORD_BYTES_MAX, SCRATCH_BYTES};

use crate::gate::Gates;
use crate::pages::Pages;
use crate::residence::Held;
use crate::write_back::{self, ROOM};

/// Free segments beyond the reserve that the cleaner keeps ready.
const READY: u32 = 2;
/// Share of the segments, one in this many, that are kept ready in addition once the process has forked: what is cleaned while a
/// child reads the log is free only later.
const FOR_CHILDREN: u32 = 16;

struct Table<'a> {
    pages: &'a Pages,
    scratch: AlignedBuffer,
    /// Dirty pages of the leaf at hand.
    dirty: Vec<PageId>,
}

/// What a page's new record is made of.
enum Bytes<'a> {
    /// The old record.
    Survivor(&'a Found<'a>),
    /// Newer bytes in RAM.
    Newer(Held<'a>),
}

/// Cleans segments until the log closes.
pub(crate) fn run(pages: &Pages, gates: &Gates, mut head: Head) {
    let log = pages.backing.log();
    let geometry = *log.geometry();
    let mut buffer = AlignedBuffer::new(geometry.block_bytes);
    let mut table = Table { pages, scratch: AlignedBuffer::new(SCRATCH_BYTES), dirty: Vec::new() };
    let low = || {
        let has_children = pages.mapping.has_children();
        let for_children = if has_children { geometry.segments / FOR_CHILDREN } else { 0 };
        reserve_segments(geometry.segments) + READY + for_children
    };
    while log.wait_until_cleaning_is_wanted(low()) {
        let _pass = gates.pass_as_cleaner();
        if log.review_readers() {
            continue;
        }
        let victim = choose(&Greedy, log.segments(), |kind| geometry.segment_room(kind), log.now());
        let Some(victim) = victim else {
            // Nothing is garbage now. Frees and rewrites will make some; nothing else can.
            log.stop_if_retired_segments_lack();
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        match clean(log, victim, &mut table, &mut head, &mut buffer) {
            Ok(()) => pages.counters.segments_cleaned.add(1),
            Err(CleanError::Damaged(_)) => pages.counters.segments_retired.add(1),
            Err(CleanError::Append(AppendError::Full)) => {
                log.stop_if_retired_segments_lack();
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            Err(CleanError::Append(_)) => return,
        };
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
                        self.pages.backing.leaves().relocate(
                            LeafId(leaf),
                            found.address,
                            found.payload,
                            head,
                        );
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
        // Records of an earlier heap in the same file may name others.
        if leaf.0 >= self.pages.mapping.leaves() {
            return Ok(());
        }
        let mut rest = group;
        while let Some(first) = rest.first() {
            let same_size =
                rest.iter().take_while(|found| found.payload.len() == first.payload.len()).count();
            head.set_class(self.pages.backing.class_of(leaf));
            let fit = write_back::make_room(head, first.payload.len())?;
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
        let pages = self.pages;
        // An unreadable leaf: its records stay where they are and the segment is retired.
        let Ok(mut held) = pages.backing.leaves().hold(leaf, &mut self.scratch) else { return };
        let page_bytes = pages.backing.leaves().page_bytes(leaf);
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
        if pages.backing.log().free_segments() > reserve_segments(pages.backing.log().geometry().segments) {
            write_back::collect(pages, leaf, fit - moves.len(), &mut self.dirty);
        }
        let newer = |&page| Some((page, Bytes::Newer(write_back::try_hold(pages, page)?)));
        moves.extend(self.dirty.iter().filter_map(newer));
        // A survivor comes before the newer version of its page.
        moves.sort_by_key(|&(page, _)| page);
        for (page, bytes) in &moves {
            held.set_place(page.index(), Self::rewrite(pages, *page, page_bytes, bytes, head));
        }
        held.store(Some(head)).expect(ROOM);
        for (_, bytes) in moves {
            if let Bytes::Newer(page) = bytes {
                write_back::release_written(pages, page, page_bytes);
            }
        }
    }

    /// Appends a page's new record and says where the page is now.
    fn rewrite(pages: &Pages, page: PageId, page_bytes: usize, bytes: &Bytes<'_>, head: &mut Head) -> Place {
        match bytes {
            // Newer bytes in RAM will be written anyway: the old ones need not be kept.
            Bytes::Survivor(_) if pages.residence.find(page).is_some_and(|entry| entry.is_dirty()) => {
                Place::ZERO
            }
            Bytes::Survivor(found) => {
                pages.counters.objects_cleaned.add(1);
                pages.counters.objects_cleaned_bytes.add(page_bytes as u64);
                Place::exact(head.append(found.id, found.payload))
            }
            Bytes::Newer(held) => write_back::append(held, page_bytes, head),
        }
    }
}
