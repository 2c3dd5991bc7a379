//! The map, made again from the log, or from a checkpoint and what is newer ([`checkpoint`](crate::checkpoint)). A crash meanwhile is harmless: nothing is written, but what takes away transactions that do not count
//! (see [`record`](crate::record)), and what is there already, to make it durable before it is shown.
//!
//! 1. Every chunk with a header is read from front to back, until a block does not verify ([`survey`]). The chunks are shared out among
//!    threads.
//! 2. Their entries go into the map from the newest version to the oldest: what is entered first of a byte stays. As many are read at a
//!    time as have room ([`window`]), again from the file. The partitions are shared out among threads (the paper's buckets; [`rows`]).
//! 3. The table of areas, which is in the heap itself, tells where objects can be, the map where they are.
//!
//! **RAM.** Beside the map: a chunk for each thread with twice as much for its checksums, [`Options::opening_bytes`](crate::Options::opening_bytes) for entries, 100 bytes for each chunk of the file,
//! and what a checkpoint has. The map has no memory for the extents of a partition that is all zeros.

mod checkpoint;
mod damaged;
mod found;
mod rows;
mod survey;
mod window;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use aquifer_base::limits::{HOME_BITS, LOG_GRAIN_BYTES, PARTITION_BYTES};
use aquifer_base::{HomeAddress, PartitionId};
use aquifer_log::geometry::SegmentId;
use aquifer_log::segment::State;
use aquifer_map::partitions::{GRAINS, Hint, Partitions, Source};

use crate::block::ALIGN_BYTES;
use crate::checkpoint::HEADER_BYTES;
use crate::chunk::{self, Previous};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::homes::{self, AREA_BYTES, AREAS, CLASS_BYTES};
use crate::superblock::SUPERBLOCK_BYTES;
use checkpoint::Checkpoint;
use rows::Rows;
pub use survey::Loss;
pub(crate) use survey::{Damage, LeftOut};
use survey::{Filled, Survey};
use window::{Collection, List, Window, newest_first};

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// Threads at most.
const THREADS_MAX: usize = 16;
/// Chunks of this size are read one by one by what only looks at a file.
const LARGE_CHUNK_BYTES: u32 = 4 << 20;
/// Partitions of home space, and of an area.
const PARTITIONS: u64 = (1 << HOME_BITS) / PARTITION_BYTES as u64;
const AREA_PARTITIONS: u64 = AREA_BYTES / PARTITION_BYTES as u64;
/// What is looked at at least at a time. Its extents take 4 MiB if each grain is one of its own.
const PART_PARTITIONS_MIN: u64 = 512;
/// RAM that the map has for each partition beside its extents.
const INDEX_BYTES: u64 = 16;

/// Fills the map of a heap that was just opened, with `ram_bytes` for entries. Returns between which partitions all are that have something.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Io`] if transactions behind the floor cannot be taken away.
pub(crate) fn recover(heap: &Core, floor: u64, ram_bytes: u64, damage: &mut Damage) -> Result<Range<u64>> {
    // A checkpoint spares chunks the reading, and with it the damage in them.
    let checkpoint = if damage.is_listed() { None } else { checkpoint::find(heap, chunks(heap), floor) };
    let checkpoint = checkpoint.as_ref();
    let mut survey = verify(heap, floor, checkpoint, damage)?;
    discard(heap, &mut survey)?;
    settle(heap, chunks(heap), &survey)?;
    heap.log.promise_later(unpromised(heap, &survey));
    let part = Part { map: &heap.map, partitions: 0..PARTITIONS, map_bytes_max: usize::MAX };
    let used = enter_all(heap, &survey, checkpoint, &part, ram_bytes)?.expect("the map may be of any size");
    heap.clock.store(newest(&survey, checkpoint).max(heap.log.durable_oldest()), Ordering::Release);
    damaged::check(heap, &survey.filled, &part, damage)?;
    check_free(heap)?;
    heap.log.adopt(chunks(heap))?;
    restore_homes(heap, &used, damage)?;
    Ok(used)
}

