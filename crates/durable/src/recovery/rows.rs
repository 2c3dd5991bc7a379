//! The partitions of one thread, and what it enters in them.

use std::ops::Range;

use aquifer_base::PartitionId;
use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_map::partitions::{Filler, Partitions, Portion, Source, Told, portions};

use super::found::Found;
use super::survey::NOWHERE;
use crate::error::{Error, Result};
use crate::log::Log;

/// Partitions in a row of one thread: neighbours are often written together.
const ROW: u64 = 64;
/// An entry for more partitions than this is entered on its own.
const PORTIONS_MAX: u64 = 256;
/// Bits of a partition's number that are put in order at a time.
const DIGIT_BITS: u32 = 11;

/// The thread that enters a partition.
pub(super) fn row_of(partition: u64, threads: usize) -> usize {
    (partition / ROW) as usize % threads
}

/// The threads that enter some partitions.
pub(super) fn rows_of(partitions: Range<u64>, threads: usize) -> impl Iterator<Item = usize> {
    let (first, last) = (partitions.start / ROW, (partitions.end - 1) / ROW);
    (first..=last.min(first + threads as u64 - 1)).map(move |row| row as usize % threads)
}

/// The first partition from `partition` on that is one of `row`'s.
fn next_of(row: usize, partition: u64, threads: usize) -> u64 {
    let number = partition / ROW;
    let skip = (row + threads - number as usize % threads) % threads;
    if skip == 0 { partition } else { (number + skip as u64) * ROW }
}

/// What one thread of several enters in its partitions, from the newest transaction to the oldest: what is entered first of a grain stays.
pub(super) struct Rows<'h> {
    log: &'h Log,
    map: &'h Partitions,
    /// Nothing is entered in others.
    partitions: Range<u64>,
    /// Which thread of how many.
    row: (usize, usize),
    filler: Filler<'h>,
    /// What is not in the map yet, from the newest on.
    told: Vec<Told>,
    spare: Vec<Told>,
    /// Partitions that something was entered in.
    touched: Range<u64>,
    /// Whether there are partitions that know of entries.
    has_known: bool,
    /// What is put in order at a time.
    told_max: usize,
    /// A grain of the log that a checkpoint has, and where other bytes are now.
    stale: Option<u64>,
}

impl<'h> Rows<'h> {
    pub(super) fn new(
        log: &'h Log,
        (map, partitions): (&'h Partitions, Range<u64>),
        row: (usize, usize),
        (has_known, told_max): (bool, usize),
    ) -> Self {
        let (filler, told, spare, touched) = (Filler::new(map), Vec::new(), Vec::new(), NOWHERE);
        Self { log, map, partitions, row, filler, told, spare, touched, has_known, told_max, stale: None }
    }

    pub(super) fn has(&self, id: PartitionId) -> bool {
        let number = u64::from(id.0);
        row_of(number, self.row.1) == self.row.0 && self.partitions.contains(&number)
    }

    /// Enters what is not known yet of an entry. It is known to a partition that has its version or a newer one.
    pub(super) fn add(&mut self, found: Found) {
        let partitions = found.partitions();
        if partitions.end - partitions.start > PORTIONS_MAX {
            return self.add_long(found);
        }
        let source = found.source_from(found.start());
        for portion in portions(found.start(), (found.end() - found.start()) as u32) {
            self.add_portion(&portion, source, found.version());
        }
        if self.told.len() > self.told_max {
            self.flush();
        }
    }

    fn add_portion(&mut self, portion: &Portion, source: Source, version: u64) {
        let is_known = || self.has_known && self.map.word(portion.id).version() >= version;
        if self.has(portion.id) && !is_known() {
            let range = (portion.start, portion.end);
            self.told.push(Told::new(portion.id, range, source.plus(portion.before as usize)));
        }
    }

    fn add_long(&mut self, found: Found) {
        self.flush();
        let ((row, threads), partitions) = (self.row, found.partitions());
        let source = found.source_from(found.start());
        let mut number = next_of(row, partitions.start.max(self.partitions.start), threads);
        while number < partitions.end.min(self.partitions.end) {
            let id = PartitionId(number as u32);
            let first = id.start().0 / LOG_GRAIN_BYTES as u64;
            let (start, end) =
                (found.start().max(first), found.end().min(first + aquifer_map::partitions::GRAINS as u64));
            let portion = Portion {
                id,
                start: (start - first) as usize,
                end: (end - first) as usize,
                before: (start - found.start()) as u32,
            };
            self.add_portion(&portion, source, found.version());
            if self.told.len() > self.told_max {
                self.flush();
            }
            number = next_of(row, number + 1, threads);
        }
        self.flush();
    }

    /// Enters the extents that a checkpoint has of a partition, in which nothing is newer than version `newest`. What it has of a chunk that was
    /// opened after that belongs to others: all that was there was written again. Nor is what it has behind the last block of a chunk.
    pub(super) fn restore(&mut self, id: PartitionId, told: &[Told], newest: u64) {
        debug_assert!(self.told.is_empty());
        self.touch(id);
        let (log, stale) = (self.log, &mut self.stale);
        self.filler.fill(told, |grain, grains| {
            let chunk = log.chunk_of(grain);
            log.table.add_live(chunk, (grains * LOG_GRAIN_BYTES) as u32);
            let end = log.offset_of(chunk) + u64::from(log.filled_to(chunk));
            if log.opened(chunk) > newest || grain * LOG_GRAIN_BYTES as u64 >= end {
                stale.get_or_insert(grain);
            }
        });
    }

    /// Enters what was added.
    pub(super) fn flush(&mut self) {
        sort_by_partition(&mut self.told, &mut self.spare);
        let ends = [self.told.first(), self.told.last()];
        ends.into_iter()
            .flatten()
            .map(|told| told.id)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|id| self.touch(id));
        for of_partition in self.told.chunk_by(|a, b| a.id == b.id) {
            fill(self.log, &mut self.filler, of_partition);
        }
        self.told.clear();
    }

