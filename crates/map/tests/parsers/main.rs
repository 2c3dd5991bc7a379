//! Parsers against random and damaged input.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;
mod packed;

use aquifer_base::LogAddress;
use aquifer_base::limits::LEAF_PAGES;
use aquifer_log::record::record_bytes;
use aquifer_map::packed::{PACKED_BYTES_MAX, encode};
use aquifer_map::{Image, Place};

/// What the fuzzer found, and what looks like it: clusters of 0 and of 255 records and one at address 0, which
/// all pages name; runs out of order, the same run twice, and one that leads beyond the log.
const FOUND: [&[u8]; 6] = [
    &cluster([9, 0, 0, 0, 0], 0),
    &cluster([9, 0, 0, 0, 0], 255),
    &cluster([0; 5], 1),
    &[127, 0, 1, 3, 0, 0, 0, 9, 0, 0, 0, 0, 10, 0, 9, 0, 0, 0, 1, 5, 0, 9, 0, 0, 0, 2],
    &[127, 0, 1, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1],
    &[127, 0, 1, 1, 0, 0, 0, 255, 255, 255, 255, 255],
];

/// A leaf of pages of 128 bytes with one cluster.
const fn cluster(address: [u8; 5], records: u8) -> [u8; 75] {
    let mut leaf = [0xFF; 75];
    let [a, b, c, d, e] = address;
    let start = [127, 0, 2, 1, 0, a, b, c, d, e, records];
    let mut at = 0;
    while at < start.len() {
        leaf[at] = start[at];
        at += 1;
    }
    leaf
}

/// A packed leaf of pages that were written in groups of `group`, every `step`-th page, after all of them were written
/// in order if it was `loaded`.
fn leaf(page_bytes: usize, group: usize, step: usize, loaded: bool) -> Vec<u8> {
    let mut image = Image::default();
    let record = record_bytes(page_bytes) as u64 / 4;
    for index in (0..LEAF_PAGES).filter(|_| loaded) {
        image.replace(index, Place::exact(LogAddress(90_000_000 + index as u64 * record)));
    }
    for (rank, index) in (0..LEAF_PAGES).step_by(step).enumerate() {
        let start = 1000 + (rank / group) as u64 * 70_000;
        image.replace(
            index * 7 % LEAF_PAGES,
            Place::exact(LogAddress(start + (rank % group) as u64 * record)),
        );
    }
    let mut packed = [0; PACKED_BYTES_MAX];
    let len = encode(&image, page_bytes, 256 << 10, &mut packed);
    [&(page_bytes as u16 - 1).to_le_bytes()[..], &packed[..len]].concat()
}

#[test]
fn leaves() {
    let shapes =
        [(128, 512, 1), (128, 20, 1), (128, 3, 1), (16, 40, 2), (4096, 1, 1), (4096, 8, 3), (700, 1, 5)];
    let mut samples: Vec<Vec<u8>> =
        shapes.map(|(bytes, group, step)| leaf(bytes, group, step, false)).to_vec();
    samples.extend(
        [(128, 9, 40), (128, 1, 100), (4096, 1, 60)]
            .map(|(bytes, group, step)| leaf(bytes, group, step, true)),
    );
    samples.extend(FOUND.map(<[u8]>::to_vec));
    mutations::drive(&samples, 10_000, packed::property);
}
