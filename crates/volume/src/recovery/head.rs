//! One head of the log, read from where the anchor says.
//!
//! Its blocks follow one another to the end of a segment, and go on in the segment that they name. A place where no block stands need not be the end: a
//! block can be damaged, or, in a segment of raw flash that has failed, be written again in a later one. So what is left of the segment is looked through,
//! and the segment after it. Only where neither has a block the head has ended. What of all that counts, `recovery.rs` decides.

use aquifer_device::AlignedBuffer;

use crate::anchor::{Anchor, HeadPosition};
use crate::block::{Block, Kind, was_block};
use crate::error::VolumeError;
use crate::medium::Medium;
use crate::segments::Segments;
use crate::word::{PAGE_BYTES, PageBytes, Physical, crc_of};
use crate::writer::{Head, is_full};

/// A block that was found.
pub struct FoundBlock {
    /// The block's.
    pub sequence: u64,
    /// Whether the pages behind it are as it says.
    pub is_whole: bool,
    bytes: AlignedBuffer,
}

impl FoundBlock {
    /// The block itself.
    pub fn block(&self) -> Block<'_> {
        let page: &PageBytes = (&self.bytes[..]).try_into().expect("a page");
        Block::decode(page).expect("was decoded before")
    }

    /// A block as a test builds it.
    #[cfg(test)]
    pub fn of(builder: &crate::block::BlockBuilder, header: &crate::block::Header) -> Self {
        let mut bytes = AlignedBuffer::new(PAGE_BYTES);
        builder.encode(header, (&mut bytes[..]).try_into().expect("a page"));
        FoundBlock { sequence: header.sequence, is_whole: true, bytes }
    }
}

/// Pages that are read at once, at most: those of a segment.
const WINDOW_PAGES: u32 = 256;

/// The log after an anchor, as it is read.
pub struct Reader<'a> {
    medium: &'a dyn Medium,
    anchor: &'a Anchor,
    /// Pages that were read at once, from `first` on: why they could not be read, if so.
    window: AlignedBuffer,
    first: Physical,
    outcomes: Vec<Result<(), VolumeError>>,
    /// Segments that were looked through from their first page.
    seen: Vec<u32>,
    /// Why the page could not be read on which the log would go on.
    pub unreadable: Option<VolumeError>,
    /// Blocks that stand where a head would go on, and are not whole.
    pub torn: u64,
    /// Whether a later opening than the anchor's has committed something.
    pub has_later_epoch: bool,
}

impl<'a> Reader<'a> {
    /// Has read nothing yet.
    pub fn new(medium: &'a dyn Medium, anchor: &'a Anchor) -> Self {
        let window_pages = WINDOW_PAGES.min(medium.geometry().pages_per_segment);
        Reader {
            medium,
            anchor,
            window: AlignedBuffer::new(window_pages as usize * PAGE_BYTES),
            first: Physical(0),
            outcomes: Vec::new(),
            seen: Vec::new(),
            unreadable: None,
            torn: 0,
            has_later_epoch: false,
        }
    }

    /// Adds the blocks of a head to `blocks`, and says how far it had come.
    pub fn read(
        &mut self,
        head: Head,
        segments: &mut Segments,
        blocks: &mut Vec<FoundBlock>,
    ) -> HeadPosition {
        let mut position = self.anchor.heads[head as usize];
        // Of one block that stands twice, because a program failed, the later one counts: it is behind the other in `blocks`.
        let (mut newest, mut left) = (self.anchor.sequence, Vec::new());
        segments.open(position.segment);
        segments.open(position.next);
        loop {
            let is_full = is_full(position, self.medium.geometry().pages_per_segment);
            let here =
                if is_full { None } else { self.block_from(position.segment, position.index, head, newest) };
            let found = match here {
                Some(found) => found,
                None => {
                    left.push(position.segment);
                    let Some((segment, found)) = self.goes_on(position.next, head, newest, &left) else {
                        let expected =
                            if is_full { (position.next, 0) } else { (position.segment, position.index) };
                        self.note_end(expected);
                        return position;
                    };
                    segments.seal(position.segment, newest);
                    segments.open(segment);
                    position = HeadPosition { segment, index: 0, next: segment };
                    found
                }
            };
            let header = found.block().header();
            newest = found.sequence;
            position.index = self.medium.geometry().split(header.at).1 + 1 + found.block().pages() as u32;
            if position.next != header.next_segment {
                position.next = header.next_segment;
                segments.open(position.next);
            }
            blocks.push(found);
        }
    }

    /// Where a head went on behind a segment that names `next`, and the first block there. It is in none of the segments that were `left`.
    fn goes_on(&mut self, next: u32, head: Head, least: u64, left: &[u32]) -> Option<(u32, FoundBlock)> {
        if !left.contains(&next) {
            let found = self.block_from(next, 0, head, least);
            if found.is_some() || !self.medium.is_bad(next) {
                return found.map(|found| (next, found));
            }
        }
        // The segment that follows has failed before it held a block: then no block says which was taken instead.
        let all = self.medium.anchor_segments()..self.medium.geometry().segments;
        let firsts = all.filter(|segment| !left.contains(segment));
        let mut found: Vec<_> = firsts
            .filter_map(|segment| Some((segment, self.block(segment, 0, Some(head), least)?)))
            .collect();
        found.sort_by_key(|(_, found)| found.sequence);
        found.into_iter().next()
    }