    fn touch(&mut self, id: PartitionId) {
        let number = u64::from(id.0);
        self.touched = self.touched.start.min(number)..self.touched.end.max(number + 1);
    }

    /// Ends the entering: partitions that something was entered in have this version. Returns where they are.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a block is lost that had newer bytes than the checkpoint.
    pub(super) fn finish(mut self, version: u64) -> Result<Range<u64>> {
        let (row, threads) = self.row;
        let mut number = next_of(row, self.touched.start.min(self.touched.end), threads);
        while number < self.touched.end {
            self.filler.finish(PartitionId(number as u32), version);
            number = next_of(row, number + 1, threads);
        }
        let Some(grain) = self.stale else { return Ok(self.touched) };
        let why = "a checkpoint has bytes of an object there, and the block that has them is lost";
        Err(Error::Damaged { offset: grain * LOG_GRAIN_BYTES as u64, why: why.into() })
    }
}

fn fill(log: &Log, filler: &mut Filler<'_>, told: &[Told]) {
    let table = &log.table;
    filler.fill(told, |grain, grains| {
        table.add_live(log.chunk_of(grain), (grains * LOG_GRAIN_BYTES) as u32);
    });
}

/// Puts what is told in the order of partitions; what is told of one stays in its order.
fn sort_by_partition(told: &mut Vec<Told>, spare: &mut Vec<Told>) {
    let ids = || told.iter().map(|told| told.id.0);
    let (Some(least), Some(most)) = (ids().min(), ids().max()) else { return };
    spare.clone_from(told);
    for shift in (0..u32::BITS - (most - least).leading_zeros()).step_by(DIGIT_BITS as usize) {
        let digit = |told: &Told| ((told.id.0 - least) >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        let mut places = [0u32; 1 << DIGIT_BITS];
        told.iter().for_each(|told| places[digit(told)] += 1);
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for one in &*told {
            let place = &mut places[digit(one)];
            spare[*place as usize] = *one;
            *place += 1;
        }
        std::mem::swap(told, spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_is_entered_by_one_of_the_threads_that_are_told_of_it() {
        for threads in [1, 2, 3, 16] {
            for (start, end) in [(0, 1), (5, 64), (60, 70), (63, 2000), (128, 129)] {
                let told: Vec<_> = rows_of(start..end, threads).collect();
                assert!((start..end).all(|partition| told.contains(&row_of(partition, threads))));
                assert!(told.len() <= threads);
                for row in 0..threads {
                    let mine = (start..).find(|&partition| row_of(partition, threads) == row);
                    assert_eq!(Some(next_of(row, start, threads)), mine);
                }
            }
        }
    }

    #[test]
    fn what_is_told_of_a_partition_stays_in_its_order() {
        let ids = [5u32, 70_000, 5, 3 << 22, 70_000, 0, 5, (1 << 26) - 1];
        let mut told: Vec<_> = (0..ids.len())
            .map(|n| Told::new(PartitionId(ids[n]), (n, n + 1), Source::Log(100 + n as u64)))
            .collect();
        let mut expected = told.clone();
        expected.sort_by_key(|told| told.id.0);
        sort_by_partition(&mut told, &mut Vec::new());
        assert_eq!(told, expected);
    }
}
