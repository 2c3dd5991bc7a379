//! The cleaner: copies what is still needed out of segments, so that they can be written again.
//!
//! A block of the log says whose the pages behind it are; the table says whether they still are. Pages whose patch or base would go become whole
//! again. What was moved counts at once; the segment is free once an anchor no longer knows it. What cannot be read stays where it is, and keeps its segment.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use crate::block::{Block, Kind, Patch};
use crate::core::Core;
use crate::error::{Result, if_readable};
use crate::key::PageKey;
use crate::word::{PAGE_BYTES, PAGE_UNITS, PageBytes, Physical, Place, Word, check_of, crc_of};
use crate::writer::{Head, Writer};

/// Segments that are cleaned for one checkpoint.
const SEGMENTS_PER_CHECKPOINT: u32 = 4;

/// The cleaner gives up after this number of rounds, each with a checkpoint, that gained no page.
const ROUNDS_WITHOUT_GAIN: u32 = 8;

/// Free segments that the cleaner leaves: a checkpoint may take one, and opening the volume after a crash
/// needs two.
pub(crate) const SEGMENTS_FOR_RECOVERY: u32 = 3;

/// Free segments without which nothing is cleaned: a checkpoint may take one, and another one may fail on raw flash.
const SEGMENTS_TO_FAIL: u32 = 1;

/// Units of a segment that fill at least one page of the log when they are moved: a page is 16, two long patches are 12.
const UNITS_PER_PAGE_MIN: u32 = 12;

/// What was copied out of a segment, in the order of the log.
#[derive(Default)]
struct Moved {
    places: Vec<(PageKey, Word)>,
    keys: HashSet<PageKey>,
}

impl Moved {
    fn add(&mut self, key: PageKey, place: Place) {
        self.places.push((key, Word::of(place)));
        self.keys.insert(key);
    }
}

/// Whether what is needed of a segment can be moved while few segments are free: it must fit in what is left of the segment that the head is in.
fn fits(writer: &Writer, victim: u32) -> bool {
    let pages = u64::from(writer.segments.units()[victim as usize] / UNITS_PER_PAGE_MIN) + 3;
    writer.segments.free() > SEGMENTS_TO_FAIL && pages < writer.pages_left_in(Head::Moves)
}

impl Core {
    /// Cleans until `free` segments are free, or no cleaning gains one.
    ///
    /// # Errors
    /// What stops a volume.
    pub(crate) fn clean_until(&self, writer: &mut Writer, free: u32) -> Result<()> {
        self.clean_while(writer, free, |writer, _| writer.segments.free() > SEGMENTS_FOR_RECOVERY)
    }

    /// Cleans until [`Core::clean_until`] can: opening has taken two segments, and left two behind of which little may be needed.
    ///
    /// # Errors
    /// What stops a volume.
    pub(crate) fn clean_after_opening(&self, writer: &mut Writer) -> Result<()> {
        let is_possible =
            |writer: &Writer, victim| writer.segments.free() > SEGMENTS_FOR_RECOVERY || fits(writer, victim);
        self.clean_while(writer, SEGMENTS_FOR_RECOVERY + 1, is_possible)
    }

    fn clean_while(
        &self,
        writer: &mut Writer,
        free: u32,
        is_possible: impl Fn(&Writer, u32) -> bool,
    ) -> Result<()> {
        let (mut most, mut rounds_without_gain) = (self.room(writer), 0);
        while writer.segments.free() < free && rounds_without_gain < ROUNDS_WITHOUT_GAIN {
            if writer.segments.empty() == 0 {
                let mut cleaned = 0;
                while cleaned < SEGMENTS_PER_CHECKPOINT {
                    let Some(victim) = self.victim(writer) else { break };
                    if !is_possible(writer, victim) {
                        break;
                    }
                    self.clean(writer, victim)?;
                    cleaned += 1;
                }
                if cleaned == 0 && writer.pages_since_anchor() == 0 {
                    return Ok(());
                }
            }
            self.checkpoint(writer, false)?;
            let room = self.room(writer);
            rounds_without_gain = if room > most { 0 } else { rounds_without_gain + 1 };
            most = most.max(room);
        }
        Ok(())
    }

    /// Pages that can be written: in free segments, and in what is left of those that are open.
    fn room(&self, writer: &Writer) -> u64 {
        let per_segment = u64::from(self.flash.medium().geometry().pages_per_segment);
        u64::from(writer.segments.free()) * per_segment + writer.pages_left()
    }