/// Visits the map of a heap that is only looked at, part by part: the partitions of each, and a map of them. All of it takes about `ram_bytes`, whatever
/// the heap has, beside a chunk for each thread with half as much for its checksums. Returns how many blocks are damaged of which nothing is needed.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Io`], those of `visit`.
pub(crate) fn recover_by_parts(
    heap: &Core,
    floor: u64,
    ram_bytes: u64,
    mut visit: impl FnMut(&Partitions, Range<u64>) -> Result<()>,
) -> Result<u64> {
    let survey = verify(heap, floor, None, &mut Damage::Refused)?;
    heap.clock.store(newest(&survey, None), Ordering::Release);
    heap.log.adopt(chunks(heap))?;
    // A quarter for the index of the map, one for entries, the rest for extents.
    let most = (ram_bytes / 4 / INDEX_BYTES).next_multiple_of(PART_PARTITIONS_MIN);
    let (mut start, mut step, mut damaged) = (0, most, 0);
    while start < survey.partitions {
        let partitions = start..start + step;
        let refused = |errno: aquifer_sys::Errno| std::io::Error::from_raw_os_error(errno.0);
        let map = Partitions::new(heap.log.capacity_bytes)
            .map_err(refused)
            .map_err(Error::io("reserving address space"))?;
        let map_bytes_max = if step > PART_PARTITIONS_MIN { ram_bytes as usize / 2 } else { usize::MAX };
        let part = Part { map: &map, partitions: partitions.clone(), map_bytes_max };
        if enter_all(heap, &survey, None, &part, ram_bytes / 4)?.is_none() {
            step = (step / 2).next_multiple_of(PART_PARTITIONS_MIN);
            continue;
        }
        if map.ram_bytes() < map_bytes_max / 4 {
            step = most.min(step * 2);
        }
        damaged = damaged::check(heap, &survey.filled, &part, &mut Damage::Refused)?;
        visit(&map, partitions.clone())?;
        start = partitions.end;
    }
    Ok(damaged)
}

/// Whole chunks of the file.
fn chunks(heap: &Core) -> u32 {
    let chunk_bytes = u64::from(heap.log.superblock.chunk_bytes);
    (heap.log.persist.len_bytes().saturating_sub(SUPERBLOCK_BYTES as u64) / chunk_bytes) as u32
}

/// The newest version.
fn newest(survey: &Survey, checkpoint: Option<&Checkpoint>) -> u64 {
    checkpoint.map_or(0, |checkpoint| checkpoint.newest).max(survey.newest)
}

/// As many threads as have something to do, and memory for their chunks.
fn threads(heap: &Core) -> usize {
    let processors = match heap.log.superblock.chunk_bytes {
        LARGE_CHUNK_BYTES.. if heap.log.persist.is_read_only() => 1,
        _ => thread::available_parallelism().map_or(1, usize::from),
    };
    processors.min(THREADS_MAX).min(1 + chunks(heap) as usize / 4)
}

/// Verifies all blocks that the checkpoint does not have.
fn verify(heap: &Core, floor: u64, checkpoint: Option<&Checkpoint>, damage: &mut Damage) -> Result<Survey> {
    let (chunks, recorded) = (chunks(heap), heap.log.chunks_recorded());
    let missing = recorded.saturating_sub(chunks.into());
    if missing > 0 {
        let why = format!("the file ends there, with {chunks} chunks of at least {recorded}");
        let bytes = missing * u64::from(heap.log.superblock.chunk_bytes);
        damage.add(heap.log.persist.len_bytes(), bytes, &why)?;
    }
    let mut survey = survey_all(heap, (chunks, floor), checkpoint, damage)?;
    read_promised(heap, &mut survey)?;
    damage.join(std::mem::take(&mut survey.damage));
    check(heap, &survey, checkpoint, damage)?;
    survey.filled.sort_unstable_by_key(|filled| Reverse(filled.versions.1));
    survey.committed.sort_unstable();
    Ok(survey)
}

/// Verifies all chunks, each thread another one.
fn survey_all(
    heap: &Core,
    (chunks, floor): (u32, u64),
    checkpoint: Option<&Checkpoint>,
    damage: &mut Damage,
) -> Result<Survey> {
    let next = AtomicU32::new(0);
    let work = |damage| -> Result<Survey> {
        let mut survey = Survey::new(floor, damage);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= chunks {
                return Ok(survey);
            }
            survey.read(heap, SegmentId(number), checkpoint)?;
        }
    };
    let survey = thread::scope(|scope| {
        let others: Vec<_> = (1..threads(heap))
            .map(|_| {
                let damage = damage.fork();
                scope.spawn(move || work(damage))
            })
            .collect();
        let mut survey = work(damage.fork())?;
        for other in others {
            survey.join(other.join().expect("surveys do not panic")?);
        }
        Ok::<_, Error>(survey)
    })?;
    Ok(survey)
}

