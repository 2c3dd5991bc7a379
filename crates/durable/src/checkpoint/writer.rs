//! A checkpoint that is being written.

use std::sync::atomic::Ordering;

use aquifer_base::PartitionId;
use aquifer_base::limits::PARTITION_BYTES;
use aquifer_log::geometry::SegmentId;
use aquifer_log::segment::State;
use aquifer_map::partitions::Source;
use aquifer_sys::Backoff;

use super::header::{HEADER_BYTES, Header};
use super::record;
use crate::chunk;
use crate::core::Core;
use crate::error::Result;
use crate::homes::AREA_BYTES;
use crate::log::Purpose;

/// Partitions of an area.
const AREA_PARTITIONS: u32 = (AREA_BYTES / PARTITION_BYTES as u64) as u32;

/// A chunk that was sealed, its life then, and how far it is filled.
struct Sealed(SegmentId, u32, u32);

/// The chunks that it has so far, and what goes into the last of them.
pub(super) struct Writer<'a> {
    core: &'a Core,
    number: u64,
    opened: u64,
    sealed: Vec<Sealed>,
    /// The clock when they were looked at.
    clock: u64,
    chunks: Vec<SegmentId>,
    bytes: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Begins one; `None` if there is no room.
    pub(super) fn begin(core: &'a Core, number: u64) -> Result<Option<Self>> {
        let Some(first) = core.log.take(Purpose::Checkpoint)? else { return Ok(None) };
        let log = &core.log;
        // Nothing is freed, and no hole dropped, between the version and the list.
        let at_rest = core.cleaner();
        let opened = core.clock.load(Ordering::Acquire);
        log.set_apart(first, opened);
        let sealed = log.table.in_state(State::Sealed);
        let sealed = sealed.map(|id| Sealed(id, log.table.generation(id), log.filled_to(id)));
        let sealed = sealed.filter(|&Sealed(.., end)| end > 0).collect();
        let clock = core.clock.load(Ordering::Acquire);
        drop(at_rest);
        let bytes = vec![0; HEADER_BYTES];
        Ok(Some(Self { core, number, opened, sealed, clock, chunks: vec![first], bytes }))
    }

    /// Writes all of it but its last part; false if there is no room.
    pub(super) fn write(&mut self) -> Result<bool> {
        let (clock, sealed) = (self.clock, std::mem::take(&mut self.sealed));
        let mut has_room = self.add(|bytes| record::push_clock(bytes, clock))?;
        for Sealed(id, generation, end) in sealed {
            has_room = has_room && self.add(|bytes| record::push_chunk(bytes, id.0, generation, end))?;
        }
        let mut extents = Vec::new();
        for area in self.core.homes.areas_with_history() {
            for number in (area * AREA_PARTITIONS..).take(AREA_PARTITIONS as usize) {
                let version = self.copy(PartitionId(number), &mut extents);
                has_room = has_room
                    && (version == 0
                        || self.add(|bytes| record::push_partition(bytes, number, version, &extents))?);
            }
        }
        Ok(has_room)
    }

    /// Copies a partition's extents when nobody has locked it; returns its version, which is 0 if nothing was ever written to it.
    fn copy(&self, id: PartitionId, extents: &mut Vec<(u16, Source)>) -> u64 {
        let map = &self.core.map;
        let mut backoff = Backoff::new();
        loop {
            let word = map.word(id);
            if !word.is_locked() {
                extents.clear();
                map.for_each_extent(id, |start, source| extents.push((start, source)));
                if map.is_unchanged(id, word) {
                    return word.version();
                }
            }
            backoff.wait();
        }
    }

    /// Adds a record, in another chunk if this one is full; false if there is none.
    fn add(&mut self, push: impl Fn(&mut Vec<u8>)) -> Result<bool> {
        let before = self.bytes.len();
        push(&mut self.bytes);
        if self.bytes.len() <= self.core.log.superblock.chunk_bytes as usize {
            return Ok(true);
        }
        self.bytes.truncate(before);
        self.persist(false)?;
        let Some(next) = self.core.log.take(Purpose::Checkpoint)? else { return Ok(false) };
        self.core.log.set_apart(next, self.opened);
        self.chunks.push(next);
        self.bytes.resize(HEADER_BYTES, 0);
        push(&mut self.bytes);
        Ok(true)
    }

    /// Writes the part that goes into the last chunk.
    fn persist(&mut self, is_last: bool) -> Result<()> {
        let Self { core, number, opened, ref chunks, ref mut bytes, .. } = *self;
        let (index, id) = (chunks.len() as u32 - 1, chunks[chunks.len() - 1]);
        let (generation, end) = (core.log.begin_apart(id), bytes.len() as u32);
        let header = Header { generation, index, is_last, end, opened, number };
        header.encode(bytes, core.log.superblock.id, id.0);
        chunk::persist_first_last(&*core.log.persist, core.log.offset_of(id), bytes)?;
        bytes.clear();
        Ok(())
    }

    /// It has all that was committed up to this version.
    pub(super) fn opened(&self) -> u64 {
        self.opened
    }

    /// Makes it count.
    pub(super) fn finish(&mut self) -> Result<bool> {
        // What it says must not be lost, although it may be newer than what is durable.
        self.core.sync()?;
        self.persist(true)?;
        Ok(true)
    }

    /// What it is in.
    pub(super) fn chunks(self) -> Vec<SegmentId> {
        self.chunks
    }

    /// Gives its chunks back. It does not count, however much of it there is.
    pub(super) fn give_up(self) -> Result<()> {
        self.chunks.into_iter().try_for_each(|id| self.core.log.release_apart(id))
    }
}
