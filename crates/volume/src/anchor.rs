//! Where everything begins: the superblock, written anew by each checkpoint.
//!
//! The first segments hold anchors, one after the other; when one is full, the next is erased and taken. There are two, on raw flash four, so that some
//! may fail. The newest whole anchor counts, and its segment is never erased. On a device each stands twice, so that a bad sector costs one copy:
//! the anchor before would not know what was changed since the volume was opened last.
//!
//! ```text
//! 0 magic "AQUIFERV" | 8 crc u32 of the rest | 12 version u32 | 16 volume u64 | 24 number u64 | 32 sequence u64
//! 40 epoch u32 | 44 segments u32 | 48 pages of a segment u32 | 52 pages of this anchor u32
//! 56 root word u64 | 64 root height u32 | 68 is_clean u32 | 72 made at u64 | 80 two heads: segment, page, next u32 each | 104 zeros
//! 256 units u32 of each segment
//! ```

use crate::block::{PATCH_HEADER_BYTES, SEQUENCE_END};
use crate::error::{Result, VolumeError};
use crate::medium::{ANCHOR_SEGMENTS_MIN, Beside, Geometry, Medium};
use crate::word::{PAGE_BYTES, PageBytes, Word, crc_of};
use aquifer_device::AlignedBuffer;

/// The version that this program writes. It reads version 1 as well, which knew no echo in blocks; a volume of version 1 that is opened to write becomes one of version 2.
pub const VERSION: u32 = 2;
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=VERSION;
const MAGIC: [u8; 8] = *b"AQUIFERV";
const UNITS_AT: usize = 256;
const CHECKED_FROM: usize = 12;

/// Where a head of the log goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeadPosition {
    /// The segment that is written.
    pub segment: u32,
    /// Its next page.
    pub index: u32,
    /// The segment after it.
    pub next: u32,
}

/// What an anchor says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// Number of the volume, chosen at random.
    pub volume: u64,
    /// Grows with each anchor.
    pub number: u64,
    /// Sequence of the first block after it.
    pub sequence: u64,
    /// Which opening of the volume wrote it.
    pub epoch: u32,
    /// How the medium is divided.
    pub geometry: Geometry,
    /// The word of the root of all roots.
    pub root: Word,
    /// Levels below that root.
    pub root_height: u32,
    /// Whether nothing was written after it.
    pub is_clean: bool,
    /// When the volume was made, in seconds since 1970.
    pub made_at: u64,
    /// Where the log goes on: changes, and pages that were moved.
    pub heads: [HeadPosition; 2],
    /// What is needed of each segment.
    pub units: Vec<u32>,
}

impl Anchor {
    /// Pages that the anchor of a volume takes.
    #[must_use]
    pub fn pages(geometry: Geometry) -> u32 {
        (UNITS_AT + geometry.segments as usize * 4).div_ceil(PAGE_BYTES) as u32
    }

    /// As it goes to flash, with `copies` copies behind each other.
    #[must_use]
    pub fn encode_times(&self, copies: u32) -> AlignedBuffer {
        let one = self.encode();
        let mut all = AlignedBuffer::new(one.len() * copies as usize);
        all.chunks_exact_mut(one.len()).for_each(|copy| copy.copy_from_slice(&one));
        all
    }

