//! The ends of the log, where transactions are appended.

use aquifer_device::AlignedBuffer;

use crate::anchor::{Anchor, Anchors, HeadPosition};
use crate::block::{BLOCK_PAGES_MAX, BlockBuilder, Header, Kind, Patch, Tag, Trim};
use crate::displaced::Displaced;
use crate::error::{Result, VolumeError};
use crate::key::PageKey;
use crate::medium::{Beside, Medium};
use crate::segments::Segments;
use crate::table::Root;
use crate::word::{PAGE_BYTES, PageBytes, Physical, crc_of};

/// A head of the log. What is moved is kept apart from what changes, because it will change less (Rosenblum and Ousterhout, 1992).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    /// Changes of files, and nodes.
    Changes = 0,
    /// Pages that the cleaner moved.
    Moves = 1,
}

/// Appends to the log. A volume has one, behind a lock.
pub struct Writer {
    volume: u64,
    made_at: u64,
    epoch: u32,
    /// Of the next block.
    sequence: u64,
    /// Of the first block after the last anchor.
    anchored: u64,
    /// All blocks before this sequence are durable.
    durable: u64,
    /// What the last block or anchor said of that.
    said: u64,
    anchor_number: u64,
    anchors: Anchors,
    /// What is known of each segment.
    pub segments: Segments,
    heads: [HeadPosition; 2],
    pages_since_anchor: u64,
    open: Option<Open>,
    /// Blocks of the transaction that is open.
    displaced: Displaced,
    block: BlockBuilder,
    bytes: AlignedBuffer,
    beside: Vec<Beside>,
    /// For who reads a segment whole.
    segment_bytes: Option<AlignedBuffer>,
}

/// A transaction that is being written.
#[derive(Clone, Copy)]
struct Open {
    kind: Kind,
    head: Head,
    first_sequence: u64,
}

/// What a writer goes on from.
pub struct Start {
    /// The last anchor.
    pub anchor: Anchor,
    /// Where the next goes.
    pub anchors: Anchors,
    /// What is known of each segment; those of the heads are open.
    pub segments: Segments,
    /// Sequence of the next block.
    pub sequence: u64,
}

impl Writer {
    /// A writer that goes on where another ended. Its first anchor says that it is another.
    #[must_use]
    pub fn new(start: Start) -> Self {
        let Start { anchor, anchors, segments, sequence } = start;
        Writer {
            volume: anchor.volume,
            made_at: anchor.made_at,
            epoch: anchor.epoch,
            sequence,
            anchored: anchor.sequence,
            durable: anchor.sequence,
            said: anchor.sequence,
            anchor_number: anchor.number,
            anchors,
            segments,
            heads: anchor.heads,
            pages_since_anchor: 0,
            open: None,
            displaced: Displaced::default(),
            block: BlockBuilder::default(),
            bytes: AlignedBuffer::new((1 + BLOCK_PAGES_MAX) * PAGE_BYTES),
            beside: Vec::with_capacity(1 + BLOCK_PAGES_MAX),
            segment_bytes: None,
        }
    }

    /// Room for the bytes of a segment, which hold anything: an allocator would clear it for each segment that is cleaned.
    pub fn take_segment_bytes(&mut self) -> AlignedBuffer {
        let pages = self.segments.pages_per_segment() as usize;
        self.segment_bytes.take().unwrap_or_else(|| AlignedBuffer::new(pages * PAGE_BYTES))
    }

    /// Keeps that room for the next segment.
    pub fn keep_segment_bytes(&mut self, bytes: AlignedBuffer) {
        self.segment_bytes = Some(bytes);
    }

    /// Pages written since the last anchor.
    #[must_use]
    pub fn pages_since_anchor(&self) -> u64 {
        self.pages_since_anchor
    }

    /// Sequence of the next block.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Sequence of the last block before the last anchor.
    #[must_use]
    pub fn anchored(&self) -> u64 {
        self.anchored
    }

    /// Pages that are left in the segments that are written.
    #[must_use]
    pub fn pages_left(&self) -> u64 {
        self.pages_left_in(Head::Changes) + self.pages_left_in(Head::Moves)
    }

    /// Pages that are left in the segment in which a head is.
    #[must_use]
    pub fn pages_left_in(&self, head: Head) -> u64 {
        self.segments.pages_per_segment().saturating_sub(self.heads[head as usize].index).into()
    }

    /// Segments that appending `pages` pages may take.
    #[must_use]
    pub fn segments_for(pages: u64, pages_per_segment: u32) -> u64 {
        // A block for each 168 pages, and a segment may be left with a page that is too few.
        let whole = pages + pages / 100 + 2;
        whole.div_ceil(u64::from(pages_per_segment).saturating_sub(2).max(1)) + 1
    }

