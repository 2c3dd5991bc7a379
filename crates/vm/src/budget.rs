//! How RAM is divided.

use std::time::Duration;

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_log::log::{BUFFERED_BLOCKS, SUM_BYTES};
use aquifer_sys::kept_file::KeptFile;

use crate::context::{CONTEXT_BYTES, SAVERS_BYTES};

/// RAM of each part, in bytes. The sum is the user's budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// What the user gave.
    pub total: usize,
    /// Mapped pages and the kernel's page tables for them.
    pub page_buffer: usize,
    /// Slabs of the object cache, slot headers included, and what it has of others until they need it.
    pub cache: usize,
    /// Of the cache's: what tables of whole pages grow to at most, which is little at first. The writer has it given back as they grow.
    pub lent: usize,
    /// How many pages can be in RAM at once.
    pub entries: usize,
    /// Packed leaves.
    pub leaves: usize,
    /// Faults at a time.
    pub contexts: usize,
    /// One of the log's buffers, or the one that the cleaner reads into.
    pub block: usize,
}

/// RAM, in bytes, of a process with a heap.
pub struct ProcessRam {
    /// All of it: anonymous memory and page tables.
    pub all: usize,
    /// The heap's part, which is what was left when it began.
    pub heap: usize,
    /// What the heap keeps of that whatever the process and its group need, at least.
    pub least: usize,
    /// Tells what all of it is.
    pub file: Option<KeptFile>,
    /// RAM of the group that the process is in, which may have others.
    pub group: Box<dyn Fn() -> Option<Room> + Send + Sync>,
    /// Is told once when the process waits for flash longer than it runs.
    pub tell: Box<dyn Fn(&Strain) + Send + Sync>,
}

/// RAM of a group, or of the machine, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// What all in it may use.
    pub limit: u64,
    /// What they use that cannot be taken from them.
    pub used: u64,
}

impl Room {
    /// What they may still use.
    #[must_use]
    pub fn left(self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// A process waits for flash longer than it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strain {
    /// For how long it went on.
    pub period: Duration,
    /// RAM with which three of four pages that were read from flash would have stayed, beyond what the heap
    /// has. `None` if it is far more than the heap has.
    pub more_bytes: Option<u64>,
}

/// Bytes of an entry at the table's intended load.
const ENTRY_BYTES: usize = 10;
/// What is kept with a slot, and with that of a whole page.
const HEADER_BYTES: usize = 8;
const HEADER_BYTES_WHOLE: usize = 24;

/// A leaf and a page table take 4 KiB each at most, and are of 2 MiB of whole pages: this part of the flash is twice that.
const WHOLE_PART: u64 = 256;

/// The log's buffers and the cleaner's. A log of whole pages has no framed ones, for which both heads have a buffer.
const BLOCKS: usize = BUFFERED_BLOCKS + 1;
const BLOCKS_WHOLE: usize = BLOCKS - 2;
/// Smallest and largest block of a log.
const BLOCK_MIN: usize = 64 << 10;
const BLOCK_MAX: usize = 1 << 20;

impl Budget {
    /// A block of the log for a budget of `total`, if somebody asked for `asked` bytes: a power of two, so small that the log's buffers take
    /// a sixteenth of the budget at most.
    pub fn block_bytes(total: usize, asked: Option<usize>) -> usize {
        let most = 1 << (total / 16 / BLOCKS).max(BLOCK_MIN).ilog2();
        match asked {
            Some(asked) => asked.next_power_of_two().clamp(BLOCK_MIN, BLOCK_MAX.min(most)),
            None => (total / 512).next_power_of_two().clamp(BLOCK_MIN, 512 << 10),
        }
    }

