//! Leaves over a log in memory, with an arena for a few of them: every page must be found where it was put last,
//! whether its leaf is whole in RAM, patched, or in the log, and the log must count exactly what is live.
#![cfg(not(loom))]

use std::collections::HashMap;
use std::sync::Arc;

use aquifer_base::limits::LEAF_PAGES;
use aquifer_base::{LeafId, PageId};
use aquifer_device::{AlignedBuffer, MemoryDevice};
use aquifer_log::cleaner::{Found, Owner, clean};
use aquifer_log::record::{MARKER_BYTES, record_bytes};
use aquifer_log::victim::{Greedy, choose};
use aquifer_log::{AppendError, Geometry, Head, Kind, Log, RecordId};
use aquifer_map::leaves::{LEAF_RECORD_BYTES_MAX, SCRATCH_BYTES};
use aquifer_map::{LeafTable, Leaves, Place};

const LEAVES: u32 = 48;
const PAGE_BYTES: usize = 64;
const BLOCK_BYTES: usize = 64 << 10;
const DEVICE_BYTES: u64 = 12 << 20;

struct Table {
    leaves: Leaves,
    log: Arc<Log>,
    scratch: AlignedBuffer,
    /// The version that each page has.
    model: HashMap<PageId, u64>,
}

fn payload(page: PageId, version: u64) -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes[8..16].copy_from_slice(&page.0.to_le_bytes());
    bytes
}

impl Table {
    /// Writes a new version of `indices`, which are in order, or frees them.
    fn write(&mut self, leaf: LeafId, indices: &[usize], version: Option<u64>, head: &mut Head) {
        head.make_room(Kind::Page, indices.len() * record_bytes(PAGE_BYTES) + MARKER_BYTES).unwrap();
        head.make_room(Kind::Leaf, LEAF_RECORD_BYTES_MAX).unwrap();
        let mut held = self.leaves.hold(leaf, &mut self.scratch).unwrap();
        for &index in indices {
            let page = leaf.page(index);
            let id = RecordId { kind: Kind::Page, number: page.0 };
            let place = version.map_or(Place::ZERO, |v| Place::exact(head.append(id, &payload(page, v))));
            held.set_place(index, place);
            match version {
                Some(version) => drop(self.model.insert(page, version)),
                None => drop(self.model.remove(&page)),
            }
        }
        held.store(Some(head)).unwrap();
    }

    fn check(&mut self, page: PageId) {
        let place = self.leaves.locate_in_fault(page, &mut self.scratch).unwrap();
        let version = place.address().map(|address| {
            let id = RecordId { kind: Kind::Page, number: page.0 };
            let span = place.span_bytes(PAGE_BYTES);
            let range = self.log.read_in_fault(address, span, id, &mut self.scratch).unwrap();
            let bytes: [u8; PAGE_BYTES] = self.scratch[range].try_into().unwrap();
            let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert_eq!(bytes, payload(page, version));
            version
        });
        assert_eq!(version, self.model.get(&page).copied(), "{page:?} at {place:?}");
    }

