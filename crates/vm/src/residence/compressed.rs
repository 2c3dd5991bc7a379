//! Compressed pages: whole pages whose bytes stand in a slot of a smaller class.
//!
//! ```text
//! slot:  0..2 length of the block | LZ4 block
//! ```
//!
//! The entry says which pages are compressed; who wants one has it decompressed into a slot of whole pages first. They keep their entry and are
//! evicted by the policy of their class, so that slabs go to plain or compressed pages by how often each of them evicts.

use std::sync::atomic::Ordering;

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_cache::{Class, Lack, SlotId};
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
const CREDIT_OF_SUCCESS: u32 = 4;

/// What compresses pages, with its own memory.
pub(crate) struct Compressor {
    table: CompressTable,
    /// Trials that may fail before it rests.
    credit: u32,
    /// A length and a block.
    packed: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        Self {
            table: CompressTable::small(),
            credit: CREDIT_FIRST,
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

    /// What a slot holds of a page; `None` if that is not worth it.
    pub(crate) fn compress(&mut self, bytes: &[u8; OS_PAGE_BYTES]) -> Option<&[u8]> {
        let (length, block) = self.packed.split_at_mut(LENGTH_BYTES);
        let len = compress_into_with_table(bytes, block, &mut self.table).ok()?;
        length.copy_from_slice(&(len as u16).to_le_bytes());
        let packed = self.packed.get(..LENGTH_BYTES + len).filter(|packed| packed.len() <= BYTES_MAX);
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
        self.compresses
    }

    /// Has the slab leave that a class wants, if its pages may leave.
    pub(crate) fn give_wanted(&self, class: Class) {
        self.cache.give_wanted(class, &self.entries);
    }

    /// Whether some whole pages should be compressed, so that others have room, and how urgently.
    pub(crate) fn wants_compression(&self) -> Option<Lack> {
        let is_at_work = || self.evicted() >= self.compression_rests_until.load(Ordering::Relaxed);
        self.cache.lacks_free_whole().filter(|_| self.compresses && is_at_work())
    }

    /// Compresses nothing until `evictions` more pages have left RAM.
    pub(crate) fn rest_from_compression(&self, evictions: u64) {
        self.compression_rests_until.store(self.evicted() + evictions, Ordering::Relaxed);
    }

    /// Calls `visit` for the pages to compress next, of `count` slots; how many slots that were. One thread at a time.
    pub(crate) fn next_to_compress(&self, count: usize, visit: &mut dyn FnMut(PageId)) -> usize {
        self.cache.next_to_compress(count, visit)
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

    fn page_of(byte: impl Fn(usize) -> u8) -> [u8; OS_PAGE_BYTES] {
        std::array::from_fn(byte)
    }

    #[test]
    fn a_page_is_as_it_was() {
        let mut compressor = Compressor::new();
        let counters = page_of(|at| if at % 8 == 0 { (at / 8) as u8 } else { 0 });
        for page in [page_of(|_| 0), page_of(|_| 7), counters] {
            let mut packed = compressor.compress(&page).expect("it shrinks").to_vec();
            packed.resize(Class::for_bytes(packed.len()).expect("a class").slot_bytes(), 0xFF);
            let mut again = page_of(|_| 1);
            decompress(&packed, &mut again);
            assert!(again == page);
        }
    }

    #[test]
    fn a_page_that_does_not_shrink_stays() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let page = std::array::from_fn(|_| random());
        let mut compressor = Compressor::new();
        for _ in 0..CREDIT_FIRST {
            assert!(!compressor.take_rest());
            assert_eq!(compressor.compress(&page), None);
        }
        assert!(compressor.take_rest() && !compressor.take_rest(), "it tries again after its rest");
    }
}
