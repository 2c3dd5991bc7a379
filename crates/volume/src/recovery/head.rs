//! One head of the log, read from where the anchor says.
//!
//! It ends where no block continues it, with one exception: in a segment that has failed, which only raw flash says. The block that could not be
//! written there is in a later segment, first of all: in the one that follows, or, if that has failed as well before it held a block, in any. Then no block
//! says which, and it is looked for. What was torn by a cut of the power stands in a segment that has not failed, or has nothing behind it.

use aquifer_device::AlignedBuffer;

use crate::anchor::{Anchor, HeadPosition};
use crate::block::{Block, Kind};
use crate::medium::Medium;
use crate::segments::Segments;
use crate::word::{PAGE_BYTES, PageBytes, crc_of};
use crate::writer::{Head, is_full};

/// A block, and the pages that it names are as it says.
pub struct FoundBlock {
    /// The block's.
    pub sequence: u64,
    bytes: AlignedBuffer,
}

impl FoundBlock {
    /// The block itself.
    pub fn page(&self) -> &PageBytes {
        (&self.bytes[..]).try_into().expect("a page")
    }

    /// A block as a test builds it.
    #[cfg(test)]
    pub fn of(builder: &crate::block::BlockBuilder, header: &crate::block::Header) -> Self {
        let mut bytes = AlignedBuffer::new(PAGE_BYTES);
        builder.encode(header, (&mut bytes[..]).try_into().expect("a page"));
        FoundBlock { sequence: header.sequence, bytes }
    }

    fn block(&self) -> Block<'_> {
        Block::decode(self.page()).expect("was decoded before")
    }
}

/// What the blocks of a head have in common.
struct Reader<'a> {
    medium: &'a dyn Medium,
    anchor: &'a Anchor,
    head: Head,
}

/// Adds the blocks of a head to `blocks`, and says how far it had come.
pub fn read(
    medium: &dyn Medium,
    anchor: &Anchor,
    head: Head,
    segments: &mut Segments,
    blocks: &mut Vec<FoundBlock>,
) -> HeadPosition {
    let reader = Reader { medium, anchor, head };
    let mut position = anchor.heads[head as usize];
    let (mut last, mut left) = (None, Vec::new());
    segments.open(position.segment);
    segments.open(position.next);
    loop {
        let least = last.map_or(anchor.sequence, |last| last + 1);
        let is_full = is_full(position, medium.geometry().pages_per_segment);
        let here = if is_full { None } else { reader.block(position.segment, position.index, least) };
        let found = match here {
            Some(found) => found,
            None => {
                let is_bad = medium.is_bad(position.segment);
                if !is_full && !is_bad {
                    return position;
                }
                left.push(position.segment);
                // A program that failed may have left all of its block; what was written instead is what counts.
                let least = if is_bad { last.unwrap_or(least) } else { least };
                let Some((segment, found)) = reader.goes_on(position.next, least, &left) else {
                    return position;
                };
                segments.seal(position.segment, least);
                segments.open(segment);
                position = HeadPosition { segment, index: 0, next: segment };
                found
            }
        };
        if last == Some(found.sequence) {
            blocks.pop();
        }
        last = Some(found.sequence);
        position.index += 1 + found.block().pages() as u32;
        let next = found.block().header().next_segment;
        if position.next != next {
            position.next = next;
            segments.open(next);
        }
        blocks.push(found);
    }
}

