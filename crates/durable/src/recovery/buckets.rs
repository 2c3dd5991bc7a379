//! The partitions of one thread, and what it enters in them.

use std::ops::Range;

use aquifer_base::PartitionId;
use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_map::partitions::{GRAINS, Hint, Source};

use super::found::Found;
use crate::core::Core;

/// Partitions in a row of one thread: neighbours are often written together.
const ROW: u64 = 64;

/// The thread that enters a partition.
pub(super) fn bucket_of(partition: u64, threads: usize) -> usize {
    (partition / ROW) as usize % threads
}

/// The threads that enter some partitions.
pub(super) fn buckets_of(partitions: Range<u64>, threads: usize) -> impl Iterator<Item = usize> {
    let (first, last) = (partitions.start / ROW, (partitions.end - 1) / ROW);
    (first..=last.min(first + threads as u64 - 1)).map(move |row| row as usize % threads)
}

/// The first partition from `partition` on that is one of `bucket`'s.
fn next_of(bucket: usize, partition: u64, threads: usize) -> u64 {
    let row = partition / ROW;
    let skip = (bucket + threads - row as usize % threads) % threads;
    if skip == 0 { partition } else { (row + skip as u64) * ROW }
}

/// Enters what was found in the partitions of one thread of several, partition by partition, in the order of the versions.
pub(super) fn enter(heap: &Core, (bucket, threads): (usize, usize), mut all: Vec<Found>) {
    all.sort_unstable_by_key(Found::start);
    let mut coming = all.iter().copied().peekable();
    // What is in the partition, and reached it from the one before or begins in it.
    let mut here: Vec<Found> = Vec::new();
    let mut partition = 0;
    loop {
        if here.is_empty() {
            let Some(next) = coming.peek() else { return };
            partition = partition.max(next.partitions().start);
        }
        partition = next_of(bucket, partition, threads);
        let (start, end) = (partition * GRAINS as u64, (partition + 1) * GRAINS as u64);
        here.extend(std::iter::from_fn(|| coming.next_if(|found| found.start() < end)));
        here.retain(|found| found.end() > start);
        here.sort_unstable_by_key(Found::version);
        enter_partition(heap, PartitionId(partition as u32), &here);
        here.retain(|found| found.end() > end);
        partition += 1;
    }
}

fn enter_partition(heap: &Core, id: PartitionId, here: &[Found]) {
    let Some(newest) = here.last() else { return };
    let first = u64::from(id.0) * GRAINS as u64;
    let known = heap.map.try_lock(id).expect("nobody else has the partition").version();
    for found in here.iter().filter(|found| found.version() > known) {
        let (start, end) = (found.start().max(first), found.end().min(first + GRAINS as u64));
        let (grains, source) = ((end - start) as u32, found.source_from(start));
        if let Source::Log(grain) = source {
            heap.log.table.add_live(heap.log.chunk_of(grain), grains * LOG_GRAIN_BYTES as u32);
        }
        heap.enter(start, grains, source, Hint::default());
    }
    heap.map.unlock(id, newest.version().max(known));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_is_entered_by_one_of_the_threads_that_are_told_of_it() {
        for threads in [1, 2, 3, 16] {
            for (start, end) in [(0, 1), (5, 64), (60, 70), (63, 2000), (128, 129)] {
                let told: Vec<_> = buckets_of(start..end, threads).collect();
                assert!((start..end).all(|partition| told.contains(&bucket_of(partition, threads))));
                assert!(told.len() <= threads);
                for bucket in 0..threads {
                    let mine = (start..).find(|&partition| bucket_of(partition, threads) == bucket);
                    assert_eq!(Some(next_of(bucket, start, threads)), mine);
                }
            }
        }
    }
}
