//! Checksums that agree with the bytes of a volume, whatever those are.

use aquifer_volume::anchor::Anchor;
use aquifer_volume::block::{Block, PATCH_HEADER_BYTES};
use aquifer_volume::patch::Ranges;
use aquifer_volume::word::{PAGE_BYTES, PageBytes, Physical, Place, Word, check_of, crc_of};
use aquifer_volume::{Ino, PageKey};

/// Where a block has its tags, bytes of a tag, and the place of the checksum in one.
const TAGS_AT: usize = 64;
const TAG_BYTES: usize = 16;
const TAG_CRC_AT: usize = 8;
/// Where an anchor names the root of all roots.
const ROOT_AT: usize = 56;

/// Makes the checksum of a block or anchor agree with its bytes.
pub fn sign(image: &mut [u8], page: usize) {
    let rest = &mut image[page * PAGE_BYTES..];
    if rest.starts_with(b"AQVB") {
        let crc = crc_of(&rest[8..PAGE_BYTES]);
        rest[4..8].copy_from_slice(&crc.to_le_bytes());
    } else if let Ok(geometry) = Anchor::geometry_in(rest)
        && let Some(whole) = rest.get(12..Anchor::pages(geometry) as usize * PAGE_BYTES)
    {
        let crc = crc_of(whole);
        rest[8..12].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Makes all checksums agree: nodes with the pages that they name, those below before those above, then blocks with the pages behind them and with what their
/// patches make, then anchors.
pub fn sign_all(image: &mut [u8]) {
    let pages = image.len() / PAGE_BYTES;
    (0..pages).for_each(|page| sign(image, page));
    let mut nodes = tagged(image);
    nodes.retain(|(key, _)| key.is_node());
    nodes.sort_by_key(|(key, _)| (key.ino() == Ino::ROOTS, key.level()));
    for (_, page) in nodes {
        for at in (page * PAGE_BYTES..(page + 1) * PAGE_BYTES).step_by(8) {
            sign_word(image, at);
        }
    }
    for page in 0..pages {
        if image[page * PAGE_BYTES..].starts_with(b"AQUIFERV") {
            sign_word(image, page * PAGE_BYTES + ROOT_AT);
        } else {
            sign_patches(image, page);
            sign_tags(image, page);
        }
        sign(image, page);
    }
}

fn page_of(image: &[u8], page: usize) -> &PageBytes {
    image[page * PAGE_BYTES..][..PAGE_BYTES].try_into().expect("a page")
}

/// Pages that blocks name.
fn tagged(image: &[u8]) -> Vec<(PageKey, usize)> {
    let pages = image.len() / PAGE_BYTES;
    let of_block = |page: usize| {
        let block = Block::decode(page_of(image, page))?;
        Some(block.tags().map(|tag| tag.key).zip(page + 1..pages).collect::<Vec<_>>())
    };
    (0..pages).filter_map(of_block).flatten().collect()
}

/// Makes the check in a word agree with the page that it names.
fn sign_word(image: &mut [u8], at: usize) {
    let word = Word::from_bits(u64::from_le_bytes(image[at..at + 8].try_into().expect("eight bytes")));
    if let Some(Place::Page { at: Physical(page), .. }) = word.place()
        && (page as usize) < image.len() / PAGE_BYTES
    {
        let check = check_of(crc_of(page_of(image, page as usize)));
        let word = Word::of(Place::Page { at: Physical(page), check });
        image[at..at + 8].copy_from_slice(&word.bits().to_le_bytes());
    }
}

/// A patch: where its checksum and its ranges stand in the page of its block, and the page that it makes.
struct Patched {
    crc_at: usize,
    ranges_at: usize,
    ranges_len: usize,
    key: PageKey,
    base: Physical,
}

fn patches_of(page: &PageBytes) -> Vec<Patched> {
    let Some(block) = Block::decode(page) else { return Vec::new() };
    let count = |at: usize| usize::from(u16::from_le_bytes([page[at], page[at + 1]]));
    let mut at = TAGS_AT + (count(38) + count(40) + count(44)) * TAG_BYTES + count(46) * 8;
    let place = |patch: aquifer_volume::block::Patch<'_>| {
        let (crc_at, ranges_at) = (at + TAG_CRC_AT, at + PATCH_HEADER_BYTES);
        at = ranges_at + patch.ranges.len().next_multiple_of(8);
        Patched { crc_at, ranges_at, ranges_len: patch.ranges.len(), key: patch.key, base: patch.base }
    };
    block.patches().map(place).collect()
}

/// Makes the words agree that a patch puts into a node: its ranges are of whole words.
fn sign_words_of(image: &mut [u8], at: usize, len: usize) {
    let mut start = at;
    while start + 4 <= at + len {
        let number = |at: usize| usize::from(u16::from_le_bytes([image[at], image[at + 1]]));
        let bytes = number(start + 2).saturating_sub(number(start));
        let end = (start + 4 + bytes).min(at + len);
        (start + 4..end.saturating_sub(7)).step_by(8).for_each(|word| sign_word(image, word));
        start = end;
    }
}

/// Makes the checksums of a block's patches agree.
fn sign_patches(image: &mut [u8], page: usize) {
    for patch in patches_of(page_of(image, page)) {
        let at = page * PAGE_BYTES + patch.ranges_at;
        if patch.key.is_node() {
            sign_words_of(image, at, patch.ranges_len);
        }
        let Some(base) = image.chunks_exact(PAGE_BYTES).nth(patch.base.0 as usize) else { continue };
        let mut bytes: PageBytes = base.try_into().expect("a page");
        // A patch that cannot be applied is refused before its checksum is looked at.
        let _ = Ranges::apply(&image[at..at + patch.ranges_len], &mut bytes);
        let crc = crc_of(&bytes);
        image[page * PAGE_BYTES + patch.crc_at..][..4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Makes the checksums in a block's tags agree with the pages behind it.
fn sign_tags(image: &mut [u8], page: usize) {
    let Some(count) = Block::decode(page_of(image, page)).map(|block| block.pages()) else { return };
    let pages = image.len() / PAGE_BYTES;
    for nth in (0..count).take_while(|nth| page + nth + 1 < pages) {
        let at = page * PAGE_BYTES + TAGS_AT + nth * TAG_BYTES + TAG_CRC_AT;
        let crc = crc_of(page_of(image, page + nth + 1));
        image[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}
