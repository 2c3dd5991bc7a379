//! A block of a volume's log.

use aquifer_volume::block::{Block, BlockBuilder};
use aquifer_volume::patch::Ranges;
use aquifer_volume::word::{PAGE_BYTES, PageBytes, crc_of};

/// What is taken for a block is one: a block made of its contents has the same. The checksum of the input is made to agree as well.
pub fn property(input: &[u8]) {
    let mut page = [0; PAGE_BYTES];
    let len = input.len().min(PAGE_BYTES);
    page[..len].copy_from_slice(&input[..len]);
    look(&page);
    let crc = crc_of(&page[8..]);
    page[4..8].copy_from_slice(&crc.to_le_bytes());
    look(&page);
}

fn look(page: &PageBytes) {
    let Some(block) = Block::decode(page) else { return };
    let mut builder = BlockBuilder::default();
    assert_eq!(block.tags().count(), block.pages());
    // Blocks of version 1 hold more than what the next one could echo.
    let mut is_all = true;
    for tag in block.tags() {
        is_all &= builder.add_page(tag);
    }
    for trim in block.trims() {
        assert!(trim.first <= trim.last);
        is_all &= builder.add_trim(trim);
    }
    for trim in block.echoed().trims {
        assert!(trim.first <= trim.last);
    }
    for patch in block.patches() {
        is_all &= builder.add_patch(&patch);
        assert!(block.patch_of(patch.key).is_some());
        apply(patch.ranges);
    }
    if !is_all {
        return;
    }
    let mut again = [0; PAGE_BYTES];
    builder.encode(&block.header(), &mut again);
    let again = Block::decode(&again).expect("was just made");
    assert_eq!(again.header(), block.header());
    assert!(again.tags().eq(block.tags()) && again.trims().eq(block.trims()));
    assert!(again.patches().eq(block.patches()));
}

/// A patch changes what it says, and comes back from the page that it made.
fn apply(encoded: &[u8]) {
    let mut page = [0xAA; PAGE_BYTES];
    let Some(ranges) = Ranges::apply(encoded, &mut page) else { return };
    let mut again = Vec::new();
    ranges.encode(&page, &mut again);
    assert_eq!(again, encoded);
    assert!(ranges.words().all(|word| word < PAGE_BYTES / 8));
}
