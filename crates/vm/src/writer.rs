//! Cache to log: the thread that writes dirty pages back.
//!
//! It looks at the pages that the cache would evict next, so that evictions find clean ones. With each
//! dirty page go the other cold dirty pages of its leaf, side by side in the log: the leaf is changed
//! once for all of them, and they share one address in it.
//!
//! Before, it compresses whole pages that were not used again, if RAM is short of room for others.

mod gain;
mod spare_time;

use std::sync::atomic::Ordering;

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_cache::Class;
use aquifer_device::AlignedBuffer;
use aquifer_log::{AppendError, Head, Kind, ReadError};
use aquifer_map::leaves::{LEAF_RECORD_BYTES_MAX, SCRATCH_BYTES};

use crate::gate::Gates;
use crate::pages::Pages;
use crate::reserve::{Outlook, unmap_wanted};
use crate::residence::{Compressor, Held, may_be_compressed, may_be_written};
use crate::room;
use crate::write_back::{self, ROOM};
use gain::Gain;
use spare_time::SpareTime;

/// Used objects are spared while at most this share of the evicted ones had to be written.
const WRITTEN_SHARE_MAX: f64 = 0.75;
/// Evictions between two looks at how many of the evicted objects had to be written, and between two at whether pages shrink.
const EVICTIONS_PER_LOOK: u64 = 4096;
/// Leaves that a pass cleans, so that faults find clean ones to evict.
const LEAVES_PER_PASS: usize = 64;
/// Slots of whole pages that the hand passes which compresses, in a pass at most and at once.
const COMPRESSED_PER_PASS: usize = 4096;
const COMPRESSED_AT_ONCE: usize = 64;
/// Slabs that a pass tries to free for the process.
const SLABS_PER_PASS: usize = 16;

/// The writer with its own memory.
struct Writer<'a> {
    pages: &'a Pages,
    head: Head,
    scratch: AlignedBuffer,
    compressor: Compressor,
    spare_time: SpareTime,
    gain: Gain,
    is_resting: bool,
    upcoming: Vec<PageId>,
    group: Vec<PageId>,
    /// Why a leaf could not be read in this pass.
    failed: Option<ReadError>,
    /// Objects evicted and written at the last look.
    evicted: u64,
    written: u64,
}

/// Writes pages back until the heap closes or the log stops.
pub(crate) fn run(pages: &Pages, gates: &Gates, head: Head) {
    let scratch = AlignedBuffer::new(SCRATCH_BYTES);
    let (upcoming, group) = (Vec::new(), Vec::new());
    let (compressor, spare_time) = (Compressor::new(), SpareTime::new());
    let mut writer = Writer {
        pages,
        head,
        scratch,
        compressor,
        spare_time,
        gain: Gain::new(),
        is_resting: pages.residence.compresses_if_it_pays(),
        upcoming,
        group,
        failed: None,
        evicted: 0,
        written: 0,
    };
    let mut outlook = Outlook::new();
    while !gates.is_closing() {
        let is_wanted = outlook.wait(pages, || gates.is_closing());
        // Locks are taken under this pass only: a fork meanwhile would leave them locked in its child.
        let _pass = gates.pass_as_writer();
        let lacks_ram = outlook.look(pages);
        let has_to_write = pages.backing.take_has_to_write() || lacks_ram;
        if (has_to_write || is_wanted) && writer.pass(has_to_write).is_err() {
            // The log has stopped or is closing. Faults see that by themselves.
            return;
        }
    }
}