/// Chunks whose last blocks do not verify, and were durable, as other chunks say: they were not torn when they were written.
fn read_promised(heap: &Core, survey: &mut Survey) -> Result<()> {
    for promised in [&survey.promised[..], &survey.promised_behind].concat() {
        let is_in_use = survey
            .ends
            .get(&promised.number)
            .is_some_and(|&(generation, _)| generation == promised.generation);
        if is_in_use && survey.torn.get(&promised.number).is_some_and(|&end| end <= promised.end) {
            survey.torn.remove(&promised.number);
            survey.read_again(heap, SegmentId(promised.number), promised.end)?;
        }
    }
    Ok(())
}

/// Whether chunks have all that was durable in them, as other chunks and the checkpoint say.
fn check(heap: &Core, survey: &Survey, checkpoint: Option<&Checkpoint>, damage: &mut Damage) -> Result<()> {
    let named = checkpoint.into_iter().flat_map(Checkpoint::named);
    for promised in survey.promised.iter().copied().chain(named) {
        check_promised(heap, survey, promised, damage)?;
    }
    survey.promised_behind.iter().try_for_each(|&promised| check_unbroken(heap, survey, promised, damage))
}

fn check_promised(heap: &Core, survey: &Survey, promised: Previous, damage: &mut Damage) -> Result<()> {
    // What does not verify of itself is damage already.
    let Some(&life) = survey.lives.get(&promised.number) else { return Ok(()) };
    let offset = heap.log.offset_of(SegmentId(promised.number));
    if (life.wrapping_sub(promised.generation) as i32) < 0 {
        let bytes = heap.log.superblock.chunk_bytes.into();
        return damage.add(
            offset,
            bytes,
            "a chunk is what it was before something was written there that was durable",
        );
    }
    match survey.ends.get(&promised.number) {
        Some(&(generation, end)) if generation == promised.generation && end < promised.end => {
            let missing = promised.end - end;
            let why = format!("{missing} bytes from there on were durable, and do not verify");
            damage.add(offset + u64::from(end), missing.into(), &why)
        }
        // It was cleaned since, or all is there.
        Some(_) => Ok(()),
        None => check_unbroken(heap, survey, promised, damage),
    }
}

/// What another chunk says of one that was opened before the floor, if either has nothing that counts: what is missing may be behind the floor, but
/// all was durable.
fn check_unbroken(heap: &Core, survey: &Survey, promised: Previous, damage: &mut Damage) -> Result<()> {
    match survey.unbroken.get(&promised.number) {
        Some(&(generation, end)) if generation == promised.generation && end < promised.end => {
            let missing = promised.end - end;
            let why = format!("of {missing} bytes from there on, which were durable, some do not verify");
            damage.add(heap.log.offset_of(SegmentId(promised.number)) + u64::from(end), missing.into(), &why)
        }
        _ => Ok(()),
    }
}

/// Takes the transactions behind the floor away, so that they do not count either when the floor is a higher one: the newest first, because a
/// chunk's header promises something of the one before it. A crash meanwhile leaves some, and the floor.
fn discard(heap: &Core, survey: &mut Survey) -> Result<()> {
    let mut discards = std::mem::take(&mut survey.discards);
    if heap.log.persist.is_read_only() {
        return Ok(());
    }
    discards.sort_unstable_by_key(|discard| std::cmp::Reverse(discard.opened));
    for discard in discards {
        for &block in discard.blocks.iter().rev() {
            heap.log.persist.persist(block, &[0; ALIGN_BYTES])?;
        }
        if discard.is_whole {
            let (id, number) = (heap.log.superblock.id, discard.chunk.0);
            let (offset, generation) =
                (heap.log.offset_of(discard.chunk), heap.log.table.generation(discard.chunk));
            chunk::free(&*heap.log.persist, offset, id, number, generation)?;
        }
    }
    Ok(())
}

/// Makes durable what will be shown: a process that was killed may have stored it and not have waited for the device, or have met its refusal. Chunks that
/// another one says were durable are; of those without blocks it counts that they have none.
fn settle(heap: &Core, chunks: u32, survey: &Survey) -> Result<()> {
    let promised = survey.promised.iter();
    let promised: HashSet<_> = promised.map(|previous| (previous.number, previous.generation)).collect();
    let mut ranges = vec![(0, SUPERBLOCK_BYTES as u64)];
    for number in 0..chunks {
        let len = match survey.ends.get(&number) {
            Some((generation, _)) if promised.contains(&(number, *generation)) => continue,
            Some((_, end)) => u64::from(*end),
            None => HEADER_BYTES as u64,
        };
        ranges.push((heap.log.offset_of(SegmentId(number)), len));
    }
    heap.log.persist.settle(&ranges)
}

