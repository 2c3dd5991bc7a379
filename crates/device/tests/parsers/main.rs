//! Files of emulated flash against random and damaged input.

mod flash;
#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use aquifer_device::nand::{Header, OOB_BYTES, Oob, PageKind};
use flash::{CUT, GEOMETRY, OOBS, SEALED, SEALED_PAGES};

/// Where the states of blocks begin.
const STATES: usize = 4096;

/// One edit of a file, as an input has it.
fn edit(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut edit = (at as u16).to_le_bytes().to_vec();
    edit.push(bytes.len() as u8);
    edit.extend_from_slice(bytes);
    edit
}

/// An input that damages a file in one way and seals it again in one way.
fn input(how: u8, edits: &[Vec<u8>]) -> Vec<u8> {
    std::iter::once(how).chain(edits.concat()).collect()
}

/// The state of a block: pages used, erases, health.
fn state(block: usize, used: u32, erases: u32, health: u8) -> Vec<u8> {
    let state = [&used.to_le_bytes()[..], &erases.to_le_bytes(), &[health]].concat();
    edit(STATES + block * 16, &state)
}

/// What a page says of itself, in the turned bits of the file.
fn oob(page: usize, kind: PageKind, logical: u64, sequence: u64) -> Vec<u8> {
    let bytes = Oob { kind, logical, sequence, data_crc: 0 }.encode().map(|byte| byte ^ 0xFF);
    edit(OOBS + page * OOB_BYTES, &bytes)
}

fn samples() -> Vec<Vec<u8>> {
    let all_bad: Vec<_> = (0..16).map(|block| state(block, 4, 1, 2)).collect();
    let factory_bad: Vec<_> = (0..16).map(|block| state(block, 4, 1, 1)).collect();
    let some_bad: Vec<_> = (0..7).map(|block| state(block, 4, 1, 2)).collect();
    let worn: Vec<_> = (0..16).map(|block| state(block, 4, u32::MAX, 0)).collect();
    let unused: Vec<_> = (0..16).map(|block| state(block, 0, 0, 0)).collect();
    let trims = [oob(1, PageKind::Trims, 0, 1 << 40), edit(12288 + 512, &[0x55; 4])];
    let same = [oob(4, PageKind::Data, 9, 7), oob(5, PageKind::Data, 9, 7), oob(6, PageKind::Lost, 8, 7)];
    vec![
        vec![0],
        input(0, &[edit(0, &Header { geometry: GEOMETRY }.encode())]),
        input(CUT, &[vec![100], state(3, 1, 1, 0)]),
        input(0, &all_bad),
        input(0, &factory_bad),
        input(0, &some_bad),
        input(0, &worn),
        input(0, &unused),
        input(SEALED | SEALED_PAGES, &trims),
        input(SEALED | SEALED_PAGES, &same),
        input(SEALED, &[oob(2, PageKind::Data, 5, u64::MAX), oob(3, PageKind::Data, 6, u64::MAX - 1)]),
        input(SEALED, &[oob(2, PageKind::Data, u64::MAX, 9), oob(3, PageKind::Trims, 1, 9)]),
        vec![
            3, 32, 32, 32, 252, 255, 127, 255, 255, 255, 255, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255,
            255, 255, 255, 255, 255, 255, 191, 254, 255, 255, 255, 255, 255, 255, 243, 255, 231, 131, 0,
        ],
        input(0, &[edit(12288, &[0; 40]), edit(12288 + 3 * 512, &[1; 200]), state(9, 2, 8, 0)]),
    ]
}

#[test]
fn flash() {
    mutations::drive(&samples(), 3000, flash::property);
}
