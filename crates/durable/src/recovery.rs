//! The map, made again from the log, or from a checkpoint and what is newer ([`checkpoint`](crate::checkpoint)). A crash meanwhile is harmless: nothing is written, but what takes away transactions that do not count
//! (see [`record`](crate::record)), and what is there already, to make it durable before it is shown.
//!
//! 1. Every chunk with a header is read from front to back, until a block does not verify ([`scan`]). The chunks are shared out among
//!    threads.
//! 2. Their entries go into the map in the order of their versions: the newest version of each byte wins. The partitions are
//!    shared out among threads (the paper's buckets).
//! 3. The table of areas, which is in the heap itself, tells where objects can be, the map where they are.

mod buckets;
mod checkpoint;
mod found;
mod scan;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_base::{HomeAddress, PartitionId};
use aquifer_log::geometry::SegmentId;
use aquifer_log::segment::State;
use aquifer_map::partitions::{Hint, Source};

use crate::block::ALIGN_BYTES;
use crate::chunk::{ChunkHeader, HEADER_BYTES};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::homes::{self, AREA_BYTES, AREAS, CLASS_BYTES};
use crate::superblock::SUPERBLOCK_BYTES;
use checkpoint::Checkpoint;
use found::Found;
use scan::Scan;

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// Threads at most.
const THREADS_MAX: usize = 16;

/// Fills the map of a heap that was just opened.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Io`] if transactions behind the floor cannot be taken away.
pub(crate) fn recover(heap: &Core, floor: u64) -> Result<()> {
    let chunk_bytes = u64::from(heap.log.superblock.chunk_bytes);
    let chunks = (heap.log.persist.len_bytes().saturating_sub(SUPERBLOCK_BYTES as u64) / chunk_bytes) as u32;
    if u64::from(chunks) < heap.log.chunks_recorded() {
        let (offset, recorded) = (heap.log.persist.len_bytes(), heap.log.chunks_recorded());
        let why = format!("the file ends there, with {chunks} chunks of at least {recorded}");
        return Err(Error::Damaged { offset, why });
    }
    let threads =
        thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(1 + chunks as usize / 4);
    let checkpoint = checkpoint::find(heap, chunks, floor);
    let checkpoint = checkpoint.as_ref();
    let mut scans = scan_all(heap, (chunks, floor), checkpoint, threads)?;
    check(heap, &scans)?;
    discard(heap, &mut scans)?;
    settle(heap, chunks, &scans)?;
    keep_committed(&mut scans);
    enter_all(heap, scans, checkpoint, threads);
    check_free(heap)?;
    heap.log.adopt(chunks);
    restore_homes(heap)
}

/// Reads all chunks, each thread another one.
fn scan_all(
    heap: &Core,
    (chunks, floor): (u32, u64),
    checkpoint: Option<&Checkpoint>,
    threads: usize,
) -> Result<Vec<Scan>> {
    let next = AtomicU32::new(0);
    let work = || -> Result<Scan> {
        let mut scan = Scan::new(threads, floor);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= chunks {
                return Ok(scan);
            }
            scan.read(heap, SegmentId(number), checkpoint)?;
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut scans = vec![work()?];
        for other in others {
            scans.push(other.join().expect("scans do not panic")?);
        }
        Ok(scans)
    })
}

/// Whether chunks have all that was durable in them.
fn check(heap: &Core, scans: &[Scan]) -> Result<()> {
    for promised in scans.iter().flat_map(|scan| &scan.promised) {
        let Some(&(generation, end)) = scans.iter().find_map(|scan| scan.ends.get(&promised.number)) else {
            // It was cleaned since.
            continue;
        };
        if generation == promised.generation && end < promised.end {
            let offset = heap.log.offset_of(SegmentId(promised.number)) + u64::from(end);
            let why = format!("{} bytes from there on were durable, and do not verify", promised.end - end);
            return Err(Error::Damaged { offset, why });
        }
    }
    Ok(())
}

/// Takes the transactions behind the floor away, so that they do not count either when the floor is a higher one: the newest first, because a
/// chunk's header promises something of the one before it. A crash meanwhile leaves some, and the floor.
fn discard(heap: &Core, scans: &mut [Scan]) -> Result<()> {
    let mut discards: Vec<_> = scans.iter_mut().flat_map(|scan| std::mem::take(&mut scan.discards)).collect();
    if heap.log.persist.is_read_only() {
        return Ok(());
    }
    discards.sort_unstable_by_key(|discard| std::cmp::Reverse(discard.opened));
    for discard in discards {
        for &block in discard.blocks.iter().rev() {
            heap.log.persist.persist(block, &[0; ALIGN_BYTES])?;
        }
        if discard.is_whole {
            ChunkHeader::remove(&*heap.log.persist, heap.log.offset_of(discard.chunk))?;
        }
    }
    Ok(())
}