    /// As it goes to flash.
    #[must_use]
    pub fn encode(&self) -> AlignedBuffer {
        let pages = Self::pages(self.geometry);
        let mut bytes = AlignedBuffer::new(pages as usize * PAGE_BYTES);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        put(12, &VERSION.to_le_bytes());
        put(16, &self.volume.to_le_bytes());
        put(24, &self.number.to_le_bytes());
        put(32, &self.sequence.to_le_bytes());
        put(40, &self.epoch.to_le_bytes());
        put(44, &self.geometry.segments.to_le_bytes());
        put(48, &self.geometry.pages_per_segment.to_le_bytes());
        put(52, &pages.to_le_bytes());
        put(56, &self.root.bits().to_le_bytes());
        put(64, &self.root_height.to_le_bytes());
        put(68, &u32::from(self.is_clean).to_le_bytes());
        put(72, &self.made_at.to_le_bytes());
        for (nth, head) in self.heads.iter().enumerate() {
            put(80 + 12 * nth, &head.segment.to_le_bytes());
            put(84 + 12 * nth, &head.index.to_le_bytes());
            put(88 + 12 * nth, &head.next.to_le_bytes());
        }
        for (segment, units) in self.units.iter().enumerate() {
            put(UNITS_AT + 4 * segment, &units.to_le_bytes());
        }
        let crc = crc_of(&bytes[CHECKED_FROM..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads one; `bytes` begin with it and may go on behind it.
    ///
    /// # Errors
    /// [`VolumeError::NotAVolume`], [`VolumeError::OtherVersion`], [`VolumeError::Corrupt`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let geometry = Self::geometry_in(bytes)?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let pages = Self::pages(geometry);
        let corrupt = |what: &str| VolumeError::Corrupt(format!("an anchor {what}"));
        let whole = bytes.get(..pages as usize * PAGE_BYTES).ok_or_else(|| corrupt("is cut off"))?;
        if u32_at(8) != crc_of(&whole[CHECKED_FROM..]) {
            return Err(corrupt("has another checksum than its bytes"));
        }
        let head = |nth: usize| HeadPosition {
            segment: u32_at(80 + 12 * nth),
            index: u32_at(84 + 12 * nth),
            next: u32_at(88 + 12 * nth),
        };
        let anchor = Anchor {
            volume: u64_at(16),
            number: u64_at(24),
            sequence: u64_at(32),
            epoch: u32_at(40),
            geometry,
            root: Word::from_bits(u64_at(56)),
            root_height: u32_at(64),
            is_clean: u32_at(68) != 0,
            made_at: u64_at(72),
            heads: [head(0), head(1)],
            units: (0..geometry.segments as usize).map(|segment| u32_at(UNITS_AT + 4 * segment)).collect(),
        };
        let heads_fit = anchor.heads.iter().all(|head| {
            let range = ANCHOR_SEGMENTS_MIN..geometry.segments;
            range.contains(&head.segment)
                && range.contains(&head.next)
                && head.index <= geometry.pages_per_segment
        });
        let numbers_fit = anchor.number.max(anchor.sequence) < SEQUENCE_END && anchor.epoch < u32::MAX;
        // Most of all short patches: one counts as little as a unit, and a block has room for many.
        let units_max = u64::from(geometry.pages_per_segment) * (PAGE_BYTES / PATCH_HEADER_BYTES) as u64;
        if !numbers_fit || anchor.units.iter().any(|&units| u64::from(units) > units_max) {
            return Err(corrupt("says numbers that cannot be"));
        }
        if !heads_fit || anchor.root_height > crate::PageKey::LEVEL_MAX || anchor.root.place().is_none() {
            return Err(corrupt("names places that do not exist"));
        }
        Ok(anchor)
    }

    /// How a medium is divided, by the first page of an anchor.
    ///
    /// # Errors
    /// As [`Anchor::decode`].
    pub fn geometry_in(bytes: &[u8]) -> Result<Geometry> {
        if bytes.len() < PAGE_BYTES || bytes[..8] != MAGIC {
            return Err(VolumeError::NotAVolume("it does not begin as one".into()));
        }
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if !VERSIONS.contains(&u32_at(12)) {
            return Err(VolumeError::OtherVersion { found: u32_at(12), known: VERSION });
        }
        let geometry = Geometry { segments: u32_at(44), pages_per_segment: u32_at(48) };
        let fits = geometry.segments >= SEGMENTS_MIN
            && (PAGES_PER_SEGMENT_MIN..=PAGES_PER_SEGMENT_MAX).contains(&geometry.pages_per_segment)
            && geometry.pages() <= crate::word::Physical::END
            && Self::pages(geometry) <= geometry.pages_per_segment
            && u32_at(52) == Self::pages(geometry);
        if fits {
            Ok(geometry)
        } else {
            Err(VolumeError::Corrupt("an anchor says sizes that cannot be".into()))
        }
    }
}

/// Fewer segments leave no room for files.
pub const SEGMENTS_MIN: u32 = 16;
/// Smallest segment.
pub const PAGES_PER_SEGMENT_MIN: u32 = 8;
/// Largest segment: 64 MiB.
pub const PAGES_PER_SEGMENT_MAX: u32 = 16384;

/// The segments that hold anchors, and where the next goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anchors {
    segment: u32,
    index: u32,
    /// Where the newest is.
    newest: Option<u32>,
}

impl Anchors {
    /// Those of a medium that holds no volume any more, and the highest number of an anchor that cannot be taken away.
    ///
    /// # Errors
    /// The medium's.
    pub fn new(medium: &dyn Medium) -> Result<(Self, u64)> {
        let mut good = Vec::new();
        for segment in 0..medium.anchor_segments() {
            if is_prepared(medium, segment)? {
                medium.wipe(segment)?;
                good.push(segment);
            }
        }
        if good.len() < ANCHOR_SEGMENTS_MIN as usize {
            return Err(VolumeError::Invalid(
                "the first segments of the flash are bad; a volume needs two of them",
            ));
        }
        let number = if good.len() == medium.anchor_segments() as usize {
            0
        } else {
            Self::find(medium).map_or(0, |(_, anchor)| anchor.number)
        };
        Ok((Anchors { segment: good[0], index: 0, newest: None }, number))
    }