impl Writer<'_> {
    /// Everything written so far, pages and leaves.
    fn written(&self) -> u64 {
        let leaves = &self.pages.backing.leaves().counters;
        self.pages.counters.objects_written.sum() + leaves.written.load(Ordering::Relaxed)
    }

    /// Compresses what there is to compress, and writes the dirty pages among those that each class evicts next or wants gone if that is
    /// wanted, too.
    fn pass(&mut self, has_to_write: bool) -> Result<(), AppendError> {
        let (residence, backing) = (&self.pages.residence, &self.pages.backing);
        if !has_to_write {
            self.compress();
            return Ok(());
        }
        let before = self.written();
        if let Some(urgent) = backing.take_wanted() {
            self.write_back(urgent)?;
        }
        self.free_slabs()?;
        self.compress();
        for class in Class::all() {
            let mut upcoming = std::mem::take(&mut self.upcoming);
            upcoming.clear();
            residence.for_each_wanted(Some(class), &mut |page| upcoming.push(page));
            if residence.slots(class) > 0 {
                residence.upcoming(class, residence.slots_ahead(class), &mut |page| upcoming.push(page));
            }
            if backing.has_classes() {
                // Those of a class together: the head changes segments as seldom as it can.
                upcoming.sort_by_key(|page| backing.class_of(page.leaf()));
            }
            let written = upcoming
                .iter()
                .filter(|&&page| residence.find(page).is_some_and(may_be_written))
                .try_for_each(|&page| self.write_back(page));
            self.upcoming = upcoming;
            written?;
        }
        if backing.leaves().wants_room() {
            self.head.make_room(Kind::Leaf, 2 * LEAF_RECORD_BYTES_MAX)?;
        }
        if let Err(error) = backing.leaves().clean_some(LEAVES_PER_PASS, &mut self.head, &mut self.scratch) {
            self.failed = Some(error);
        }
        let failed = self.failed.take();
        backing.note_pass(failed.filter(|_| self.written() == before));
        self.look_at_evictions();
        Ok(())
    }

    /// Compresses whole pages whose turn it is, until others have room or, if that matters, it does not pay or processors have no time left.
    fn compress(&mut self) {
        let (pages, residence) = (self.pages, &self.pages.residence);
        if !residence.compresses_now() {
            return;
        }
        if std::mem::take(&mut self.is_resting) {
            self.spare_time.begin();
            if let Some(evictions) = self.gain.begin(pages) {
                self.rest(evictions);
                return;
            }
        }
        let mut next = std::mem::take(&mut self.upcoming);
        for _ in 0..COMPRESSED_PER_PASS / COMPRESSED_AT_ONCE {
            next.clear();
            if residence.wants_compression().is_none()
                || residence.next_to_compress(COMPRESSED_AT_ONCE, &mut |page| next.push(page)) == 0
            {
                break;
            }
            next.iter().for_each(|&page| compress(pages, page, &mut self.compressor));
            if self.compressor.take_rest() {
                residence.rest_from_compression(EVICTIONS_PER_LOOK);
            }
        }
        // Slabs that classes of compressed pages wait for get empty sooner so, and less is evicted.
        for class in Class::all().filter(|&class| class != Class::WHOLE) {
            next.clear();
            residence.for_each_wanted(Some(class), &mut |page| next.push(page));
            if !next.is_empty() {
                room::unmap_wanted_in_fault(pages, class);
                next.iter().for_each(|&page| compress(pages, page, &mut self.compressor));
                residence.give_wanted(class);
            }
        }
        self.upcoming = next;
        if residence.compresses_if_it_pays()
            && let Some(evictions) =
                self.gain.rest(pages).max(self.spare_time.rest().map(|rests| rests * EVICTIONS_PER_LOOK))
        {
            self.rest(evictions);
        }
    }

    fn rest(&mut self, evictions: u64) {
        self.pages.residence.rest_from_compression(evictions);
        self.is_resting = true;
    }

    /// Frees slabs that the process needs the RAM of: their pages leave their addresses, are written, and leave RAM.
    fn free_slabs(&mut self) -> Result<(), AppendError> {
        let residence = &self.pages.residence;
        for _ in 0..SLABS_PER_PASS {
            if !residence.lacks_reserved() {
                break;
            }
            let mut wanted = std::mem::take(&mut self.upcoming);
            wanted.clear();
            unmap_wanted(self.pages, &mut wanted);
            let written = wanted
                .iter()
                .filter(|&&page| residence.find(page).is_some_and(may_be_written))
                .try_for_each(|&page| self.write_back(page));
            self.upcoming = wanted;
            written?;
            residence.free_slab();
        }
        Ok(())
    }

    /// When most of what leaves must be written first, it should stay long enough to be written with its neighbours.
    fn look_at_evictions(&mut self) {
        let residence = &self.pages.residence;
        let (evicted, written) = (residence.evicted(), self.pages.counters.objects_written.sum());
        if evicted - self.evicted >= EVICTIONS_PER_LOOK {
            let written_share = (written - self.written) as f64 / (evicted - self.evicted) as f64;
            residence.set_spares_used(written_share < WRITTEN_SHARE_MAX);
            (self.evicted, self.written) = (evicted, written);
        }
    }

    /// Writes `page` and its dirty neighbours, if it is still dirty.
    fn write_back(&mut self, page: PageId) -> Result<(), AppendError> {
        let pages = self.pages;
        let leaf = page.leaf();
        let page_bytes = pages.backing.leaves().page_bytes(leaf);
        self.head.set_class(pages.backing.class_of(leaf));
        // Room comes first: waiting for it later would hold entries and the leaf that the cleaner needs.
        let limit = write_back::make_room(&mut self.head, page_bytes)?;
        self.collect_group(page, limit);
        let held: Vec<_> = self.group.iter().filter_map(|&page| write_back::try_hold(pages, page)).collect();
        // Holding pages of the leaf keeps its size; before, it may have been freed and given out anew.
        if held.is_empty() || pages.backing.leaves().page_bytes(leaf) != page_bytes {
            return Ok(());
        }
        if self.append_group(&held, page_bytes) {
            held.into_iter().for_each(|held| write_back::release_written(pages, held, page_bytes));
        }
        Ok(())
    }

    /// The dirty cold pages of the leaf of `page`, in order, at most `limit`, `page` among them.
    fn collect_group(&mut self, page: PageId, limit: usize) {
        let group = &mut self.group;
        group.clear();
        group.push(page);
        write_back::collect(self.pages, page.leaf(), usize::MAX, group);
        group.sort_unstable();
        group.dedup();
        let at = group.partition_point(|&other| other < page);
        let first = at.min(group.len().saturating_sub(limit));
        group.drain(..first);
        group.truncate(limit);
    }

    /// Writes pages of one leaf, for which the head has room; false if the leaf cannot be read. Then they stay dirty
    /// in RAM, where they can be read; the error has been counted.
    fn append_group(&mut self, group: &[Held<'_>], page_bytes: usize) -> bool {
        let leaf = group[0].page().leaf();
        let mut held = match self.pages.backing.leaves().hold(leaf, &mut self.scratch) {
            Ok(held) => held,
            Err(error) => {
                self.failed = Some(error);
                return false;
            }
        };
        for page in group {
            held.set_place(page.page().index(), write_back::append(page, page_bytes, &mut self.head));
        }
        held.store(Some(&mut self.head)).expect(ROOM);
        true
    }
}

/// Compresses a page, if it is one that may be, shrinks, and gets a slot.
fn compress(pages: &Pages, page: PageId, compressor: &mut Compressor) {
    let leaf = page.leaf();
    if !compressor.is_worth_trying(leaf) {
        return;
    }
    let Some(held) = pages.residence.try_hold(page, may_be_compressed) else { return };
    if !pages.is_whole(page) {
        return;
    }
    let mut plain = [0; OS_PAGE_BYTES];
    // SAFETY: a whole page that is not compressed fills its slot.
    let bytes = unsafe { held.bytes(OS_PAGE_BYTES, &mut plain) };
    let Some(packed) = bytes.first_chunk().and_then(|bytes| compressor.compress(leaf, bytes)) else {
        pages.counters.incompressible.add(1);
        return;
    };
    if held.release_compressed(packed) {
        pages.counters.compressed.add(1);
        pages.counters.compressed_bytes.add(packed.len() as u64);
    } else if let Some(class) = Class::for_bytes(packed.len()) {
        room::unmap_wanted_in_fault(pages, class);
    }
}