/// Makes durable what will be shown: a process that was killed may have stored it and not have waited for the device, or have met its refusal. Chunks that
/// another one says were durable are; of those without blocks it counts that they have none.
fn settle(heap: &Core, chunks: u32, scans: &[Scan]) -> Result<()> {
    let promised = scans.iter().flat_map(|scan| &scan.promised);
    let promised: HashSet<_> = promised.map(|previous| (previous.number, previous.generation)).collect();
    let ends: HashMap<_, _> = scans.iter().flat_map(|scan| &scan.ends).collect();
    let mut ranges = vec![(0, SUPERBLOCK_BYTES as u64)];
    for number in 0..chunks {
        let len = match ends.get(&number) {
            Some((generation, _)) if promised.contains(&(number, *generation)) => continue,
            Some((_, end)) => u64::from(*end),
            None => HEADER_BYTES as u64,
        };
        ranges.push((heap.log.offset_of(SegmentId(number)), len));
    }
    heap.log.persist.settle(&ranges)
}

/// Adds the parts of transactions whose last part is there to the entries.
fn keep_committed(scans: &mut [Scan]) {
    let committed: HashSet<u64> = scans.iter().flat_map(|scan| scan.committed.iter().copied()).collect();
    for scan in scans {
        for (bucket, found) in std::mem::take(&mut scan.parts) {
            if committed.contains(&found.version()) {
                scan.buckets[bucket].push(found);
            }
        }
    }
}

/// Enters the checkpoint and what was found in the map, each thread the partitions of one bucket.
fn enter_all(heap: &Core, mut scans: Vec<Scan>, checkpoint: Option<&Checkpoint>, threads: usize) {
    let newest = scans.iter().map(|scan| scan.newest).chain(checkpoint.map(|checkpoint| checkpoint.newest));
    let newest = newest.max().unwrap_or(0);
    heap.clock.store(newest, Ordering::Release);
    let mut buckets: Vec<Vec<Found>> = (0..threads)
        .map(|bucket| {
            let mut found = scans.iter_mut().map(|scan| std::mem::take(&mut scan.buckets[bucket]));
            let first = found.next().unwrap_or_default();
            found.fold(first, |mut all, more| {
                all.extend(more);
                all
            })
        })
        .collect();
    let enter = |bucket: usize, found| {
        checkpoint.iter().for_each(|checkpoint| checkpoint.enter(heap, bucket, threads));
        buckets::enter(heap, (bucket, threads), found);
    };
    thread::scope(|scope| {
        let (first, others) = buckets.split_first_mut().expect("there is one for each thread");
        for (n, found) in others.iter_mut().enumerate() {
            scope.spawn(move || enter(1 + n, std::mem::take(found)));
        }
        enter(0, std::mem::take(first));
    });
}

/// Whether the map points to chunks in use alone, as it does if the checkpoint is right.
fn check_free(heap: &Core) -> Result<()> {
    let is_empty = |&id: &SegmentId| heap.log.table.live_bytes(id) == 0;
    match heap.log.table.in_state(State::Free).find(|id| !is_empty(id)) {
        None => Ok(()),
        Some(id) => {
            let why = "a checkpoint says that there are objects in a chunk that is free".into();
            Err(Error::Damaged { offset: heap.log.offset_of(id), why })
        }
    }
}

/// Makes the allocator's tables again.
fn restore_homes(heap: &Core) -> Result<()> {
    for area in 1..AREAS as u32 {
        let mut code = [0; CLASS_BYTES];
        read(heap, homes::class_home(area), &mut code)?;
        let code = u16::from_le_bytes(code);
        if code == 0 {
            continue;
        }
        let first = u64::from(area) * AREA_BYTES;
        heap.homes.restore_area(area, code, holes(heap, first, first + AREA_BYTES));
    }
    Ok(())
}

/// The runs from `start` to `end` in which nothing is allocated.
fn holes(heap: &Core, start: u64, end: u64) -> impl Iterator<Item = (HomeAddress, HomeAddress)> {
    let mut at = start;
    std::iter::from_fn(move || {
        let from = run_end(heap, at, end, false);
        at = run_end(heap, from, end, true);
        (from < at).then_some((HomeAddress(from), HomeAddress(at)))
    })
}

/// Where the first byte from `start` to `end` is that is allocated, or that is not.
fn run_end(heap: &Core, start: u64, end: u64, is_hole: bool) -> u64 {
    let mut at = start;
    while at < end {
        let (id, grain) = place(at);
        let run = heap.map.find(id, grain, &mut Hint::default());
        if (run.source == Source::Hole) != is_hole {
            return at;
        }
        at = id.start().0 + run.end as u64 * GRAIN;
    }
    end
}

fn place(byte: u64) -> (PartitionId, usize) {
    let home = HomeAddress(byte);
    (home.partition(), home.offset_bytes() / GRAIN as usize)
}

/// Committed bytes within one grain run; nobody else has the heap yet.
fn read(heap: &Core, home: HomeAddress, out: &mut [u8]) -> Result<()> {
    let (id, grain) = place(home.0);
    match heap.map.find(id, grain, &mut Hint::default()).source {
        Source::Log(found) => {
            heap.log.ensure_read(found)?;
            heap.log.persist.read(u64::from(found) * GRAIN + home.0 % GRAIN, out);
        }
        Source::Hole | Source::Zeros => out.fill(0),
    }
    Ok(())
}
