//! Compressed pages: whole pages whose bytes stand in a slot of a smaller class.
//!
//! ```text
//! slot:  0..2 length of the block | LZ4 block
//! ```
//!
//! The entry says which pages are compressed; who wants one has it decompressed into a slot of whole pages first. They keep their entry and are
//! evicted by the policy of their class, so that slabs go to plain or compressed pages by how often each of them evicts.

use std::sync::atomic::Ordering;

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{LeafId, PageId};
use aquifer_cache::{Class, Distances, Lack, SlotId};
use aquifer_map::{Entry, State};
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

use super::Residence;

const LENGTH_BYTES: usize = size_of::<u16>();
/// A page that does not shrink to this stays as it is: three quarters.
const BYTES_MAX: usize = OS_PAGE_BYTES / 4 * 3;

/// Trials that may fail before the compressor rests, at first, after a rest, and at most; each that succeeds gives some more.
const CREDIT_FIRST: u32 = 512;
const CREDIT_AFTER_REST: u32 = 64;
const CREDIT_MAX: u32 = 1024;
const CREDIT_OF_SUCCESS: u32 = 1;

/// Leaves share this many scores, of pages that shrank and did not.
const SCORES: usize = 1024;
/// A page that shrinks weighs as much as this many that do not: a leaf where less than a third of them shrink is passed over.
const SCORE_OF_SUCCESS: i8 = 2;
/// A leaf is passed over from its negative on.
const SCORE_MAX: i8 = 16;
/// Of a leaf that is passed over one page in this many is tried, to see whether that is still right.
const SAMPLED: u32 = 16;

/// Whether whole pages are compressed before they leave RAM, if they shrink to three quarters.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Compression {
    /// They are not.
    #[default]
    Never,
    /// They are while that saves more than it costs, and processors have time left for it.
    Auto,
    /// They are.
    Always,
}

/// What compresses pages, with its own memory.
pub(crate) struct Compressor {
    table: CompressTable,
    /// Trials that may fail before it rests.
    credit: u32,
    scores: Box<[i8; SCORES]>,
    passed: u32,
    /// A length and a block.
    packed: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        Self {
            table: CompressTable::small(),
            credit: CREDIT_FIRST,
            scores: Box::new([0; SCORES]),
            passed: 0,
            packed: vec![0; LENGTH_BYTES + get_maximum_output_size(OS_PAGE_BYTES)],
        }
    }

    /// Whether so few of the last pages have shrunk that it should rest. It tries again afterwards.
    pub(crate) fn take_rest(&mut self) -> bool {
        let is_due = self.credit == 0;
        if is_due {
            self.credit = CREDIT_AFTER_REST;
        }
        is_due
    }

    /// Whether a page of this leaf is likely to shrink, or it is time to see.
    pub(crate) fn is_worth_trying(&mut self, leaf: LeafId) -> bool {
        if self.scores[leaf.0 as usize % SCORES] > -SCORE_MAX {
            return true;
        }
        self.passed = self.passed.wrapping_add(1);
        let is_sample = self.passed.is_multiple_of(SAMPLED);
        if !is_sample {
            self.credit = self.credit.saturating_sub(1);
        }
        is_sample
    }

    /// What a slot holds of a page of a leaf; `None` if that is not worth it.
    pub(crate) fn compress(&mut self, leaf: LeafId, bytes: &[u8; OS_PAGE_BYTES]) -> Option<&[u8]> {
        let (length, block) = self.packed.split_at_mut(LENGTH_BYTES);
        let len = compress_into_with_table(bytes, block, &mut self.table).ok()?;
        length.copy_from_slice(&(len as u16).to_le_bytes());
        let packed = self.packed.get(..LENGTH_BYTES + len).filter(|packed| packed.len() <= BYTES_MAX);
        let step = if packed.is_some() { SCORE_OF_SUCCESS } else { -1 };
        let score = &mut self.scores[leaf.0 as usize % SCORES];
        *score = (*score + step).clamp(-SCORE_MAX, SCORE_MAX);
        self.credit = match packed {
            Some(_) => CREDIT_MAX.min(self.credit + CREDIT_OF_SUCCESS),
            None => self.credit.saturating_sub(1),
        };
        packed
    }
}

/// The page of which a slot holds `packed`, and whatever follows.
fn decompress(packed: &[u8], to: &mut [u8; OS_PAGE_BYTES]) {
    let (length, block) = packed.split_at(LENGTH_BYTES);
    let len = u16::from_le_bytes([length[0], length[1]]);
    let decompressed = decompress_into(&block[..usize::from(len)], to);
    assert_eq!(decompressed.ok(), Some(OS_PAGE_BYTES), "what was compressed in RAM is another block now");
}

/// Whether a page may be compressed now, if it is a whole one.
pub(crate) fn may_be_compressed(entry: Entry) -> bool {
    entry.state() == State::Cached && !entry.is_pinned() && !entry.is_compressed()
}