    fn relocate_pages(&mut self, leaf: LeafId, group: &[Found<'_>], head: &mut Head) {
        let mut held = self.leaves.hold(leaf, &mut self.scratch).unwrap();
        for found in group {
            let index = PageId(found.id.number).index();
            if held.place(index).covers(found.address, PAGE_BYTES) {
                held.set_place(index, Place::exact(head.append(found.id, found.payload)));
            }
        }
        held.store(Some(head)).unwrap();
    }

    fn check_all(&mut self) {
        let mut accounted = 0;
        for leaf in (0..LEAVES).map(LeafId) {
            (0..LEAF_PAGES).for_each(|index| self.check(leaf.page(index)));
            let held = self.leaves.hold(leaf, &mut self.scratch).unwrap();
            let pages = (0..LEAF_PAGES).filter(|&n| held.place(n) != Place::ZERO).count();
            accounted += (pages * held.record_bytes() + held.logged_bytes()) as u64;
        }
        assert_eq!(self.log.segments().live_bytes_total(), accounted);
    }
}

impl Owner for Table {
    fn relocate(&mut self, records: &[Found<'_>], head: &mut Head) -> Result<(), AppendError> {
        let leaf_of = |found: &Found<'_>| match found.id.kind {
            Kind::Leaf => (found.id.kind, found.id.number as u32),
            Kind::Page | Kind::Whole => (found.id.kind, PageId(found.id.number).leaf().0),
        };
        for group in records.chunk_by(|a, b| leaf_of(a) == leaf_of(b)) {
            let (kind, leaf) = (group[0].id.kind, LeafId(leaf_of(&group[0]).1));
            for part in group.chunks(100) {
                head.make_room(Kind::Page, part.len() * record_bytes(PAGE_BYTES) + MARKER_BYTES)?;
                head.make_room(Kind::Leaf, LEAF_RECORD_BYTES_MAX)?;
                match kind {
                    Kind::Leaf => part
                        .iter()
                        .for_each(|found| self.leaves.relocate(leaf, found.address, found.payload, head)),
                    Kind::Page | Kind::Whole => self.relocate_pages(leaf, part, head),
                }
            }
        }
        Ok(())
    }
}

/// Rewrites random groups until the log was cleaned many times.
fn churn(arena_bytes: usize, seed: u64) {
    let device = Arc::new(MemoryDevice::new(DEVICE_BYTES, 512));
    let geometry = Geometry::choose(DEVICE_BYTES, BLOCK_BYTES).unwrap();
    let (log, mut fresh, mut survivor) = Log::new(device, geometry);
    let leaves = Leaves::new(log.clone(), Arc::new(LeafTable::new(LEAVES).unwrap()), arena_bytes).unwrap();
    (0..LEAVES).for_each(|leaf| leaves.set_page_bytes(LeafId(leaf), PAGE_BYTES));
    let scratch = AlignedBuffer::new(SCRATCH_BYTES);
    let mut table = Table { leaves, log: log.clone(), scratch, model: HashMap::new() };
    let mut state = seed;
    let mut below = move |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let (mut buffer, mut clean_scratch) =
        (AlignedBuffer::new(BLOCK_BYTES), AlignedBuffer::new(SCRATCH_BYTES));
    for leaf in (0..LEAVES).map(LeafId) {
        let all: Vec<usize> = (0..LEAF_PAGES).collect();
        all.chunks(256).for_each(|part| table.write(leaf, part, Some(0), &mut fresh));
    }
    let mut cleaned = 0;
    for version in 1..12_000u64 {
        let leaf = LeafId(below(LEAVES as usize) as u32);
        let mut indices: Vec<usize> = (0..1 + below(30)).map(|_| below(LEAF_PAGES)).collect();
        indices.sort_unstable();
        indices.dedup();
        table.write(leaf, &indices, (below(8) > 0).then_some(version), &mut fresh);
        (0..4).for_each(|_| table.check(PageId(below(LEAVES as usize * LEAF_PAGES) as u64)));
        if below(50) == 0 {
            table.leaves.clean_some(8, &mut fresh, &mut clean_scratch).unwrap();
        }
        for _ in 0..4 {
            if log.free_segments() > 20 {
                break;
            }
            let victim =
                choose(&Greedy, log.segments(), |kind| geometry.segment_room(kind), log.now()).unwrap();
            clean(&log, victim, &mut table, &mut survivor, &mut buffer).unwrap();
            cleaned += 1;
        }
        if version % 2000 == 0 {
            table.check_all();
        }
    }
    table.check_all();
    assert!(cleaned > 0, "the cleaner had nothing to do");
}

#[test]
fn leaves_that_all_fit() {
    churn(256 << 10, 1);
}

#[test]
fn leaves_of_which_most_are_patched() {
    churn(16 << 10, 2);
}

#[test]
fn hardly_any_room() {
    churn(4 << 10, 3);
}