/// Chunks with blocks that are durable now, and of which no header says so, in the order of their versions: the last ones of sessions.
fn unpromised(heap: &Core, survey: &Survey) -> Vec<Previous> {
    let promised: HashSet<_> =
        survey.promised.iter().map(|previous| (previous.number, previous.generation)).collect();
    let ends = survey.ends.iter().filter(|(_, (_, end))| *end > chunk::HEADER_BYTES as u32);
    let ends = ends.map(|(&number, &(generation, end))| Previous { number, generation, end });
    let mut left: Vec<_> = ends.filter(|end| !promised.contains(&(end.number, end.generation))).collect();
    left.sort_unstable_by_key(|end| heap.log.opened(SegmentId(end.number)));
    left
}

/// A part of home space, and a map of it.
struct Part<'m> {
    map: &'m Partitions,
    partitions: Range<u64>,
    /// RAM that the map may have.
    map_bytes_max: usize,
}

/// Enters what was found in the map, and what the checkpoint has, each thread its own partitions. Returns between which partitions there is
/// something; none if that is too much.
///
/// # Errors
/// [`Error::Damaged`].
fn enter_all(
    heap: &Core,
    survey: &Survey,
    checkpoint: Option<&Checkpoint>,
    part: &Part<'_>,
    ram_bytes: u64,
) -> Result<Option<Range<u64>>> {
    let (newest, threads) = (newest(survey, checkpoint), threads(heap));
    let entries_max = (ram_bytes / window::ENTRY_BYTES).max(1);
    let Survey { filled, committed, .. } = survey;
    let collection =
        Collection { log: &heap.log, partitions: &part.partitions, committed, threads, entries_max };
    let how = (checkpoint.is_some(), entries_max as usize / threads);
    let mut rows: Vec<_> = (0..threads)
        .map(|row| Rows::new(&heap.log, (part.map, part.partitions.clone()), (row, threads), how))
        .collect();
    each(&mut rows, |rows| checkpoint.iter().for_each(|checkpoint| checkpoint.tell_versions(part.map, rows)));
    let changing = filled.iter().filter(|filled| filled.changes(&part.partitions));
    let (mut left, mut rest): (Vec<_>, _) = (changing.collect(), Window::up_to(newest));
    while !rest.is_empty() && !left.is_empty() {
        let window = enter_window(&collection, rest.newest_part(&left, entries_max), &left, &mut rows);
        if part.map.ram_bytes() > part.map_bytes_max {
            return Ok(None);
        }
        rest = window.before();
        left.retain(|filled| rest.meets(filled));
    }
    let finish = &|mut rows: Rows<'_>| {
        checkpoint.iter().for_each(|checkpoint| checkpoint.enter(&mut rows));
        rows.finish(newest)
    };
    let used = thread::scope(|scope| {
        let ending: Vec<_> = rows.into_iter().map(|rows| scope.spawn(move || finish(rows))).collect();
        ending.into_iter().map(|end| end.join().expect("entering does not panic")).collect::<Result<Vec<_>>>()
    })?;
    let first = used.iter().map(|used| used.start).min().unwrap_or(0);
    Ok(Some(first..used.iter().map(|used| used.end).max().unwrap_or(0)))
}

