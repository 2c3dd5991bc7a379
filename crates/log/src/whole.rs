//! A block of whole pages: who they are first, then the pages, each aligned to an OS page.
//!
//! ```text
//! entry n   at 12 n          owner (4 bytes) | word as in a record's header (4) | CRC32C as in a record's header (4)
//! page n    at 4096 (n + 1)
//! ```
//! A word of zero: no page there, and none behind it. A page that is read alone is checked against the CRC in RAM
//! (`crate::sums`), so that reading it takes its own device blocks and no others.

use aquifer_base::LogAddress;
use aquifer_base::limits::OS_PAGE_BYTES;

use crate::cleaner::Found;
use crate::record::{Kind, RecordId, checksum, read_u32};

/// Where the first page stands in a block.
pub(crate) const FIRST: usize = OS_PAGE_BYTES;
const ENTRY_BYTES: usize = 12;

/// The CRC of a page.
pub(crate) fn sum(seed: u32, id: RecordId, page: &[u8]) -> u32 {
    checksum(seed, id.owner(), id.word(page.len()), page)
}

/// Writes a page, at `at` in the block, and its entry; returns its CRC.
pub fn write_page(block: &mut [u8], at: usize, seed: u32, id: RecordId, page: &[u8]) -> u32 {
    debug_assert!(id.kind == Kind::Whole && page.len() == OS_PAGE_BYTES && at.is_multiple_of(OS_PAGE_BYTES));
    let crc = sum(seed, id, page);
    let entry = (at / OS_PAGE_BYTES - 1) * ENTRY_BYTES;
    for (n, number) in [id.owner(), id.word(page.len()), crc].into_iter().enumerate() {
        block[entry + 4 * n..][..4].copy_from_slice(&number.to_le_bytes());
    }
    block[at..at + OS_PAGE_BYTES].copy_from_slice(page);
    crc
}

/// Intact pages of a block in order, and whether the whole block made sense.
pub fn parse_block<'a>(bytes: &'a [u8], start: LogAddress, seed: u32, out: &mut Vec<Found<'a>>) -> bool {
    let pages = bytes.get(FIRST..).unwrap_or_default().chunks_exact(OS_PAGE_BYTES);
    let entries = bytes[..bytes.len().min(FIRST)].chunks_exact(ENTRY_BYTES);
    for (n, (entry, page)) in entries.zip(pages).enumerate() {
        let [Some(owner), Some(word), Some(crc)] = [0, 4, 8].map(|at| read_u32(entry, at)) else {
            return false;
        };
        if word == 0 {
            return entry.iter().all(|&byte| byte == 0);
        }
        let id =
            RecordId::of_word(word, owner).filter(|id| id.kind == Kind::Whole && id.word(page.len()) == word);
        let Some(id) = id.filter(|&id| sum(seed, id, page) == crc) else { return false };
        out.push(Found { id, address: start.plus_bytes(FIRST + n * OS_PAGE_BYTES), payload: page });
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> RecordId {
        RecordId { kind: Kind::Whole, number }
    }

    fn block() -> Vec<u8> {
        let mut block = vec![0; 4 * OS_PAGE_BYTES];
        for n in 0..2 {
            write_page(
                &mut block,
                FIRST + n * OS_PAGE_BYTES,
                7,
                id(1000 + n as u64),
                &[n as u8 + 1; OS_PAGE_BYTES],
            );
        }
        block
    }

    #[test]
    fn pages_are_found_where_they_are() {
        let block = block();
        let mut found = Vec::new();
        assert!(parse_block(&block, LogAddress::from_offset(1 << 20), 7, &mut found));
        let places: Vec<_> = found.iter().map(|f| (f.id, f.address.offset_bytes(), f.payload[0])).collect();
        assert_eq!(places, [(id(1000), (1 << 20) + 4096, 1), (id(1001), (1 << 20) + 8192, 2)]);
    }

    #[test]
    fn those_of_another_life_of_the_segment_are_not() {
        let block = block();
        let mut found = Vec::new();
        assert!(!parse_block(&block, LogAddress::from_offset(0), 8, &mut found));
        assert!(found.is_empty());
    }

    #[test]
    fn a_damaged_page_ends_the_block() {
        let mut block = block();
        block[FIRST + OS_PAGE_BYTES + 100] ^= 1;
        let mut found = Vec::new();
        assert!(!parse_block(&block, LogAddress::from_offset(0), 7, &mut found));
        assert_eq!(found.len(), 1);
    }
}