    fn block_from(&mut self, segment: u32, from: u32, head: Head, least: u64) -> Option<FoundBlock> {
        if from == 0 {
            self.seen.push(segment);
        }
        let pages = self.medium.geometry().pages_per_segment;
        (from..pages).find_map(|index| self.block(segment, index, Some(head), least))
    }

    /// Notes what stands where the log would go on.
    fn note_end(&mut self, (segment, index): (u32, u32)) {
        let at = self.medium.geometry().page(segment, index);
        let (volume, epoch) = (self.anchor.volume, self.anchor.epoch);
        match self.page(at) {
            Ok(page) => self.torn += u64::from(was_block(page, volume, epoch, at)),
            // Flash that was torn cannot be read either: that is no news.
            Err(error @ VolumeError::Device(_)) => self.unreadable = Some(error.clone()),
            Err(_) => {}
        }
    }

    /// Adds the blocks of segments that were not looked through, and that were free at the anchor: damage hides that the log went on there.
    pub fn read_hidden(&mut self, segments: &mut Segments, blocks: &mut Vec<FoundBlock>) {
        let geometry = self.medium.geometry();
        for segment in self.medium.anchor_segments()..geometry.segments {
            if self.anchor.units[segment as usize] > 0 || self.seen.contains(&segment) {
                continue;
            }
            let (mut index, before) = (0, blocks.len());
            while index < geometry.pages_per_segment {
                match self.block(segment, index, None, self.anchor.sequence) {
                    Some(found) => {
                        index += 1 + found.block().pages() as u32;
                        blocks.push(found);
                    }
                    None => index += 1,
                }
            }
            if let Some(newest) = blocks[before..].iter().map(|found| found.sequence).max() {
                segments.open(segment);
                segments.seal(segment, newest);
            }
        }
    }

    /// The block at a place, if there is one of this opening of the volume, and of the head, that is at least so far on.
    fn block(&mut self, segment: u32, index: u32, head: Option<Head>, least: u64) -> Option<FoundBlock> {
        let geometry = self.medium.geometry();
        let at = geometry.page(segment, index);
        let page = self.page(at).ok()?;
        let block = Block::decode(page)?;
        let (header, pages) = (block.header(), block.pages());
        let mut bytes = AlignedBuffer::new(PAGE_BYTES);
        bytes.copy_from_slice(page);
        let its_head = if header.kind == Kind::Move { Head::Moves } else { Head::Changes };
        let is_here = header.at == at && header.volume == self.anchor.volume;
        self.has_later_epoch |= is_here && header.epoch > self.anchor.epoch && header.kind == Kind::Commit;
        let is_of_log = is_here
            && header.epoch == self.anchor.epoch
            && header.sequence >= least
            && head.is_none_or(|head| head == its_head)
            && header.next_segment < geometry.segments
            && index as usize + 1 + pages <= geometry.pages_per_segment as usize;
        if !is_of_log {
            return None;
        }
        let mut found = FoundBlock { sequence: header.sequence, is_whole: true, bytes };
        let is_as_named = |(tag, index): (crate::block::Tag, u32)| {
            self.page(geometry.page(segment, index)).is_ok_and(|page| crc_of(page) == tag.crc)
        };
        let is_whole = found.block().tags().zip(index + 1..).all(is_as_named);
        found.is_whole = is_whole;
        Some(found)
    }

    /// A page of the medium.
    fn page(&mut self, at: Physical) -> Result<&PageBytes, &VolumeError> {
        let is_in_window = |first: Physical, pages: usize| at >= first && ((at.0 - first.0) as usize) < pages;
        if !is_in_window(self.first, self.outcomes.len()) {
            self.read_window(at);
        }
        let nth = (at.0 - self.first.0) as usize;
        self.outcomes[nth].as_ref()?;
        Ok(self.window[nth * PAGE_BYTES..][..PAGE_BYTES].try_into().expect("a page"))
    }

    /// Reads a page and those behind it in its segment: at once, or if that fails one by one.
    fn read_window(&mut self, at: Physical) {
        let geometry = self.medium.geometry();
        let (segment, index) = geometry.split(at);
        let pages = (geometry.pages_per_segment - index).min(WINDOW_PAGES);
        self.first = at;
        let window = &mut self.window[..pages as usize * PAGE_BYTES];
        self.outcomes = match self.medium.read_run(at, window) {
            Ok(()) => vec![Ok(()); pages as usize],
            Err(_) => {
                let each = window.chunks_exact_mut(PAGE_BYTES).zip(index..);
                each.map(|(page, index)| self.medium.read_run(geometry.page(segment, index), page)).collect()
            }
        };
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
            durable: 10,
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
        Reader::new(&medium, &anchor).block(6, 3, Some(Head::Changes), 20).is_some()
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
