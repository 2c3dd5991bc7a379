//! Damage that looks like a write that has not happened.
//!
//! A commit is durable when its block is. What says so is behind it: a later block of the chunk, or the header of the chunk with which the session
//! went on, which names the end of the one before; or a checkpoint, which names the ends of all chunks that it spares recovery. Of the last
//! blocks of a chunk of which no such thing is left, nothing says that they ever were: a file in which they are damaged is, byte for byte or but
//! for bytes that count for nothing, one that a crash leaves while the first of them is being written. The bytes of objects that those
//! blocks have may then be older ones, or not allocated; of a transaction in parts that includes the other parts, which count for nothing
//! without the last one. And the write under way may have been finished by damage, if that has just the words that had not landed: then
//! it has happened. A value of the superblock's page of which a write was under way stands whole in one place alone, so that damage to that
//! one is told from nothing. Nothing else is excused: not the blocks before, of which those behind speak; not the blocks of a chunk of which the
//! header alone is damaged; and not what else is in the objects.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::Path;

use aquifer_durable::block::{Block, Kind, Role};
use aquifer_durable::checkpoint::Record;
use aquifer_durable::chunk::HEADER_BYTES;
use aquifer_durable::inspect::{Chunk, Found, HeapFile};

use crate::durable::{CHUNK_BYTES, SUPERBLOCK_BYTES};

const GRAIN: u64 = 4;

/// A block of the file.
struct Written {
    /// Where it is in its chunk.
    place: Range<u64>,
    version: u64,
    is_whole: bool,
    /// Transactions in parts that do not count without it.
    commits: Vec<u64>,
    /// Bytes of home space that it changes.
    homes: Vec<Range<u64>>,
}

impl Written {
    fn new(at: usize, block: &Block<'_>) -> Self {
        let entries = || block.entries();
        let commits = entries().filter(|entry| entry.kind == Kind::Commit).map(|entry| entry.home.0);
        let last = (block.role() == Role::Last).then_some(block.version());
        let changes = entries().filter(|entry| entry.kind != Kind::Commit);
        Self {
            place: at as u64..(at + block.len_bytes()) as u64,
            version: block.version(),
            is_whole: block.role() == Role::Whole,
            commits: commits.chain(last).collect(),
            homes: changes
                .map(|entry| entry.home.0..entry.home.0 + u64::from(entry.grains) * GRAIN)
                .collect(),
        }
    }
}

/// Where the values of the superblock's page stand, each twice, and bytes of each.
const VALUES: [[usize; 2]; 3] = [[1024, 2048], [1536, 2560], [3072, 3584]];
const VALUE_BYTES: usize = 24;

/// Whether damage to `ranges` hits a value of which a write was under way in the file.
pub fn hits_value_under_way(file: &[u8], ranges: &[Range<u64>]) -> bool {
    VALUES.iter().any(|&places| {
        let [one, other] = places.map(|place| file.get(place..place + VALUE_BYTES));
        let is_hit = |&place: &usize| {
            let place = place as u64..(place + VALUE_BYTES) as u64;
            ranges.iter().any(|range| range.start < place.end && place.start < range.end)
        };
        one != other && places.iter().any(is_hit)
    })
}

/// Bytes of home space that may be older ones, or not allocated.
#[derive(Default)]
pub struct Excuse(Vec<Range<u64>>);

impl Excuse {
    /// That of damage to `ranges` of the file that a cut has left at `cut`. What counts of it is in `recovered`, as it is when the undamaged heap was
    /// opened; a checkpoint there may be newer than the cut. `damaged` is the file with the damage.
    pub fn of(cut: &Path, recovered: &Path, damaged: &Path, ranges: &[Range<u64>]) -> Self {
        let chunks = chunks_of(recovered);
        let promised = promised(&chunks, &chunks_of(cut), ranges);
        let blocks: BTreeMap<u32, Vec<Written>> = chunks.iter().map(|c| (c.number(), blocks(c))).collect();
        let (mut excuse, mut uncommitted) = (Self::default(), HashSet::new());
        for (&number, blocks) in &blocks {
            let start = SUPERBLOCK_BYTES + u64::from(number) * CHUNK_BYTES;
            let is_hit = |block: &&Written| {
                let place = start + block.place.start..start + block.place.end;
                ranges.iter().any(|range| range.start < place.end && place.start < range.end)
            };
            let end = promised.get(&number).copied().unwrap_or(0);
            for block in blocks.iter().rev().take_while(is_hit).filter(|block| block.place.end > end) {
                excuse.0.extend(block.homes.iter().cloned());
                uncommitted.extend(block.commits.iter().copied());
            }
        }
        for chunk in chunks_of(damaged) {
            let end = blocks[&chunk.number()].last().map_or(HEADER_BYTES as u64, |block| block.place.end);
            let finished = self::blocks(&chunk).into_iter().filter(|block| block.place.start == end);
            excuse.0.extend(finished.flat_map(|block| block.homes));
        }
        for block in blocks.values().flatten() {
            if !block.is_whole && uncommitted.contains(&block.version) {
                excuse.0.extend(block.homes.iter().cloned());
            }
        }
        excuse
    }