    /// Divides `total`; `block` is from [`Budget::block_bytes`], `fixed` is what the heap's size costs however little of it is used, `flash_bytes` how large the log
    /// is, and `object_bytes` the size of object that the table of entries is laid out for.
    ///
    /// A sixteenth goes to the page buffer: enough for batches of evictions and for the pages that a
    /// few threads use at a time; every page there costs 4 KiB, or 8 KiB with its page table, where the
    /// cache needs little more than the object. Whole pages are not in the page buffer; their page tables are counted there.
    pub fn divide(total: usize, block: usize, fixed: usize, flash_bytes: u64, object_bytes: usize) -> Self {
        let contexts = (total / (4 << 20)).clamp(8, 64);
        let is_whole = object_bytes >= OS_PAGE_BYTES;
        // All whole pages that flash has room for need no more, with their leaves half empty.
        let whole_most = if is_whole { (flash_bytes / WHOLE_PART) as usize } else { usize::MAX };
        let page_buffer = (total / if is_whole { 64 } else { 16 }).min(whole_most).max(512 << 10);
        // The directory of leaves, which grows with the flash, comes out of their share.
        let leaves = (total / if is_whole { 64 } else { 24 }).saturating_sub(fixed).max(total / 64);
        let leaves = leaves.min(whole_most).max(128 << 10);
        let blocks = if is_whole { BLOCKS_WHOLE } else { BLOCKS } * block;
        // Heaps of smaller objects leave more than that of the entries unused if they hold whole pages.
        let sums = if is_whole { flash_bytes as usize / OS_PAGE_BYTES * SUM_BYTES } else { 0 };
        let tables = sums + page_buffer + leaves;
        let (at_once, lent) = if is_whole { (0, tables) } else { (tables, 0) };
        let parts = [fixed, contexts * CONTEXT_BYTES, SAVERS_BYTES, blocks, at_once, Self::slack(total)];
        let spent: usize = parts.into_iter().sum();
        let rest = total.saturating_sub(spent);
        // Runs of whole pages meet in few buckets; places there cost little beside the pages.
        let per_object = if is_whole { 4 } else { 1 };
        let object_bytes = object_bytes.clamp(64, OS_PAGE_BYTES);
        let header_bytes = if is_whole { HEADER_BYTES_WHOLE } else { HEADER_BYTES };
        let entries = rest / (object_bytes + header_bytes + ENTRY_BYTES * per_object) * per_object;
        let cache = rest - entries * ENTRY_BYTES;
        Self { total, page_buffer, cache, lent, entries, leaves, contexts, block }
    }

    /// The process's own growth on behalf of the library: stacks of its threads, allocator slack.
    fn slack(total: usize) -> usize {
        total / 128 + (256 << 10)
    }

    /// What the cache must give back of its RAM when everything else takes `others` bytes.
    pub(crate) fn owed(&self, others: usize) -> usize {
        let all = others + self.cache + Self::slack(self.total);
        if self.lent > 0 { all.saturating_sub(self.total) } else { 0 }
    }

    /// Mapped pages plus page tables, counted in OS pages.
    pub fn page_buffer_units(&self) -> usize {
        self.page_buffer / OS_PAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_exceed_the_whole() {
        for total in [8 << 20, 64 << 20, 256 << 20, 8 << 30] {
            for object_bytes in [1, 128, 4096, 1 << 20] {
                for asked in [None, Some(0), Some(1 << 30)] {
                    let block = Budget::block_bytes(total, asked);
                    let b = Budget::divide(total, block, 1 << 20, total as u64 * 16, object_bytes);
                    let sum = b.page_buffer
                        + (b.cache - b.lent)
                        + b.entries * ENTRY_BYTES
                        + b.leaves
                        + b.contexts * CONTEXT_BYTES
                        + SAVERS_BYTES
                        + BLOCKS_WHOLE * b.block
                        + (1 << 20);
                    assert!(sum <= total && b.cache > total / 2, "{b:?}");
                }
            }
        }
    }

    #[test]
    fn what_was_lent_is_owed_as_others_grow() {
        let block = Budget::block_bytes(24 << 20, None);
        let [small, whole] =
            [128, OS_PAGE_BYTES].map(|bytes| Budget::divide(24 << 20, block, 0, 4 << 30, bytes));
        let others = (24 << 20) - whole.cache - Budget::slack(24 << 20);
        assert!((4 << 20..6 << 20).contains(&whole.lent) && whole.cache > 21 << 20, "{whole:?}");
        assert_eq!((whole.owed(others), whole.owed(others + 5000)), (0, 5000));
        // Nothing is lent here: the parts have their RAM from the start.
        assert_eq!((small.lent, small.owed(others + 5000)), (0, 0));
    }

    #[test]
    fn blocks_are_as_large_as_asked_where_there_is_room() {
        let asked = |total, bytes| Budget::block_bytes(total, Some(bytes));
        assert_eq!((asked(256 << 20, 128 << 10), asked(256 << 20, 1 << 20)), (128 << 10, 1 << 20));
        assert_eq!((asked(64 << 20, 1 << 20), asked(8 << 20, 1 << 20)), (512 << 10, 64 << 10));
        assert_eq!(Budget::block_bytes(256 << 20, None), 512 << 10);
    }
}