/// Enters the entries of a window, or of its newest part if there are too many; returns what was entered.
fn enter_window(
    collection: &Collection<'_>,
    mut window: Window,
    chunks: &[&Filled],
    rows: &mut [Rows<'_>],
) -> Window {
    let collected = loop {
        match (collection.collect(window, chunks), window.half()) {
            (None, Some(half)) => window = half,
            (collected, _) => break collected,
        }
    };
    let enter = |lists: Vec<Vec<List>>, rows: &mut [Rows<'_>]| {
        let mut work: Vec<_> = rows.iter_mut().zip(lists).collect();
        each(&mut work, |(rows, lists)| {
            newest_first(std::mem::take(lists), |found| rows.add(found));
            rows.flush();
        });
    };
    match collected {
        Some(lists) => enter(lists, rows),
        // The parts of one transaction, which do not overlap.
        None => chunks
            .iter()
            .filter_map(|&filled| collection.collect(window, &[filled]))
            .for_each(|lists| enter(lists, rows)),
    }
    window
}

/// Runs `work` on all items at the same time.
fn each<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        let Some((first, others)) = items.split_first_mut() else { return };
        others.iter_mut().for_each(|item| drop(scope.spawn(move || work(item))));
        work(first);
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

/// Makes the allocator's tables again, if all objects are between these partitions.
fn restore_homes(heap: &Core, used: &Range<u64>, damage: &Damage) -> Result<()> {
    let codes = classes(heap, &heap.map)?;
    // Those behind were given when the file had a larger capacity. They have nothing, or it would have been refused.
    let areas = heap.log.home_bytes.div_ceil(AREA_BYTES) as u32;
    for (&area, &code) in codes.range(..areas) {
        heap.homes.restore_area(area, code, holes(heap, u64::from(area) * AREA_BYTES).into_iter());
    }
    let (first, end) = (used.start / AREA_PARTITIONS, used.end.div_ceil(AREA_PARTITIONS));
    (first.max(1)..end).map(|area| area as u32).try_for_each(|area| match codes.get(&area) {
        None if !damage.is_listed() => ensure_unused(&heap.map, partitions_of(area)),
        _ => Ok(()),
    })
}

/// What the table of areas says, if `map` is right and nobody changes it: the code of the class of each that has one.
pub(crate) fn classes(heap: &Core, map: &Partitions) -> Result<BTreeMap<u32, u16>> {
    let (mut codes, mut bytes) = (BTreeMap::new(), [0; PARTITION_BYTES]);
    let in_partition = (PARTITION_BYTES / CLASS_BYTES) as u32;
    for first in (0..AREAS as u32).step_by(in_partition as usize) {
        let (id, mut at) = (homes::class_home(first).partition(), 0);
        bytes.fill(0);
        while at < GRAINS {
            let run = map.find(id, at, &mut Hint::default());
            if let Source::Log(found) = run.source {
                heap.log.ensure_read(found)?;
                let out = &mut bytes[at * LOG_GRAIN_BYTES..run.end * LOG_GRAIN_BYTES];
                heap.log.persist.read(found * GRAIN, out);
            }
            at = run.end;
        }
        let all = (first..).zip(bytes.as_chunks().0);
        codes.extend(all.map(|(area, &code)| (area, u16::from_le_bytes(code))).filter(|&(_, code)| code > 0));
    }
    codes.remove(&0);
    Ok(codes)
}

/// The partitions of an area.
pub(crate) fn partitions_of(area: u32) -> Range<u64> {
    let first = u64::from(area) * AREA_PARTITIONS;
    first..first + AREA_PARTITIONS
}

/// Refuses objects in partitions of an area of which nobody knows the class: what said it was durable before there was any.
///
/// # Errors
/// [`Error::Damaged`].
pub(crate) fn ensure_unused(map: &Partitions, partitions: Range<u64>) -> Result<()> {
    for number in partitions {
        let mut is_used = false;
        map.for_each_extent(PartitionId(number as u32), |_, source| is_used |= source != Source::Hole);
        if is_used {
            let why = format!(
                "there are objects from home address {:#x} on, and the block is lost that says how large they are",
                number * PARTITION_BYTES as u64
            );
            return Err(Error::Damaged { offset: SUPERBLOCK_BYTES as u64, why });
        }
    }
    Ok(())
}

/// The runs of an area in which nothing is allocated.
fn holes(heap: &Core, start: u64) -> Vec<(HomeAddress, HomeAddress)> {
    let (mut holes, mut from) = (Vec::new(), Some(start));
    for partition in (start..start + AREA_BYTES).step_by(PARTITION_BYTES) {
        let mut see = |at, is_hole| match (from, is_hole) {
            (Some(first), false) => {
                if first < at {
                    holes.push((HomeAddress(first), HomeAddress(at)));
                }
                from = None;
            }
            (None, true) => from = Some(at),
            _ => {}
        };
        let mut is_first = true;
        heap.map.for_each_extent(HomeAddress(partition).partition(), |at, source| {
            if is_first && at > 0 {
                see(partition, true);
            }
            is_first = false;
            see(partition + u64::from(at) * GRAIN, source == Source::Hole);
        });
        if is_first {
            see(partition, true);
        }
    }
    holes.extend(from.map(|first| (HomeAddress(first), HomeAddress(start + AREA_BYTES))));
    holes
}
