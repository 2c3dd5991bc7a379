//! The entries of a range of versions that has room in RAM: from the newest range to the oldest, each in the order of versions.

use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_map::partitions::Source;

use super::found::Found;
use super::rows::rows_of;
use super::survey::Filled;
use crate::block::{HEADER_BYTES_MAX, HEADER_BYTES_MIN, Heading, Kind, Role};
use crate::chunk;
use crate::log::Log;

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// RAM for an entry: in its list, and in what is put in order, twice; lists are half empty at most.
pub(super) const ENTRY_BYTES: u64 = 64;
/// What is read of a chunk at a time.
const READ_BYTES: usize = 32 << 10;

/// Versions above the first up to the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window(u64, u64);

impl Window {
    /// All versions.
    pub(super) fn up_to(newest: u64) -> Self {
        Self(0, newest)
    }

    /// The versions before it.
    pub(super) fn before(self) -> Self {
        Self(0, self.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == self.1
    }

    /// About how many entries of a chunk are in it.
    fn share(self, filled: &Filled) -> u64 {
        let (first, last) = (filled.versions.0.max(self.0 + 1), filled.versions.1.min(self.1));
        let span = filled.versions.1 - filled.versions.0 + 1;
        let part = (last + 1).saturating_sub(first);
        (u128::from(filled.entries) * u128::from(part)).div_ceil(span.into()) as u64
    }

    fn has(self, version: u64) -> bool {
        self.0 < version && version <= self.1
    }

    pub(super) fn meets(self, filled: &Filled) -> bool {
        filled.versions.0 <= self.1 && filled.versions.1 > self.0
    }

    /// Its newest part that has about `entries_max` entries. The chunks are in the order of their last versions, the newest first.
    pub(super) fn newest_part(self, chunks: &[&Filled], entries_max: u64) -> Self {
        // With as many of the first chunks, the versions down to those of the next one.
        let part = |count: usize| {
            let low = chunks.get(count).map_or(self.0, |next| next.versions.1.min(self.1 - 1).max(self.0));
            Self(low, self.1)
        };
        let fits = |count: usize| {
            let part = part(count);
            chunks[..count].iter().map(|filled| part.share(filled)).sum::<u64>() <= entries_max
        };
        let (mut most, mut step) = (1, 1);
        while most + step <= chunks.len() && fits(most + step) {
            (most, step) = (most + step, step * 2);
        }
        while step > 0 {
            if most + step <= chunks.len() && fits(most + step) {
                most += step;
            }
            step /= 2;
        }
        part(most)
    }

    /// A newer part of it; none of a single version.
    pub(super) fn half(self) -> Option<Self> {
        (self.1 - self.0 > 1).then(|| Self(self.0 + (self.1 - self.0) / 2, self.1))
    }
}

/// Entries of one chunk in a window, for one of the threads that enter them, in the order of their versions. They are in blocks that are
/// small enough for the allocator to use them again in the next window: it keeps large ones, of each thread and size.
#[derive(Default)]
pub(super) struct List(Vec<Vec<Found>>);

impl List {
    /// Entries of a block at most, and of the first one.
    const BLOCK: Range<usize> = 8..2048;

    fn push(&mut self, found: Found) {
        match self.0.last_mut() {
            Some(block) if block.len() < block.capacity() => block.push(found),
            last => {
                let most = last.map_or(Self::BLOCK.start, |full| Self::BLOCK.end.min(2 * full.len()));
                let mut block = Vec::with_capacity(most);
                block.push(found);
                self.0.push(block);
            }
        }
    }

    fn newest(&self) -> Option<u64> {
        self.0.last()?.last().map(Found::version)
    }

    fn pop(&mut self) -> Option<Found> {
        let block = self.0.last_mut()?;
        let found = block.pop();
        if block.is_empty() {
            self.0.pop();
        }
        found
    }

    fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

/// The entries of one chunk in a window, by the thread that enters them.
type Lists = Vec<List>;

/// What is collected for a window.
pub(super) struct Collection<'h> {
    pub(super) log: &'h Log,
    /// Nothing is collected of others.
    pub(super) partitions: &'h Range<u64>,
    /// Transactions in parts that have committed, in order.
    pub(super) committed: &'h [u64],
    pub(super) threads: usize,
    /// Entries that a window should have at most, for all threads.
    pub(super) entries_max: u64,
}

impl Collection<'_> {
    /// For each thread the entries that it enters, one list for each chunk. None if there are far more of them than there should be; never of
    /// one chunk.
    pub(super) fn collect(&self, window: Window, chunks: &[&Filled]) -> Option<Vec<Lists>> {
        let (next, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            let (mut all, mut buffer): (Vec<Lists>, _) = (Vec::new(), Vec::new());
            while let Some(filled) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                if count.load(Ordering::Relaxed) as u64 > 2 * self.entries_max {
                    return all;
                }
                if !window.meets(filled) {
                    continue;
                }
                let lists = self.of_chunk(window, filled, &mut buffer);
                count.fetch_add(lists.iter().map(List::len).sum(), Ordering::Relaxed);
                all.push(lists);
            }
            all
        };
        let found = thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads).map(|_| scope.spawn(work)).collect();
            let mut all = work();
            all.extend(others.into_iter().flat_map(|other| other.join().expect("collecting does not panic")));
            all
        });
        if chunks.len() > 1 && count.into_inner() as u64 > 2 * self.entries_max {
            return None;
        }
        let mut by_thread: Vec<Lists> = (0..self.threads).map(|_| Vec::new()).collect();
        for lists in found {
            by_thread.iter_mut().zip(lists).for_each(|(all, list)| all.push(list));
        }
        Some(by_thread)
    }

    fn of_chunk(&self, window: Window, filled: &Filled, buffer: &mut Vec<u8>) -> Lists {
        let mut lists: Lists = (0..self.threads).map(|_| List::default()).collect();
        let mut reader = Reader::new(self.log, filled, buffer);
        while let Some((at, heading)) = reader.next() {
            let version = heading.version();
            if version > window.1 {
                break;
            }
            let is_part = heading.role() != Role::Whole;
            if window.has(version) && !(is_part && self.committed.binary_search(&version).is_err()) {
                let offset = reader.start + at as u64;
                for entry in heading.entries(reader.bytes(at, heading.payload_start())) {
                    let source = match entry.kind {
                        Kind::Bytes => Source::Log((offset + entry.payload as u64) / GRAIN),
                        Kind::Zeros => Source::Zeros,
                        Kind::Hole => Source::Hole,
                        Kind::Commit => continue,
                    };
                    let found = Found::new(version, entry.home.0 / GRAIN, entry.grains, source);
                    let partitions = found.partitions();
                    if partitions.end <= self.partitions.start || self.partitions.end <= partitions.start {
                        continue;
                    }
                    rows_of(partitions, self.threads).for_each(|thread| lists[thread].push(found));
                }
            }
        }
        lists
    }
}

/// Visits the entries of lists, each in the order of versions, from the newest version to the oldest.
pub(super) fn newest_first(mut lists: Lists, mut visit: impl FnMut(Found)) {
    let mut order: BinaryHeap<(u64, usize)> =
        lists.iter().enumerate().filter_map(|(n, list)| Some((list.newest()?, n))).collect();
    while let Some((_, n)) = order.pop() {
        let next = order.peek().map_or(0, |&(version, _)| version);
        let list = &mut lists[n];
        // Of two chunks with the same version both have parts of one transaction, which do not overlap.
        while list.newest().is_some_and(|version| version >= next) {
            visit(list.pop().expect("it has a newest one"));
        }
        order.extend(list.newest().map(|version| (version, n)));
    }
}

/// Reads the headings of the blocks of a chunk that was verified, not their payloads.
struct Reader<'a> {
    log: &'a Log,
    filled: &'a Filled,
    /// Where the chunk begins in the file.
    start: u64,
    at: usize,
    buffer: &'a mut Vec<u8>,
    /// Where in the chunk the buffer's bytes are.
    buffered: usize,
}

impl<'a> Reader<'a> {
    fn new(log: &'a Log, filled: &'a Filled, buffer: &'a mut Vec<u8>) -> Self {
        buffer.clear();
        let start = log.offset_of(filled.id);
        Self { log, filled, start, at: chunk::HEADER_BYTES, buffer, buffered: 0 }
    }

