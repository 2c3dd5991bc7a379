//! The map, made again from the log.
//!
//! 1. Every chunk with a header is read from front to back, until a block does not verify.
//! 2. Their entries go into the map in the order of their versions: the newest version of each byte wins.
//! 3. The table of areas, which is in the heap itself, tells where objects can be, the map where they are.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_base::{HomeAddress, PartitionId};
use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::{GRAINS, Scratch, Source};

use crate::block::{ALIGN_BYTES, Block, Kind, Role};
use crate::chunk::{self, ChunkHeader, Previous};
use crate::error::{Error, Result};
use crate::heap::DurableHeap;
use crate::homes::{self, AREA_BYTES, AREAS, CLASS_BYTES};
use crate::superblock::SUPERBLOCK_BYTES;

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;

/// An entry of a block that was found.
struct Found {
    version: u64,
    home: HomeAddress,
    grains: u32,
    source: Source,
}

/// What all chunks have.
#[derive(Default)]
struct Scan {
    entries: Vec<Found>,
    /// Entries that count only if their transaction has committed.
    parts: Vec<Found>,
    committed: HashSet<u64>,
    /// For each chunk its generation and how far it verifies.
    ends: HashMap<u32, (u32, u32)>,
    /// How far other chunks say that they were durable.
    promised: Vec<Previous>,
}

impl Scan {
    /// Whether chunks have all that was durable in them.
    fn check(&self, heap: &DurableHeap) -> Result<()> {
        for promised in &self.promised {
            let Some(&(generation, end)) = self.ends.get(&promised.number) else { continue };
            if generation == promised.generation && end < promised.end {
                let offset = heap.log.offset_of(SegmentId(promised.number)) + u64::from(end);
                let why = format!("{} bytes behind it were durable, and do not verify", promised.end - end);
                return Err(Error::Damaged { offset, why });
            }
        }
        Ok(())
    }
}

/// Fills the map of a heap that was just opened.
///
/// # Errors
/// [`Error::Damaged`](crate::Error::Damaged), [`Error::Io`](crate::Error::Io).
pub(crate) fn recover(heap: &DurableHeap) -> Result<()> {
    let chunk_bytes = u64::from(heap.log.superblock.chunk_bytes);
    let chunks = (heap.log.persist.len_bytes().saturating_sub(SUPERBLOCK_BYTES as u64) / chunk_bytes) as u32;
    let mut found = Scan::default();
    let mut bytes = vec![0; chunk_bytes as usize];
    let mut newest = 0;
    for number in 0..chunks {
        heap.log.persist.read(heap.log.offset_of(SegmentId(number)), &mut bytes);
        newest = newest.max(scan(heap, SegmentId(number), &bytes, &mut found)?);
    }
    found.check(heap)?;
    let Scan { mut entries, parts, committed, .. } = found;
    entries.extend(parts.into_iter().filter(|entry| committed.contains(&entry.version)));
    entries.sort_by_key(|entry| entry.version);
    let mut scratch = Scratch::default();
    for entry in &entries {
        enter(heap, entry, &mut scratch);
    }
    heap.clock.store(newest, Ordering::Release);
    heap.log.adopt(chunks);
    restore_homes(heap);
    Ok(())
}

