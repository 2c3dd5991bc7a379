//! A block of whole pages that the cleaner takes apart.

use aquifer_base::LogAddress;
use aquifer_log::Kind;
use aquifer_log::whole::{parse_block, write_page};

/// Where the block stands in the log.
const START: LogAddress = LogAddress(1 << 20);
const PAGE_BYTES: usize = 4096;

/// Pages that are found are those that writing them again would give. The first four bytes are the seed.
pub fn property(input: &[u8]) {
    let Some((seed, bytes)) = input.split_first_chunk() else { return };
    let seed = u32::from_le_bytes(*seed);
    let mut found = Vec::new();
    parse_block(bytes, START, seed, &mut found);
    let mut again = vec![0; bytes.len()];
    for (n, page) in found.iter().enumerate() {
        let at = PAGE_BYTES * (n + 1);
        assert_eq!((page.id.kind, page.address), (Kind::Whole, START.plus_bytes(at)));
        write_page(&mut again, at, seed, page.id, page.payload);
        assert_eq!(&again[12 * n..12 * (n + 1)], &bytes[12 * n..12 * (n + 1)], "entry {n}");
        assert_eq!(&again[at..at + PAGE_BYTES], &bytes[at..at + PAGE_BYTES], "page {n}");
    }
}