    /// Where the next block begins in the chunk, and its heading.
    fn next(&mut self) -> Option<(usize, Heading)> {
        while let Some(gap) = self.filled.gaps.iter().find(|gap| gap.start as usize == self.at) {
            self.at = gap.end as usize;
        }
        let (at, end) = (self.at, self.filled.end as usize);
        if at + HEADER_BYTES_MIN > end {
            return None;
        }
        let heading = Heading::of(self.bytes(at, HEADER_BYTES_MAX.min(end - at)))?;
        self.at = at.checked_add(heading.len_bytes()).filter(|&behind| behind <= end)?;
        Some((at, heading))
    }

    /// Bytes of the chunk.
    fn bytes(&mut self, at: usize, len: usize) -> &[u8] {
        let is_there = at >= self.buffered && at + len <= self.buffered + self.buffer.len();
        if !is_there {
            let rest = (self.filled.end as usize).saturating_sub(at);
            self.buffer.resize(len.max(READ_BYTES.min(rest)), 0);
            self.buffered = at;
            self.log.persist.read(self.start + at as u64, self.buffer);
        }
        &self.buffer[at - self.buffered..][..len]
    }
}

#[cfg(test)]
mod tests {
    use aquifer_log::geometry::SegmentId;

    use super::*;

    const ENTRIES_MAX: u64 = 1 << 20;

    fn filled(first: u64, last: u64, entries: u64) -> Filled {
        Filled { versions: (first, last), entries, ..Filled::of(SegmentId(0)) }
    }

    /// All windows of some chunks.
    fn windows(chunks: &mut [Filled]) -> Vec<Window> {
        chunks.sort_by_key(|filled| std::cmp::Reverse(filled.versions.1));
        let mut left: Vec<_> = chunks.iter().collect();
        let (mut rest, mut windows) = (Window::up_to(chunks[0].versions.1), Vec::new());
        while !rest.is_empty() {
            left.retain(|filled| rest.meets(filled));
            let part = rest.newest_part(&left, ENTRIES_MAX);
            windows.push(part);
            rest = part.before();
        }
        windows
    }

    #[test]
    fn windows_follow_each_other_and_have_few_entries() {
        let many = ENTRIES_MAX / 10;
        let mut chunks: Vec<_> = (0..100).map(|n| filled(n * 1000 + 1, n * 1000 + 1000, many)).collect();
        // One is as old as the heap.
        chunks.push(filled(1, 99_500, 40));
        let found = windows(&mut chunks);
        assert!(found.windows(2).all(|pair| pair[0].0 == pair[1].1 && !pair[1].is_empty()));
        assert_eq!(found.last().map(|window| window.0), Some(0));
        for window in &found {
            let entries: u64 = chunks.iter().map(|filled| window.share(filled)).sum();
            assert!(entries <= ENTRIES_MAX + many, "{window:?}: {entries}");
        }
        assert!(found.len() <= 13, "{}", found.len());
    }

    #[test]
    fn few_entries_are_one_window() {
        let mut chunks: Vec<_> = (0..1000).map(|n| filled(1 + n, 5000 + n, 40)).collect();
        assert_eq!(windows(&mut chunks), [Window(0, 5999)]);
    }

    /// As parts of one transaction have, in any number of chunks.
    #[test]
    fn chunks_of_one_version_are_one_window() {
        let mut chunks: Vec<_> = (0..9).map(|_| filled(7, 7, ENTRIES_MAX)).collect();
        assert_eq!(windows(&mut chunks), [Window(6, 7), Window(0, 6)]);
        assert_eq!((Window(6, 7).half(), Window(4, 8).half()), (None, Some(Window(6, 8))));
    }

    #[test]
    fn entries_come_from_the_newest_on() {
        let list = |versions: &[u64]| {
            let mut list = List::default();
            versions.iter().for_each(|&version| list.push(Found::new(version, 5, 1, Source::Zeros)));
            list
        };
        let mut seen = Vec::new();
        newest_first(vec![list(&[1, 5, 9]), list(&[]), list(&[2, 3, 9, 10])], |found| {
            seen.push(found.version())
        });
        assert_eq!(seen, [10, 9, 9, 5, 3, 2, 1]);
    }
}