    /// The segment that gives most for the least work: greedy, which is right for a log whose survivors have a head of their own.
    fn victim(&self, writer: &Writer) -> Option<u32> {
        let per_segment = self.flash.medium().geometry().pages_per_segment * PAGE_UNITS;
        let units = writer.segments.units();
        writer
            .segments
            .sealed(writer.anchored())
            .filter(|&segment| !writer.segments.is_stuck(segment))
            .min_by_key(|&segment| units[segment as usize])
            .filter(|&segment| units[segment as usize] < per_segment / 100 * 97)
    }

    /// Moves what is needed out of a segment.
    ///
    /// # Errors
    /// What stops a volume.
    pub(crate) fn clean(&self, writer: &mut Writer, segment: u32) -> Result<()> {
        let outcome = self.move_out_of(writer, segment);
        if let Err(error) = &outcome {
            self.stop(error);
        }
        outcome
    }

    fn move_out_of(&self, writer: &mut Writer, segment: u32) -> Result<()> {
        let medium = self.flash.medium();
        let pages = medium.geometry().pages_per_segment;
        let mut bytes = writer.take_segment_bytes();
        let is_readable = medium.read_readable(medium.geometry().page(segment, 0), &mut bytes);
        let page = |index: u32| -> Option<&PageBytes> {
            let page: &PageBytes =
                bytes[index as usize * PAGE_BYTES..][..PAGE_BYTES].try_into().expect("a page");
            is_readable[index as usize].then_some(page)
        };
        writer.begin(Kind::Move, Head::Moves);
        let mut moved = Moved::default();
        let mut index = 0;
        while index < pages {
            let at = medium.geometry().page(segment, index);
            let block = page(index).and_then(Block::decode).filter(|block| block.header().at == at);
            let Some(block) = block else {
                index += 1;
                continue;
            };
            for (tag, number) in block.tags().zip(index + 1..pages) {
                let here = medium.geometry().page(segment, number);
                if let Some(bytes) = page(number) {
                    self.move_page(writer, tag.key, here, bytes, &mut moved)?;
                }
            }
            for patch in block.patches() {
                self.move_patch(writer, &patch, at, &mut moved)?;
            }
            index += 1 + block.pages() as u32;
        }
        writer.keep_segment_bytes(bytes);
        let displaced = writer.end(medium)?;
        self.work.segments_cleaned.fetch_add(1, Ordering::Relaxed);
        self.work.pages_moved.fetch_add(moved.places.len() as u64, Ordering::Relaxed);
        for (key, word) in moved.places {
            self.point(&mut writer.segments, key, displaced.word(word))?;
        }
        if writer.segments.units()[segment as usize] > 0 {
            // What cannot be read, and pages behind a block that cannot. Those are still read by who knows them.
            writer.segments.note_stuck(segment);
        }
        Ok(())
    }

    /// Where a page is; `None` if the table cannot be read there.
    fn current(&self, key: PageKey) -> Result<Option<Place>> {
        let word = if key.is_node() {
            self.table.node_word(&self.flash, key)
        } else {
            self.table.get(&self.flash, key.ino(), key.index())
        };
        Ok(if_readable(word)?.and_then(Word::place))
    }

    fn move_page(
        &self,
        writer: &mut Writer,
        key: PageKey,
        here: Physical,
        bytes: &PageBytes,
        moved: &mut Moved,
    ) -> Result<()> {
        let medium = self.flash.medium();
        match self.current(key)? {
            Some(Place::Page { at, check }) if at == here => {
                let crc = crc_of(bytes);
                if check_of(crc) == check {
                    let at = writer.add_page(medium, key, bytes, crc)?;
                    moved.add(key, Place::Page { at, check });
                }
            }
            Some(place @ Place::Patched { base, .. }) if base == here => {
                let mut whole = [0; PAGE_BYTES];
                if if_readable(self.flash.read(key, Word::of(place), &mut whole))?.is_some() {
                    let crc = crc_of(&whole);
                    let at = writer.add_page(medium, key, &whole, crc)?;
                    moved.add(key, Place::Page { at, check: check_of(crc) });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn move_patch(
        &self,
        writer: &mut Writer,
        patch: &Patch<'_>,
        here: Physical,
        moved: &mut Moved,
    ) -> Result<()> {
        if moved.keys.contains(&patch.key) {
            return Ok(());
        }
        match self.current(patch.key)? {
            Some(Place::Patched { base, block, .. }) if block == here && base == patch.base => {
                let block = writer.add_patch(self.flash.medium(), patch)?;
                moved.add(patch.key, patch.place_in(block));
            }
            _ => {}
        }
        Ok(())
    }
}