    /// Begins a transaction.
    pub fn begin(&mut self, kind: Kind, head: Head) {
        debug_assert!(self.open.is_none() && self.block.is_empty());
        self.open = Some(Open { kind, head, first_sequence: self.sequence });
    }

    fn opened(&self) -> Open {
        self.open.expect("a transaction was begun")
    }

    fn position(&self) -> HeadPosition {
        self.heads[self.opened().head as usize]
    }

    /// Adds a page; says where it will be once the block is written, if that is not displaced.
    ///
    /// # Errors
    /// The medium's, and [`VolumeError::NoSpace`].
    pub fn add_page(
        &mut self,
        medium: &dyn Medium,
        key: PageKey,
        bytes: &PageBytes,
        crc: u32,
    ) -> Result<Physical> {
        let capacity = medium.geometry().pages_per_segment;
        if self.position().index + 1 + self.block.pages() as u32 >= capacity {
            self.write_block(medium, false)?;
        }
        while !self.block.add_page(Tag { key, crc }) {
            self.write_block(medium, false)?;
        }
        let nth = self.block.pages();
        self.bytes[nth * PAGE_BYTES..(nth + 1) * PAGE_BYTES].copy_from_slice(bytes);
        self.beside.push(Beside { key: Some(key), crc, sequence: self.sequence });
        let position = self.position();
        Ok(self.segments.page(position.segment, position.index + nth as u32))
    }

    /// Adds a patch; says in which block it will be, if that is not displaced.
    ///
    /// # Errors
    /// As [`Writer::add_page`].
    pub fn add_patch(&mut self, medium: &dyn Medium, patch: &Patch<'_>) -> Result<Physical> {
        while !self.block.add_patch(patch) {
            self.write_block(medium, false)?;
        }
        let position = self.position();
        Ok(self.segments.page(position.segment, position.index))
    }

    /// Adds a trim.
    ///
    /// # Errors
    /// As [`Writer::add_page`].
    pub fn add_trim(&mut self, medium: &dyn Medium, trim: Trim) -> Result<()> {
        while !self.block.add_trim(trim) {
            self.write_block(medium, false)?;
        }
        Ok(())
    }

