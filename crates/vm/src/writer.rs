//! Cache to log: the thread that writes dirty pages back.
//!
//! It looks at the pages that the cache would evict next, so that evictions find clean ones. With each
//! dirty page go the other cold dirty pages of its leaf, side by side in the log: the leaf is changed
//! once for all of them, and they share one address in it.

use std::sync::atomic::Ordering;

use aquifer_base::{LeafId, PageId};
use aquifer_cache::{Class, SlotId};
use aquifer_device::AlignedBuffer;
use aquifer_log::record::{lone_record_bytes, records_in};
use aquifer_log::{AppendError, Head, Kind, ReadError, RecordId};
use aquifer_map::leaves::{LEAF_RECORD_BYTES_MAX, SCRATCH_BYTES};
use aquifer_map::{Entry, Locked, Place, State};

use crate::engine::Engine;

/// Share of a class's slots that the writer keeps clean ahead of eviction: one in this many.
const AHEAD: usize = 32;
/// Fewest and most slots that one look ahead takes in.
const AHEAD_MIN: usize = 64;
const AHEAD_MAX: usize = 4096;
/// How often the writer looks at a slot before it is evicted. Each look costs a look-up of the page, also when almost
/// all pages are clean.
pub(crate) const LOOKS_PER_SLOT: usize = 4;
/// Used objects are spared while at most this share of the evicted ones had to be written.
const WRITTEN_SHARE_MAX: f64 = 0.75;
/// Evictions between two looks at how many of the evicted objects had to be written.
const EVICTIONS_PER_LOOK: u64 = 4096;
/// Leaves that a pass cleans, so that faults find clean ones to evict.
const LEAVES_PER_PASS: usize = 64;

pub(crate) const ROOM: &str = "room was made for the leaf";

/// The writer's own memory.
struct Desk {
    head: Head,
    scratch: AlignedBuffer,
    upcoming: Vec<PageId>,
    group: Vec<PageId>,
    /// Why a leaf could not be read in this pass.
    failed: Option<ReadError>,
    /// Objects evicted and written at the last look.
    evicted: u64,
    written: u64,
}

/// Makes room for pages of `page_bytes` of one leaf, and for the leaf; returns how many the block takes, at least one.
pub(crate) fn make_room_for_pages(head: &mut Head, page_bytes: usize) -> Result<usize, AppendError> {
    head.make_room(Kind::Leaf, LEAF_RECORD_BYTES_MAX)?;
    let kind = Kind::of_page(page_bytes);
    head.make_room(kind, lone_record_bytes(page_bytes))?;
    Ok(records_in(head.room_bytes(kind), page_bytes))
}

pub(crate) fn may_be_written(entry: Entry) -> bool {
    // Whoever uses it in its slot may be writing.
    entry.state() == State::Cached && entry.is_dirty() && !entry.is_pinned()
}

impl Engine {
    pub(crate) fn run_writer(&self, head: Head) {
        let scratch = AlignedBuffer::new(SCRATCH_BYTES);
        let mut desk = Desk {
            head,
            scratch,
            upcoming: Vec::new(),
            group: Vec::new(),
            failed: None,
            evicted: 0,
            written: 0,
        };
        while !self.is_closing() {
            self.wait_until_writer_is_wanted();
            let _pass = self.writer_gate.pass_in_fault();
            if self.write_back_pass(&mut desk).is_err() {
                // The log has stopped or is closing. Faults see that by themselves.
                return;
            }
        }
    }

    /// How many of the slots of a class the writer keeps clean ahead of eviction.
    pub(crate) fn slots_ahead(&self, class: Class) -> usize {
        (self.cache.slots(class) / AHEAD).clamp(AHEAD_MIN, AHEAD_MAX)
    }

    /// Writes the dirty pages among those that each class evicts next or wants gone.
    fn write_back_pass(&self, desk: &mut Desk) -> Result<(), AppendError> {
        let written = |engine: &Self| {
            engine.counters.objects_written.sum() + engine.leaves.counters.written.load(Ordering::Relaxed)
        };
        let before = written(self);
        let urgent = self.urgent.swap(u64::MAX, Ordering::AcqRel);
        if urgent != u64::MAX {
            self.write_back(PageId(urgent), desk)?;
        }
        for class in Class::all() {
            let mut upcoming = std::mem::take(&mut desk.upcoming);
            upcoming.clear();
            self.cache.for_each_wanted(class, &mut |page| upcoming.push(page));
            if self.cache.slots(class) > 0 {
                self.cache.upcoming(class, self.slots_ahead(class), &mut |_, page| upcoming.push(page));
            }
            if self.classes.are_in_use() {
                // Those of a class together: the head changes segments as seldom as it can.
                upcoming.sort_by_key(|page| self.classes.get(page.leaf()));
            }
            let written = upcoming
                .iter()
                .filter(|&&page| self.entries.find(page).is_some_and(may_be_written))
                .try_for_each(|&page| self.write_back(page, desk));
            desk.upcoming = upcoming;
            written?;
        }
        if self.leaves.wants_room() {
            desk.head.make_room(Kind::Leaf, 2 * LEAF_RECORD_BYTES_MAX)?;
        }
        if let Err(error) = self.leaves.clean_some(LEAVES_PER_PASS, &mut desk.head, &mut desk.scratch) {
            desk.failed = Some(error);
        }
        self.trouble.note_pass(desk.failed.take().filter(|_| written(self) == before));
        self.look_at_evictions(desk);
        Ok(())
    }

