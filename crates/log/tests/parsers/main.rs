//! Parsers against random and damaged input.

mod block;
#[path = "../../../../fuzz/mutations.rs"]
mod mutations;
mod record;
mod whole;

use aquifer_log::record::{MARKER_BYTES, record_bytes, write_marker, write_record};
use aquifer_log::whole::write_page;
use aquifer_log::{Kind, RecordId};

const SEED: u32 = 0xC0FF_EE00;

/// Records of some pages and leaves, as they stand in a block, with the padding behind.
fn block(sizes: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut owner = None;
    for (n, &size) in sizes.iter().enumerate() {
        let kind = if n % 3 == 2 { Kind::Leaf } else { Kind::Page };
        let payload: Vec<u8> = (0..size).map(|at| (at * 7 + n) as u8).collect();
        let id = RecordId { kind, number: n as u64 };
        if owner != Some(id.owner()) {
            owner = Some(id.owner());
            bytes.resize(bytes.len() + MARKER_BYTES, 0);
            let end = bytes.len();
            write_marker(&mut bytes[end - MARKER_BYTES..], id.owner());
        }
        let start = bytes.len();
        bytes.resize(start + record_bytes(size), 0);
        write_record(&mut bytes[start..], SEED, id, &payload);
    }
    bytes.resize(bytes.len() + 40, 0);
    bytes
}

fn blocks() -> Vec<Vec<u8>> {
    vec![block(&[128; 8]), block(&[1, 2, 3, 4, 5]), block(&[0, 4095, 0]), block(&[700, 33, 512]), block(&[])]
}

#[test]
fn records() {
    let question = |number: u8, kind: u8| [&SEED.to_le_bytes()[..], &[kind, number, 0, 0, 0, 0]].concat();
    let samples: Vec<Vec<u8>> = blocks()
        .iter()
        .flat_map(|block| {
            [(0, 0), (2, 1), (7, 0)].map(|(number, kind)| [question(number, kind), block.clone()].concat())
        })
        .collect();
    mutations::drive(&samples, 20_000, record::property);
}

#[test]
fn blocks_of_the_log() {
    let samples: Vec<Vec<u8>> =
        blocks().iter().map(|block| [&SEED.to_le_bytes()[..], block].concat()).collect();
    mutations::drive(&samples, 20_000, block::property);
}

#[test]
fn blocks_of_whole_pages() {
    let samples = [0, 1, 2].map(|pages: usize| {
        let mut block = vec![0; 3 * 4096];
        for n in 0..pages {
            let page: Vec<u8> = (0..4096).map(|at| (at * 7 + n) as u8).collect();
            write_page(&mut block, 4096 * (n + 1), SEED, RecordId::of_page(70 + n as u64, 4096), &page);
        }
        [&SEED.to_le_bytes()[..], &block].concat()
    });
    mutations::drive(&samples, 20_000, whole::property);
}