impl Reader<'_> {
    /// The block at a place, if it is one of this head, at least so far on, and the pages behind it are those that it names.
    fn block(&self, segment: u32, index: u32, least: u64) -> Option<FoundBlock> {
        let geometry = self.medium.geometry();
        let at = geometry.page(segment, index);
        let mut bytes = AlignedBuffer::new(PAGE_BYTES);
        // Flash that cannot be read here was not written to its end.
        self.medium.read_run(at, &mut bytes).ok()?;
        let block = Block::decode((&bytes[..]).try_into().expect("a page"))?;
        let header = block.header();
        let head = if header.kind == Kind::Move { Head::Moves } else { Head::Changes };
        let continues = header.at == at
            && header.volume == self.anchor.volume
            && header.epoch == self.anchor.epoch
            && header.sequence >= least
            && head == self.head
            && header.next_segment < geometry.segments
            && index as usize + 1 + block.pages() <= geometry.pages_per_segment as usize;
        if !continues {
            return None;
        }
        if block.pages() > 0 {
            let mut pages = AlignedBuffer::new(block.pages() * PAGE_BYTES);
            self.medium.read_run(geometry.page(segment, index + 1), &mut pages).ok()?;
            let mut pages = pages.chunks_exact(PAGE_BYTES);
            if block.tags().any(|tag| pages.next().is_none_or(|page| crc_of(page) != tag.crc)) {
                return None;
            }
        }
        Some(FoundBlock { sequence: header.sequence, bytes })
    }

    /// Where the head went on behind a segment that names `next`, and the block there. It is in none of the segments that were `left`.
    fn goes_on(&self, next: u32, least: u64, left: &[u32]) -> Option<(u32, FoundBlock)> {
        let first_block = |segment| Some((segment, self.block(segment, 0, least)?));
        let is_new = |segment: &u32| !left.contains(segment);
        let named = Some(next).filter(is_new).and_then(first_block);
        if named.is_some() || !self.medium.is_bad(next) {
            return named;
        }
        let all = self.medium.anchor_segments()..self.medium.geometry().segments;
        all.filter(is_new).filter_map(first_block).min_by_key(|(_, found)| found.sequence)
    }
}

#[cfg(test)]
mod tests {
    use aquifer_device::{Device, MemoryDevice};

    use super::*;
    use crate::block::{BlockBuilder, Header, Trim};
    use crate::key::Ino;
    use crate::medium::DeviceMedium;
    use crate::word::Word;

    const SEGMENT_PAGES: u32 = 16;

    /// What is found of a block that is like `header` at page 3 of segment 6, by an opening of epoch 4.
    fn is_found(change: impl FnOnce(&mut Header)) -> bool {
        let device = MemoryDevice::new(2 << 20, PAGE_BYTES);
        let medium = DeviceMedium::new(device, SEGMENT_PAGES).expect("a medium");
        let geometry = medium.geometry();
        let at = geometry.page(6, 3);
        let (kind, next_segment) = (Kind::Commit, 7);
        let mut header = Header {
            volume: 1,
            sequence: 20,
            epoch: 4,
            at,
            next_segment,
            kind,
            is_last: true,
            first_sequence: 20,
        };
        change(&mut header);
        let mut builder = BlockBuilder::default();
        assert!(builder.add_trim(Trim { ino: Ino(9), first: 0, last: 0 }));
        let block = FoundBlock::of(&builder, &header);
        medium.device().write_at(u64::from(at.0) * PAGE_BYTES as u64, &block.bytes).expect("memory");
        let anchor = Anchor {
            volume: 1,
            number: 1,
            sequence: 10,
            epoch: 4,
            geometry,
            root: Word::ZERO,
            root_height: 0,
            is_clean: false,
            made_at: 0,
            heads: Default::default(),
            units: Vec::new(),
        };
        let reader = Reader { medium: &medium, anchor: &anchor, head: Head::Changes };
        reader.block(6, 3, 20).is_some()
    }

    #[test]
    fn a_head_goes_on_with_its_own_blocks_of_this_opening_alone() {
        assert!(is_found(|_| ()));
        assert!(!is_found(|header| header.epoch = 3), "what an earlier opening had written there");
        assert!(!is_found(|header| header.volume = 2));
        assert!(!is_found(|header| header.sequence = 19));
        assert!(!is_found(|header| header.kind = Kind::Move), "the other head's");
        assert!(!is_found(|header| header.at.0 += 1), "it was somewhere else");
        assert!(!is_found(|header| header.next_segment = 1000));
    }
}