/// Collects the entries of a chunk; returns its newest version.
fn scan(heap: &DurableHeap, id: SegmentId, bytes: &[u8], found: &mut Scan) -> Result<u64> {
    let heap_id = heap.log.superblock.id;
    let (header, _) = bytes.split_first_chunk().expect("a chunk is larger than its header");
    let damaged = |at: usize, why: &str| Error::Damaged { offset: heap.log.offset_of(id) + at as u64, why: why.into() };
    let header = ChunkHeader::decode(header, heap_id, id.0);
    let header = header.map_err(|_| damaged(0, "the header of a chunk does not verify"))?;
    let Some(header) = header else { return Ok(0) };
    let seed = chunk::seed(heap_id, id.0, header.generation);
    let (mut at, mut newest) = (chunk::HEADER_BYTES, header.opened);
    let start = heap.log.offset_of(id);
    while let Some(block) = Block::decode(&bytes[at..], seed) {
        newest = newest.max(block.version());
        if block.role() == Role::Last {
            found.committed.insert(block.version());
        }
        for entry in block.entries() {
            let payload = (start + (at + entry.payload) as u64) / GRAIN;
            let source = match entry.kind {
                Kind::Bytes => Source::Log(payload as u32),
                Kind::Zeros => Source::Zeros,
                Kind::Hole => Source::Hole,
                Kind::Commit => {
                    found.committed.insert(entry.home.0);
                    continue;
                }
            };
            let entries = if block.role() == Role::Whole { &mut found.entries } else { &mut found.parts };
            entries.push(Found { version: block.version(), home: entry.home, grains: entry.grains, source });
        }
        at += block.len_bytes();
    }
    if has_block(&bytes[at..], seed) {
        return Err(damaged(at, "a block does not verify, and there is one behind it"));
    }
    found.ends.insert(id.0, (header.generation, at as u32));
    found.promised.extend(header.previous);
    heap.log.restore(id, header, at > chunk::HEADER_BYTES);
    Ok(newest)
}

/// Whether there is a block anywhere in these bytes. Blocks are written one after the other, so that there is none behind a torn one.
fn has_block(bytes: &[u8], seed: u32) -> bool {
    (0..bytes.len()).step_by(ALIGN_BYTES).any(|at| Block::decode(&bytes[at..], seed).is_some())
}

fn enter(heap: &DurableHeap, entry: &Found, scratch: &mut Scratch) {
    let start = entry.home.0 / GRAIN;
    let partitions = start / GRAINS as u64..=(start + u64::from(entry.grains) - 1) / GRAINS as u64;
    for number in partitions.clone() {
        heap.map.try_lock(PartitionId(number as u32)).expect("nobody else has the heap yet");
    }
    if let Source::Log(grain) = entry.source {
        heap.log.table.add_live(heap.log.chunk_of(grain), entry.grains * GRAIN as u32);
    }
    heap.enter(start, entry.grains, entry.source, scratch);
    for number in partitions {
        heap.map.unlock(PartitionId(number as u32), entry.version);
    }
}

/// Makes the allocator's tables again.
fn restore_homes(heap: &DurableHeap) {
    for area in 1..AREAS as u32 {
        let mut code = [0; CLASS_BYTES];
        read(heap, homes::class_home(area), &mut code);
        let code = u16::from_le_bytes(code);
        if code == 0 {
            continue;
        }
        let first = u64::from(area) * AREA_BYTES;
        let taken = |home: HomeAddress, bytes: u64| next_taken(heap, home.0, home.0 + bytes).is_some();
        let last = last_taken(heap, first, first + AREA_BYTES);
        heap.homes.restore_area(area, code, last.map(HomeAddress), &taken);
    }
}

/// The first byte from `start` to `end` that is allocated.
fn next_taken(heap: &DurableHeap, start: u64, end: u64) -> Option<u64> {
    let mut at = start;
    while at < end {
        let (id, grain) = place(at);
        let run = heap.map.find(id, grain);
        if run.source != Source::Hole {
            return Some(at);
        }
        at = id.start().0 + run.end as u64 * GRAIN;
    }
    None
}

fn last_taken(heap: &DurableHeap, start: u64, end: u64) -> Option<u64> {
    let mut last = None;
    let mut at = start;
    while let Some(taken) = next_taken(heap, at, end) {
        let (id, grain) = place(taken);
        at = id.start().0 + heap.map.find(id, grain).end as u64 * GRAIN;
        last = Some(at - GRAIN);
    }
    last
}

fn place(byte: u64) -> (PartitionId, usize) {
    let home = HomeAddress(byte);
    (home.partition(), home.offset_bytes() / GRAIN as usize)
}

/// Committed bytes within one grain run; nobody else has the heap yet.
fn read(heap: &DurableHeap, home: HomeAddress, out: &mut [u8]) {
    let (id, grain) = place(home.0);
    match heap.map.find(id, grain).source {
        Source::Log(found) => heap.log.persist.read(u64::from(found) * GRAIN + home.0 % GRAIN, out),
        Source::Hole | Source::Zeros => out.fill(0),
    }
}
