//! The newest checkpoint that counts, in recovery.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use aquifer_base::PartitionId;
use aquifer_base::limits::{LOG_GRAIN_BYTES, PARTITION_BYTES};
use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::{GRAINS, Partitions, Told};

use super::rows::Rows;
use crate::checkpoint::{HEADER_BYTES, Header, Record, Records};
use crate::chunk::Previous;
use crate::core::Core;

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;

/// A checkpoint with all of its parts.
pub(super) struct Checkpoint {
    /// How many there have been.
    number: u64,
    /// All transactions up to this one are in it.
    opened: u64,
    /// Chunks that need not be read: their lives, and how far they are filled.
    sealed: HashMap<u32, (u32, u32)>,
    /// The newest version in it.
    pub(super) newest: u64,
    chunks: Vec<SegmentId>,
    /// The records of each.
    parts: Vec<Vec<u8>>,
    /// Where the file's chunks are.
    grains: Range<u64>,
    /// Partitions that the heap may have.
    partitions: u64,
}

/// Chunks that begin as parts of one checkpoint, and what these say of themselves.
type Candidates = BTreeMap<u64, Vec<(SegmentId, Header)>>;

/// Finds it, and takes over all chunks with parts of any. Those of others are given up when the heap is cleaned.
pub(super) fn find(heap: &Core, chunks: u32, floor: u64) -> Option<Checkpoint> {
    let mut candidates = Candidates::new();
    for id in (0..chunks).map(SegmentId) {
        let mut header = [0; HEADER_BYTES];
        heap.log.persist.read(heap.log.offset_of(id), &mut header);
        // What does not verify is told when all chunks are looked at, and what is too old is taken away then.
        if let Ok(header) = Header::decode(&header, heap.log.superblock.id, id.0)
            && header.opened >= heap.log.durable_oldest()
        {
            candidates.entry(header.number).or_default().push((id, header));
        }
    }
    let mut found: Option<Checkpoint> = None;
    for (&number, ids) in candidates.iter().rev() {
        if found.is_none() {
            let mut parts: Vec<_> = ids.iter().map(|&(id, _)| Part::read(heap, id)).collect();
            let limits = (grains(heap, chunks), heap.log.home_bytes / PARTITION_BYTES as u64);
            found = Checkpoint::of(number, &mut parts, floor, limits);
        }
        if found.as_ref().is_none_or(|found| found.number != number) {
            ids.iter().for_each(|&(id, header)| {
                heap.log.restore_unneeded(id, header.generation, header.opened);
            });
        }
    }
    if let Some(found) = &found {
        candidates[&found.number].iter().for_each(|&(id, header)| {
            heap.log.restore_apart(id, header.generation, found.opened);
        });
    }
    let number = candidates.keys().next_back().copied().unwrap_or(0);
    let (ids, clock) = found.as_ref().map_or((Vec::new(), 0), |found| (found.chunks.clone(), found.opened));
    heap.checkpoints.restore(number, ids, clock);
    found
}

/// Grains of the file that are in chunks.
fn grains(heap: &Core, chunks: u32) -> Range<u64> {
    heap.log.offset_of(SegmentId(0)) / GRAIN..heap.log.offset_of(SegmentId(chunks)) / GRAIN
}

/// A part that verifies.
struct Part {
    id: SegmentId,
    header: Header,
    records: Vec<u8>,
}

impl Part {
    fn read(heap: &Core, id: SegmentId) -> Option<Self> {
        let mut bytes = vec![0; heap.log.superblock.chunk_bytes as usize];
        heap.log.persist.read(heap.log.offset_of(id), &mut bytes);
        let (header, records) = Header::decode_part(&bytes, heap.log.superblock.id, id.0).ok()?;
        Some(Self { id, header, records: records.to_vec() })
    }
}

impl Checkpoint {
    /// The one with these parts, if they are all there and it has nothing that is behind the floor.
    fn of(
        number: u64,
        parts: &mut [Option<Part>],
        floor: u64,
        (grains, partitions): (Range<u64>, u64),
    ) -> Option<Self> {
        parts.sort_by_key(|part| part.as_ref().map(|part| part.header.index));
        let opened = parts.first()?.as_ref()?.header.opened;
        for (n, part) in parts.iter().enumerate() {
            let Header { index, is_last, opened: same, .. } = part.as_ref()?.header;
            if index as usize != n || is_last != (n + 1 == parts.len()) || same != opened {
                return None;
            }
        }
        let chunks = parts.iter().flatten().map(|part| part.id).collect();
        let parts = parts.iter_mut().flatten().map(|part| std::mem::take(&mut part.records)).collect();
        let mut found = Self {
            number,
            opened,
            sealed: HashMap::new(),
            newest: opened,
            chunks,
            parts,
            grains,
            partitions,
        };
        found.look_through()?;
        (found.newest <= floor).then_some(found)
    }

    /// Collects its chunks and its newest version; `None` if something in it makes no sense.
    fn look_through(&mut self) -> Option<()> {
        for part in &self.parts {
            for record in Records::new(part, self.grains.clone()) {
                match record.ok()? {
                    Record::Partition { number, .. } if u64::from(number) >= self.partitions => return None,
                    Record::Clock(version) | Record::Partition { version, .. } => {
                        self.newest = self.newest.max(version);
                    }
                    Record::Chunk { number, generation, end } => {
                        self.sealed.insert(number, (generation, end));
                    }
                }
            }
        }
        Some(())
    }

    /// Chunks that it has seen in use.
    pub(super) fn named(&self) -> impl Iterator<Item = Previous> + '_ {
        self.sealed.iter().map(|(&number, &(generation, end))| Previous { number, generation, end })
    }

    /// How far a chunk was filled, if it need not be read in this life.
    pub(super) fn end_of(&self, id: SegmentId, generation: u32) -> Option<u32> {
        self.sealed.get(&id.0).filter(|&&(then, _)| then == generation).map(|&(_, end)| end)
    }

    /// Tells those partitions that go to one thread what version of them it has: entries up to that are in it.
    pub(super) fn tell_versions(&self, map: &Partitions, rows: &Rows<'_>) {
        for record in self.parts.iter().flat_map(|part| Records::new(part, self.grains.clone())) {
            let Ok(Record::Partition { number, version, .. }) = record else { continue };
            let id = PartitionId(number);
            if rows.has(id) && map.word(id).version() < version {
                map.try_lock(id).expect("nobody else has the partition");
                map.unlock(id, version);
            }
        }
    }

    /// Enters those partitions that go to one thread, after all that is newer.
    pub(super) fn enter(&self, rows: &mut Rows<'_>) {
        let mut told = Vec::new();
        for record in self.parts.iter().flat_map(|part| Records::new(part, self.grains.clone())) {
            let Ok(Record::Partition { number, extents, .. }) = record else { continue };
            let id = PartitionId(number);
            if !rows.has(id) {
                continue;
            }
            told.clear();
            let ends = extents.iter().skip(1).map(|(start, _)| start.into()).chain([GRAINS]);
            told.extend(
                extents
                    .iter()
                    .zip(ends)
                    .map(|((start, source), end)| Told::new(id, (start.into(), end), source)),
            );
            rows.restore(id, &told, self.newest);
        }
    }
}