impl Residence {
    /// Whether whole pages are compressed at all.
    pub(crate) fn compresses(&self) -> bool {
        self.compression != Compression::Never
    }

    /// The same, and that it does not rest.
    pub(crate) fn compresses_now(&self) -> bool {
        self.compresses() && self.evicted() >= self.compression_rests_until.load(Ordering::Relaxed)
    }

    /// Whether nothing is compressed while that does not pay, or processors have no time left.
    pub(crate) fn compresses_if_it_pays(&self) -> bool {
        self.compression == Compression::Auto
    }

    /// Has the slab leave that a class wants, if its pages may leave.
    pub(crate) fn give_wanted(&self, class: Class) {
        self.cache.give_wanted(class, &self.entries);
    }

    /// Whether some whole pages should be compressed, so that others have room, and how urgently.
    pub(crate) fn wants_compression(&self) -> Option<Lack> {
        self.cache.lacks_free_whole().filter(|_| self.compresses_now())
    }

    /// Compresses nothing until `evictions` more pages have left RAM.
    pub(crate) fn rest_from_compression(&self, evictions: u64) {
        self.compression_rests_until.store(self.evicted() + evictions, Ordering::Relaxed);
    }

    /// Calls `visit` for the pages to compress next, of `count` slots; how many slots that were. One thread at a time.
    pub(crate) fn next_to_compress(&self, count: usize, visit: &mut dyn FnMut(PageId)) -> usize {
        self.cache.next_to_compress(count, visit)
    }

    /// Notes that a page is wanted that is compressed. The caller holds its entry.
    pub(crate) fn note_decompressed(&self, page: PageId) {
        self.cache.note_decompressed(page);
    }

    /// Of compressed pages that were wanted: after how many others that were plain no longer.
    pub(crate) fn compressed_distances(&self) -> Distances {
        self.cache.compressed_distances()
    }

    /// How many whole pages are plain no longer.
    pub(crate) fn plain_left(&self) -> u64 {
        self.cache.plain_left()
    }

    /// For how many whole pages there would be room if none were compressed, and how many of these are plain.
    pub(crate) fn plain_most(&self) -> (usize, usize) {
        (self.cache.plain_most(), self.cache.slots(Class::WHOLE))
    }

    /// The bytes of a page that is compressed in `slot`. The caller holds its entry, or is alone.
    pub(crate) fn decompress_in_fault(&self, slot: SlotId, to: &mut [u8; OS_PAGE_BYTES]) {
        let (start, len) = (self.cache.pointer(slot), self.cache.slot_bytes(slot));
        // SAFETY: the slot has that many bytes, and is the page's whose entry is held.
        let packed = unsafe { std::slice::from_raw_parts(start, len) };
        decompress(packed, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: LeafId = LeafId(3);

    fn page_of(byte: impl Fn(usize) -> u8) -> [u8; OS_PAGE_BYTES] {
        std::array::from_fn(byte)
    }

    #[test]
    fn a_page_is_as_it_was() {
        let mut compressor = Compressor::new();
        let counters = page_of(|at| if at % 8 == 0 { (at / 8) as u8 } else { 0 });
        for page in [page_of(|_| 0), page_of(|_| 7), counters] {
            let mut packed = compressor.compress(LEAF, &page).expect("it shrinks").to_vec();
            packed.resize(Class::for_bytes(packed.len()).expect("a class").slot_bytes(), 0xFF);
            let mut again = page_of(|_| 1);
            decompress(&packed, &mut again);
            assert!(again == page);
        }
    }

    /// A page that does not shrink.
    fn random_page() -> [u8; OS_PAGE_BYTES] {
        let mut state = 1u64;
        page_of(|_| 0).map(|_: u8| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
    }

    #[test]
    fn leaves_whose_pages_do_not_shrink_are_passed_over_but_for_samples() {
        let (mut compressor, page) = (Compressor::new(), random_page());
        for _ in 0..SCORE_MAX {
            assert!(compressor.is_worth_trying(LEAF));
            assert_eq!(compressor.compress(LEAF, &page), None);
        }
        let tried = (0..160).filter(|_| compressor.is_worth_trying(LEAF)).count();
        assert_eq!(tried, 10, "one in sixteen is a sample");
        assert!(compressor.is_worth_trying(LeafId(4)));
        assert!(compressor.compress(LEAF, &page_of(|_| 7)).is_some());
        assert!(compressor.is_worth_trying(LEAF), "what shrinks again is tried again");
    }

    #[test]
    fn a_page_that_does_not_shrink_stays() {
        let page = random_page();
        let mut compressor = Compressor::new();
        for _ in 0..CREDIT_FIRST {
            assert!(!compressor.take_rest());
            assert_eq!(compressor.compress(LEAF, &page), None);
        }
        assert!(compressor.take_rest() && !compressor.take_rest(), "it tries again after its rest");
    }
}