    /// The newest anchor of a medium, and where the next goes.
    ///
    /// # Errors
    /// [`VolumeError`] if there is no whole one.
    pub fn find(medium: &dyn Medium) -> Result<(Self, Anchor)> {
        let geometry = medium.geometry();
        let pages = geometry.pages_per_segment;
        let mut newest: Option<(Self, Anchor)> = None;
        let mut problem = VolumeError::NotAVolume("it has no anchor".into());
        let mut segment_bytes = AlignedBuffer::new(pages as usize * PAGE_BYTES);
        for segment in 0..medium.anchor_segments() {
            let is_readable = medium.read_readable(geometry.page(segment, 0), &mut segment_bytes);
            // An anchor of several pages that is readable in part has another checksum.
            let unreadable = segment_bytes.chunks_exact_mut(PAGE_BYTES).zip(&is_readable);
            unreadable.filter(|(_, is_readable)| !**is_readable).for_each(|(page, _)| page.fill(0));
            for index in 0..pages {
                match Anchor::decode(&segment_bytes[index as usize * PAGE_BYTES..]) {
                    Ok(anchor) if anchor.geometry != geometry => {
                        problem = VolumeError::Corrupt(format!(
                            "the medium has {} segments of {} pages, its anchor says {} of {}",
                            geometry.segments,
                            pages,
                            anchor.geometry.segments,
                            anchor.geometry.pages_per_segment
                        ));
                    }
                    Ok(anchor) if newest.as_ref().is_none_or(|(_, best)| best.number < anchor.number) => {
                        newest = Some((Anchors { segment, index: pages, newest: Some(segment) }, anchor));
                    }
                    Ok(_) | Err(VolumeError::NotAVolume(_)) => {}
                    Err(error) => problem = error,
                }
            }
        }
        newest.ok_or(problem)
    }

    /// Writes an anchor and makes it durable.
    ///
    /// # Errors
    /// The medium's, and [`VolumeError::NoSpace`] if only the segment of the newest anchor is left. The anchor before still counts then.
    pub fn write(&mut self, medium: &dyn Medium, anchor: &Anchor) -> Result<()> {
        let geometry = medium.geometry();
        let fit = geometry.pages_per_segment / Anchor::pages(geometry);
        let copies = medium.anchor_copies().min(fit);
        let pages = Anchor::pages(geometry) * copies;
        let bytes = anchor.encode_times(copies);
        let beside: Vec<Beside> = bytes
            .chunks_exact(PAGE_BYTES)
            .map(|page| Beside { key: None, crc: crc_of(page), sequence: anchor.sequence })
            .collect();
        loop {
            if self.index + pages > geometry.pages_per_segment {
                self.turn(medium)?;
            }
            match medium.append(geometry.page(self.segment, self.index), &bytes, &beside) {
                Ok(()) => break,
                Err(_) if medium.is_bad(self.segment) => self.index = geometry.pages_per_segment,
                Err(error) => return Err(error),
            }
        }
        self.index += pages;
        medium.sync()?;
        self.newest = Some(self.segment);
        Ok(())
    }