    /// When most of what leaves must be written first, it should stay long enough to be written with its neighbours.
    fn look_at_evictions(&self, desk: &mut Desk) {
        let (evicted, written) = (self.cache.evicted(), self.counters.objects_written.sum());
        if evicted - desk.evicted >= EVICTIONS_PER_LOOK {
            let written_share = (written - desk.written) as f64 / (evicted - desk.evicted) as f64;
            self.cache.set_spares_used(written_share < WRITTEN_SHARE_MAX);
            (desk.evicted, desk.written) = (evicted, written);
        }
    }

    /// Writes `page` and its dirty neighbours, if it is still dirty.
    fn write_back(&self, page: PageId, desk: &mut Desk) -> Result<(), AppendError> {
        let leaf = page.leaf();
        let page_bytes = self.leaves.page_bytes(leaf);
        desk.head.set_class(self.classes.get(leaf));
        // Room comes first: waiting for it later would hold entries and the leaf that the cleaner needs.
        let limit = make_room_for_pages(&mut desk.head, page_bytes)?;
        self.collect_group(page, limit, &mut desk.group);
        let locked: Vec<(PageId, Locked<'_>)> = desk
            .group
            .iter()
            .filter_map(|&page| Some((page, self.entries.try_lock_if(page, may_be_written)?)))
            .collect();
        // Holding pages of the leaf keeps its size; before, it may have been freed and given out anew.
        if locked.is_empty() || self.leaves.page_bytes(leaf) != page_bytes {
            locked.into_iter().for_each(|(_, locked)| locked.restore());
            return Ok(());
        }
        let is_written = self.append_group(leaf, page_bytes, &locked, desk);
        for (_, locked) in locked {
            if is_written { self.release_written(locked, page_bytes) } else { locked.restore() }
        }
        Ok(())
    }

    /// The dirty cold pages of the leaf of `page`, in order, at most `limit`, `page` among them.
    fn collect_group(&self, page: PageId, limit: usize, group: &mut Vec<PageId>) {
        group.clear();
        group.push(page);
        self.collect_dirty(page.leaf(), usize::MAX, group);
        group.sort_unstable();
        group.dedup();
        let at = group.partition_point(|&other| other < page);
        let first = at.min(group.len().saturating_sub(limit));
        group.drain(..first);
        group.truncate(limit);
    }

    /// Writes pages of one leaf, for which the desk's head has room; false if the leaf cannot be read. Then they stay dirty
    /// in RAM, where they can be read; the error has been counted.
    fn append_group(
        &self,
        leaf: LeafId,
        page_bytes: usize,
        locked: &[(PageId, Locked<'_>)],
        desk: &mut Desk,
    ) -> bool {
        let mut held = match self.leaves.hold(leaf, &mut desk.scratch) {
            Ok(held) => held,
            Err(error) => {
                desk.failed = Some(error);
                return false;
            }
        };
        for (page, locked) in locked {
            held.set_place(page.index(), self.append_page(*page, page_bytes, locked, &mut desk.head));
        }
        held.store(Some(&mut desk.head)).expect(ROOM);
        true
    }

    /// Adds up to `limit` dirty cold pages of `leaf` that may be written now to `pages`.
    pub(crate) fn collect_dirty(&self, leaf: LeafId, limit: usize, pages: &mut Vec<PageId>) {
        let mut left = limit;
        self.entries.for_each_of_leaf(leaf, &mut |page, entry| {
            let slot = entry.slot().filter(|_| may_be_written(entry));
            if left > 0 && slot.is_some_and(|slot| self.cache.is_cold(SlotId(slot))) {
                pages.push(page);
                left -= 1;
            }
        });
    }

    /// Appends the bytes of a cached page, for which `head` has room. A page of zeros needs no record.
    pub(crate) fn append_page(
        &self,
        page: PageId,
        page_bytes: usize,
        locked: &Locked<'_>,
        head: &mut Head,
    ) -> Place {
        let slot = SlotId(locked.entry().slot().expect("a cached page has a slot"));
        // SAFETY: we hold the entry of the page that owns the slot, which has room for its bytes.
        let bytes = unsafe { std::slice::from_raw_parts(self.cache.pointer(slot), page_bytes) };
        if bytes.iter().all(|&byte| byte == 0) {
            return Place::ZERO;
        }
        Place::exact(head.append(RecordId::of_page(page.0, page_bytes), bytes))
    }

    /// Gives back the entry of a page whose bytes were appended, as clean.
    pub(crate) fn release_written(&self, locked: Locked<'_>, page_bytes: usize) {
        let slot = locked.entry().slot().expect("a cached page has a slot");
        let entry = locked.entry().cached(slot).with_dirty(false);
        locked.release(entry);
        self.dirty.fetch_sub(1, Ordering::Relaxed);
        self.counters.objects_written.add(1);
        self.counters.objects_written_bytes.add(page_bytes as u64);
    }
}