    /// Whether it is of this byte of home space.
    pub fn is_of(&self, home: u64) -> bool {
        self.0.iter().any(|range| range.contains(&home))
    }

    /// Whether it is of all these bytes.
    pub fn is_of_all(&self, homes: &Range<u64>) -> bool {
        homes.clone().all(|home| self.is_of(home))
    }
}

fn chunks_of(path: &Path) -> Vec<Chunk> {
    let file = HeapFile::open(path).expect("a heap");
    (0..file.chunks()).map(|n| file.chunk(n).expect("read")).collect()
}

fn blocks(chunk: &Chunk) -> Vec<Written> {
    let found = chunk.blocks().filter_map(|(at, found)| match found {
        Found::Block(block) => Some(Written::new(at, &block)),
        Found::Damage(_) => None,
    });
    found.collect()
}

/// How far the blocks of chunks are said to be durable by what is not damaged.
fn promised(chunks: &[Chunk], at_cut: &[Chunk], ranges: &[Range<u64>]) -> BTreeMap<u32, u64> {
    let is_hit = |chunk: &Chunk, len: u64| {
        ranges.iter().any(|range| range.start < chunk.offset() + len && chunk.offset() < range.end)
    };
    let generation = |number: u32| chunks[number as usize].header().ok().flatten().map(|h| h.generation);
    // Not of the heap that was opened: the first chunks that it goes on with name ends that nobody had named.
    let headers = at_cut.iter().filter(|chunk| !is_hit(chunk, HEADER_BYTES as u64));
    let previous = headers.filter_map(|chunk| chunk.header().ok().flatten()?.previous);
    let mut ends: Vec<(u32, u32, u32)> = previous.map(|p| (p.number, p.generation, p.end)).collect();
    ends.extend(newest_checkpoint(at_cut, |chunk| is_hit(chunk, CHUNK_BYTES)));
    let mut promised = BTreeMap::new();
    for (number, then, end) in ends {
        if (number as usize) < chunks.len() && generation(number) == Some(then) {
            let most = promised.entry(number).or_insert(0);
            *most = u64::from(end).max(*most);
        }
    }
    promised
}

/// The chunks that the newest checkpoint with all parts names, unless it is damaged: each with its generation and its end.
fn newest_checkpoint(chunks: &[Chunk], is_hit: impl Fn(&Chunk) -> bool) -> Vec<(u32, u32, u32)> {
    let mut parts: BTreeMap<u64, Vec<&Chunk>> = BTreeMap::new();
    for chunk in chunks {
        if let Some(Ok(header)) = chunk.part() {
            parts.entry(header.number).or_default().push(chunk);
        }
    }
    let header = |chunk: &Chunk| chunk.part().expect("a part").expect("it verifies");
    let is_whole = |parts: &&Vec<&Chunk>| {
        let last = parts.iter().map(|part| header(part)).find(|header| header.is_last);
        last.is_some_and(|last| last.index as usize + 1 == parts.len())
    };
    let Some(newest) = parts.values().rev().find(is_whole) else { return Vec::new() };
    if newest.iter().any(|part| is_hit(part)) {
        return Vec::new();
    }
    let records = newest.iter().flat_map(|part| part.records()).map_while(Result::ok);
    let named = records.filter_map(|record| match record {
        Record::Chunk { number, generation, end } => Some((number, generation, end)),
        _ => None,
    });
    named.collect()
}