    /// Ends the transaction, and says what of it is not where it was said to be. Nothing of it is durable before [`Medium::sync`].
    ///
    /// # Errors
    /// As [`Writer::add_page`].
    pub fn end(&mut self, medium: &dyn Medium) -> Result<Displaced> {
        let is_nothing = self.block.is_empty() && self.opened().first_sequence == self.sequence;
        if !is_nothing {
            self.write_block(medium, true)?;
        }
        self.open = None;
        Ok(std::mem::take(&mut self.displaced))
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// The medium's.
    pub fn sync(&mut self, medium: &dyn Medium) -> Result<()> {
        medium.sync()?;
        self.durable = self.sequence;
        Ok(())
    }

    /// Whether the log itself does not say yet that its last block is durable. The next block will, or [`Writer::note_durable`].
    #[must_use]
    pub fn is_durable_unsaid(&self) -> bool {
        self.durable == self.sequence && self.said < self.durable
    }

    /// Writes a block that says up to where the log is durable: if the last block cannot be read after a crash, it is known to be damaged, and not taken
    /// for one that was torn. For a log that rests.
    ///
    /// # Errors
    /// As [`Writer::add_page`].
    pub fn note_durable(&mut self, medium: &dyn Medium) -> Result<()> {
        self.begin(Kind::Commit, Head::Changes);
        self.write_block(medium, true)?;
        self.open = None;
        Ok(())
    }

    /// Writes the block. A segment that fails meanwhile is left, and the block is written to the next.
    fn write_block(&mut self, medium: &dyn Medium, is_last: bool) -> Result<()> {
        let head = self.opened().head;
        let pages = 1 + self.block.pages();
        self.beside.insert(0, Beside { key: None, crc: 0, sequence: self.sequence });
        while let Err(error) = self.append_block(medium, is_last) {
            let failed = self.position();
            if !medium.is_bad(failed.segment) {
                return Err(error);
            }
            self.segments.note_bad(failed.segment);
            self.next_segment(medium, head)?;
            let from = self.segments.page(failed.segment, failed.index);
            let to = self.segments.page(self.position().segment, self.position().index);
            self.displaced.add(from, pages as u32, to);
        }
        self.block.clear(self.opened().kind);
        self.beside.clear();
        self.sequence += 1;
        self.said = self.durable;
        self.pages_since_anchor += pages as u64;
        self.heads[head as usize].index += pages as u32;
        if is_full(self.position(), medium.geometry().pages_per_segment) {
            self.next_segment(medium, head)?;
        }
        Ok(())
    }

    fn append_block(&mut self, medium: &dyn Medium, is_last: bool) -> Result<()> {
        let (open, position) = (self.opened(), self.position());
        let header = Header {
            volume: self.volume,
            sequence: self.sequence,
            epoch: self.epoch,
            at: self.segments.page(position.segment, position.index),
            next_segment: position.next,
            kind: open.kind,
            is_last,
            first_sequence: open.first_sequence,
            durable: self.durable,
        };
        let first: &mut PageBytes = (&mut self.bytes[..PAGE_BYTES]).try_into().expect("a page");
        self.block.encode(&header, first);
        self.beside[0].crc = crc_of(first);
        medium.append(header.at, &self.bytes[..self.beside.len() * PAGE_BYTES], &self.beside)
    }

    /// Makes a head go on with the first page of a segment. Nothing may be written by it before an anchor says so: the log does not.
    ///
    /// # Errors
    /// As [`Writer::add_page`].
    pub fn leave_segment(&mut self, medium: &dyn Medium, head: Head) -> Result<()> {
        match self.heads[head as usize].index {
            0 => Ok(()),
            _ => self.next_segment(medium, head),
        }
    }

    fn next_segment(&mut self, medium: &dyn Medium, head: Head) -> Result<()> {
        let next = self.reserve(medium)?;
        let position = &mut self.heads[head as usize];
        self.segments.seal(position.segment, self.sequence - 1);
        *position = HeadPosition { segment: position.next, index: 0, next };
        Ok(())
    }

    /// A segment that can be written from its first page.
    fn reserve(&mut self, medium: &dyn Medium) -> Result<u32> {
        loop {
            let segment = self.segments.take_free(medium).ok_or(VolumeError::NoSpace)?;
            if self.prepare(medium, segment)? {
                return Ok(segment);
            }
        }
    }

    /// Erases a free segment, so that one that cannot be erased any more counts as room no longer.
    ///
    /// # Errors
    /// The medium's.
    pub fn make_ready(&mut self, medium: &dyn Medium, segment: u32) -> Result<()> {
        medium.discard(segment)?;
        self.prepare(medium, segment).map(drop)
    }

    /// Makes a segment writable, or retires it if it has failed; says which.
    fn prepare(&mut self, medium: &dyn Medium, segment: u32) -> Result<bool> {
        let outcome = if medium.is_bad(segment) { Ok(()) } else { medium.prepare(segment) };
        if medium.is_bad(segment) {
            self.segments.retire(segment);
            return Ok(false);
        }
        outcome.map(|()| true)
    }

    /// Gives each head of a new volume its segments.
    ///
    /// # Errors
    /// As [`Writer::add_page`].
    pub fn make_heads(&mut self, medium: &dyn Medium) -> Result<()> {
        for head in [0, 1] {
            let (segment, next) = (self.reserve(medium)?, self.reserve(medium)?);
            self.heads[head] = HeadPosition { segment, index: 0, next };
        }
        Ok(())
    }

    /// Goes on in the segments after those in which the heads were found, where something may have been torn.
    ///
    /// # Errors
    /// As [`Writer::add_page`].
    pub fn renew_heads(&mut self, medium: &dyn Medium, found: [HeadPosition; 2]) -> Result<()> {
        for (head, found) in found.into_iter().enumerate() {
            self.segments.seal(found.segment, 0);
            let segment = match self.prepare(medium, found.next)? {
                true => found.next,
                false => self.reserve(medium)?,
            };
            self.heads[head] = HeadPosition { segment, index: 0, next: self.reserve(medium)? };
        }
        Ok(())
    }

    /// Says that all blocks from now on belong to another opening of the volume.
    pub fn renew_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Writes an anchor: from now on the log before it is not read again. All that was written must be durable already. Returns the segments
    /// that are free now.
    ///
    /// # Errors
    /// The medium's.
    pub fn write_anchor(&mut self, medium: &dyn Medium, top: Root, is_clean: bool) -> Result<Vec<u32>> {
        let anchor = Anchor {
            volume: self.volume,
            number: self.anchor_number + 1,
            sequence: self.sequence,
            epoch: self.epoch,
            geometry: medium.geometry(),
            root: top.word,
            root_height: top.height,
            is_clean,
            made_at: self.made_at,
            heads: self.heads,
            units: self.segments.units().to_vec(),
        };
        self.anchors.write(medium, &anchor)?;
        (self.anchor_number, self.anchored, self.pages_since_anchor) = (anchor.number, anchor.sequence, 0);
        (self.durable, self.said) = (anchor.sequence, anchor.sequence);
        Ok(self.segments.free_empty())
    }
}

/// Whether a head must go on in its next segment: a block and a page do not fit any more.
#[must_use]
pub fn is_full(head: HeadPosition, pages_per_segment: u32) -> bool {
    head.index + 2 > pages_per_segment
}