    /// Goes on in the next segment that can be written.
    fn turn(&mut self, medium: &dyn Medium) -> Result<()> {
        let count = medium.anchor_segments();
        for segment in (1..count).map(|step| (self.segment + step) % count) {
            if self.newest != Some(segment) && is_prepared(medium, segment)? {
                (self.segment, self.index) = (segment, 0);
                return Ok(());
            }
        }
        Err(VolumeError::NoSpace)
    }
}

/// Makes a segment writable; says whether that was possible.
fn is_prepared(medium: &dyn Medium, segment: u32) -> Result<bool> {
    if medium.is_bad(segment) {
        return Ok(false);
    }
    medium.discard(segment)?;
    match medium.prepare(segment) {
        Ok(()) => Ok(true),
        Err(_) if medium.is_bad(segment) => Ok(false),
        Err(error) => Err(error),
    }
}

/// How a device is divided that holds a volume, whose segments may have any size: by the first anchor that is found.
///
/// # Errors
/// [`VolumeError`] if there is none, or the device cannot be read.
pub fn geometry_of(mut read_page: impl FnMut(u32, &mut PageBytes) -> Result<()>) -> Result<Geometry> {
    let mut page = [0; PAGE_BYTES];
    let mut problem = read_page(0, &mut page).err();
    // The second copy of an anchor stands behind the first.
    let in_first = 0..ANCHOR_PAGES_MAX;
    let in_second = (0..=PAGES_PER_SEGMENT_MAX.ilog2()).map(|power| 1 << power);
    for number in in_first.chain(in_second.skip_while(|&number| number < PAGES_PER_SEGMENT_MIN)) {
        if read_page(number, &mut page).is_err() {
            continue;
        }
        match Anchor::geometry_in(&page) {
            Ok(geometry) if number < ANCHOR_SEGMENTS_MIN * geometry.pages_per_segment => return Ok(geometry),
            Ok(_) | Err(VolumeError::NotAVolume(_)) => {}
            Err(error) if number == 0 => return Err(error),
            Err(_) => {}
        }
    }
    Err(problem.take().unwrap_or_else(|| VolumeError::NotAVolume("it has no anchor".into())))
}

/// Pages that an anchor may take: half of the largest segment is more, and this is enough for 8 TiB in segments of 64 MiB.
const ANCHOR_PAGES_MAX: u32 = 129;

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Anchor {
        let geometry = Geometry { segments: 2000, pages_per_segment: 64 };
        let head = HeadPosition { segment: 7, index: 64, next: 1999 };
        Anchor {
            volume: 0x1234_5678_9ABC_DEF0,
            number: 77,
            sequence: 78,
            epoch: 79,
            geometry,
            root: Word::of(crate::word::Place::Page { at: crate::word::Physical(5), check: 6 }),
            root_height: 2,
            is_clean: true,
            made_at: 80,
            heads: [head, HeadPosition { index: 0, ..head }],
            units: (0..1000).chain(0..1000).collect(),
        }
    }

    #[test]
    fn is_read_as_written() {
        assert_eq!(Anchor::decode(&example().encode()), Ok(example()));
    }

    /// A segment of blocks that hold nothing but short patches counts far more than one of pages.
    #[test]
    fn segments_may_be_full_of_short_patches() {
        let mut anchor = example();
        anchor.units[9] = 64 * (PAGE_BYTES / (PATCH_HEADER_BYTES + 8)) as u32;
        assert_eq!(Anchor::decode(&anchor.encode()), Ok(anchor.clone()));
        anchor.units[9] = 64 * PAGE_BYTES as u32;
        assert!(Anchor::decode(&anchor.encode()).is_err());
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let mut bytes = example().encode();
        for bit in (0..bytes.len() * 8).step_by(3) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Anchor::decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = example().encode();
        bytes[12] = 9;
        assert_eq!(Anchor::decode(&bytes), Err(VolumeError::OtherVersion { found: 9, known: VERSION }));
    }
}
