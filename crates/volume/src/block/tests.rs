//! Blocks as they are written and read.

use super::*;

const HEADER: Header = Header {
    volume: 0x1234_5678_9ABC_DEF0,
    sequence: 9,
    epoch: 3,
    at: Physical(17),
    next_segment: 5,
    kind: Kind::Move,
    is_last: true,
    first_sequence: 8,
    durable: 7,
};

fn example() -> PageBytes {
    let mut builder = BlockBuilder::default();
    assert!(builder.is_empty());
    assert!(builder.add_page(Tag { key: PageKey::data(Ino(3), 4), crc: 5 }));
    assert!(builder.add_trim(Trim { ino: Ino(6), first: 7, last: 8 }));
    for index in 0..2 {
        let key = PageKey::data(Ino(9), index);
        assert!(builder.add_patch(&Patch { key, base: Physical(1), crc: 2, ranges: &[3; 13] }));
    }
    let mut bytes = [0; PAGE_BYTES];
    builder.encode(&HEADER, &mut bytes);
    bytes
}

#[test]
fn is_read_as_written() {
    let bytes = example();
    let block = Block::decode(&bytes).expect("a block");
    assert_eq!(block.header(), HEADER);
    assert_eq!(block.tags().collect::<Vec<_>>(), [Tag { key: PageKey::data(Ino(3), 4), crc: 5 }]);
    assert_eq!(block.trims().collect::<Vec<_>>(), [Trim { ino: Ino(6), first: 7, last: 8 }]);
    assert_eq!(block.patches().count(), 2);
    assert_eq!(block.patch_of(PageKey::data(Ino(9), 1)).map(|patch| patch.ranges), Some(&[3; 13][..]));
    assert_eq!(block.patch_of(PageKey::data(Ino(9), 2)), None);
}

#[test]
fn every_flipped_bit_is_seen() {
    let mut bytes = example();
    for bit in 0..PAGE_BYTES * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Block::decode(&bytes).is_none(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn counts_that_lie_are_refused() {
    for at in [38, 40, 42, 44, 46] {
        let mut bytes = example();
        bytes[at..at + 2].copy_from_slice(&500u16.to_le_bytes());
        let crc = crc_of(&bytes[CHECKED_FROM..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        assert!(Block::decode(&bytes).is_none(), "count at {at}");
    }
}

#[test]
fn a_full_block_takes_no_more() {
    let mut builder = BlockBuilder::default();
    let tag = Tag { key: PageKey::data(Ino(3), 4), crc: 5 };
    while builder.add_page(tag) {}
    assert_eq!(builder.pages(), BLOCK_PAGES_MAX);
    assert!(!builder.add_trim(Trim { ino: Ino(3), first: 0, last: 0 }));
    let mut bytes = [0; PAGE_BYTES];
    builder.encode(&HEADER, &mut bytes);
    assert_eq!(Block::decode(&bytes).expect("a block").pages(), BLOCK_PAGES_MAX);
}

#[test]
fn the_next_block_says_again_what_was_changed() {
    let mut builder = BlockBuilder::default();
    let (trim, key) = (Trim { ino: Ino(6), first: 7, last: 8 }, PageKey::data(Ino(3), 4));
    let patched = PageKey::data(Ino(9), 1);
    assert!(builder.add_trim(trim));
    assert!(builder.add_page(Tag { key, crc: 5 }));
    assert!(builder.add_patch(&Patch { key: patched, base: Physical(1), crc: 2, ranges: &[3; 13] }));
    let echo = |builder: &BlockBuilder| {
        let mut bytes = [0; PAGE_BYTES];
        builder.encode(&HEADER, &mut bytes);
        Block::decode(&bytes).expect("a block").echoed()
    };
    assert_eq!(echo(&builder), Echo::default());
    builder.clear(Kind::Commit);
    assert!(builder.is_empty());
    assert_eq!(echo(&builder), Echo { trims: vec![trim], keys: vec![key, patched] });
    assert!(builder.add_page(Tag { key, crc: 5 }));
    builder.clear(Kind::Move);
    assert_eq!(echo(&builder), Echo::default(), "what was moved is still where it was");
}

#[test]
fn a_block_has_room_for_the_longest_patch_behind_the_longest_echo() {
    let mut builder = BlockBuilder::default();
    let trim = Trim { ino: Ino(6), first: 7, last: 8 };
    while builder.add_trim(trim) {}
    builder.clear(Kind::Commit);
    let key = PageKey::data(Ino(9), 1);
    let ranges = [3; crate::patch::PATCH_BYTES_MAX];
    assert!(builder.add_patch(&Patch { key, base: Physical(1), crc: 2, ranges: &ranges }));
}

#[test]
fn what_was_a_block_is_known_unless_it_still_is_one() {
    let whole = example();
    let was_block = |bytes: &PageBytes| super::was_block(bytes, HEADER.volume, HEADER.epoch, HEADER.at);
    assert!(!was_block(&whole), "it is one");
    for byte in [0, 9, 29, 70, 4000] {
        let mut bytes = whole;
        bytes[byte] ^= 1;
        assert!(was_block(&bytes), "byte {byte}");
        assert!(!super::was_block(&bytes, HEADER.volume, HEADER.epoch + 1, HEADER.at), "of another opening");
    }
    assert!(!was_block(&[0; PAGE_BYTES]) && !was_block(&[0x5A; PAGE_BYTES]));
}
