//! What the log still has of some pages: each block says whose the pages behind it are, and when they were written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

use aquifer_device::AlignedBuffer;

use crate::anchor::Anchor;
use crate::block::{Block, Header, Trim, looks_like_block};
use crate::key::{Ino, PageKey};
use crate::medium::Medium;
use crate::word::{PAGE_BYTES, PageBytes, Place, Word, check_of, crc_of};

/// Pages that are looked for in the log.
#[derive(Default)]
pub struct Wanted {
    /// Pages of files whose place nobody knows, as numbers of [`number_of`]; in order, none touching another.
    ranges: Vec<RangeInclusive<u64>>,
    /// Pages whose older versions are wanted, and their files.
    pages: HashSet<PageKey>,
    files: HashSet<Ino>,
}

/// A page of a file as a number, in the order of files and pages.
fn number_of(ino: Ino, index: u32) -> u64 {
    u64::from(ino.0) << 32 | u64::from(index)
}

impl Wanted {
    /// All pages below damaged nodes of the table.
    pub fn below(nodes: &[PageKey]) -> Self {
        let mut ranges: Vec<_> = nodes.iter().map(|&node| pages_below(node)).collect();
        ranges.sort_by_key(|range| *range.start());
        let mut merged: Vec<RangeInclusive<u64>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start() <= last.end() => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => merged.push(range),
            }
        }
        Wanted { ranges: merged, ..Wanted::default() }
    }

    /// Those pages themselves.
    pub fn pages(pages: &[PageKey]) -> Self {
        let files = pages.iter().map(|key| key.ino()).collect();
        Wanted { ranges: Vec::new(), pages: pages.iter().copied().collect(), files }
    }

    /// Whether nobody knows the place of some pages of a file.
    pub fn has_ranges_of(&self, ino: Ino) -> bool {
        let next = self.ranges.partition_point(|range| *range.end() < number_of(ino, 0));
        self.ranges.get(next).is_some_and(|range| *range.start() <= number_of(ino, u32::MAX))
    }

    fn has_some_of(&self, ino: Ino) -> bool {
        self.files.contains(&ino) || self.has_ranges_of(ino)
    }

    fn has(&self, key: PageKey) -> bool {
        let number = match key.level() {
            0 => number_of(key.ino(), key.index()),
            1 => number_of(key.ino(), key.index() << 9),
            _ => return false,
        };
        let next = self.ranges.partition_point(|range| *range.end() < number);
        let is_below = self.ranges.get(next).is_some_and(|range| range.contains(&number));
        key.ino() != Ino::ROOTS && (is_below || self.pages.contains(&key))
    }
}

/// What a node of the table translates, directly or by nodes below it.
fn pages_below(node: PageKey) -> RangeInclusive<u64> {
    let pages = 1u64 << (9 * node.level());
    let first = u64::from(node.index()) * pages;
    if node.ino() != Ino::ROOTS {
        let last = (first + pages - 1).min(u32::MAX.into());
        return number_of(node.ino(), first as u32)..=number_of(node.ino(), last as u32);
    }
    let inos = u64::from(crate::table::ROOTS_PER_PAGE);
    let (first, end) = (first * inos, (first + pages) * inos);
    first << 32..=(end << 32) - 1
}

/// A page as a block has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    /// Of the block.
    pub sequence: u64,
    /// Where the page is.
    pub word: Word,
    epoch: u32,
}

/// What was found in the log.
#[derive(Default)]
pub struct Found {
    versions: HashMap<PageKey, Vec<Version>>,
    trims: HashMap<Ino, Vec<(u64, Trim)>>,
    /// Pages that cannot be read and of which no block says whose they are, and blocks that are damaged: they may hold what is newer.
    pub unknown: u64,
}

impl Found {
    /// Versions of a page, the newest first.
    pub fn of(&self, key: PageKey) -> &[Version] {
        self.versions.get(&key).map_or(&[], Vec::as_slice)
    }

    /// All pages that were found.
    pub fn keys(&self) -> impl Iterator<Item = PageKey> + '_ {
        self.versions.keys().copied()
    }

    /// Whether a page was trimmed by a block behind `sequence`.
    pub fn is_trimmed(&self, key: PageKey, sequence: u64) -> bool {
        let trims = self.trims.get(&key.ino()).map_or(&[][..], Vec::as_slice);
        trims.iter().any(|(of_block, trim)| *of_block > sequence && trim.covers(key))
    }
}

/// What is known of the blocks of one opening of the volume.
#[derive(Default)]
struct Epoch {
    /// All blocks before this were durable.
    durable: u64,
    /// Blocks from there on, and whether the pages behind them are as they say.
    tail: BTreeMap<u64, (Header, bool)>,
}

impl Epoch {
    fn note(&mut self, header: Header, is_whole: bool) {
        self.durable = self.durable.max(header.durable);
        if header.sequence >= self.durable {
            self.tail.insert(header.sequence, (header, is_whole));
        }
    }

    /// The first sequence that does not count, by the rules of recovery: what is durable counts, and whole transactions up to the first gap.
    fn end(&self) -> u64 {
        let (mut end, mut next, mut first) = (self.durable, self.durable, None);
        for (&sequence, (header, is_whole)) in self.tail.range(self.durable..) {
            let begins = *first.get_or_insert(header.first_sequence);
            // Of a transaction that is durable in part the rest is not known to be.
            if sequence != next || !is_whole || header.first_sequence != begins || begins < end {
                break;
            }
            next += 1;
            if header.is_last {
                (end, first) = (next, None);
            }
        }
        end
    }
}

/// Looks through all blocks of all segments for what is wanted. What may never have been committed does not count.
pub fn search(medium: &dyn Medium, anchor: &Anchor, wanted: &Wanted) -> Found {
    let geometry = medium.geometry();
    let (mut found, mut epochs) = (Found::default(), HashMap::<u32, Epoch>::new());
    let mut trims = Vec::new();
    epochs.entry(anchor.epoch).or_default().durable = anchor.sequence;
    let mut bytes = AlignedBuffer::new(geometry.pages_per_segment as usize * PAGE_BYTES);
    for segment in medium.anchor_segments()..geometry.segments {
        let is_readable = medium.read_readable(geometry.page(segment, 0), &mut bytes);
        let page = |index: u32| -> &PageBytes {
            bytes[index as usize * PAGE_BYTES..][..PAGE_BYTES].try_into().expect("a page")
        };
        let mut index = 0;
        while index < geometry.pages_per_segment {
            let at = geometry.page(segment, index);
            let left = (geometry.pages_per_segment - index - 1) as usize;
            let block = Block::decode(page(index)).filter(|block| {
                let header = block.header();
                is_readable[index as usize]
                    && header.at == at
                    && header.volume == anchor.volume
                    && block.pages() <= left
            });
            let Some(block) = block else {
                let is_damaged = looks_like_block(page(index), anchor.volume, at);
                found.unknown += u64::from(!is_readable[index as usize] || is_damaged);
                index += 1;
                continue;
            };
            let header = block.header();
            let (sequence, epoch) = (header.sequence, header.epoch);
            let mut is_whole = true;
            let mut add = |key: PageKey, place: Place| {
                if wanted.has(key) {
                    let version = Version { sequence, epoch, word: Word::of(place) };
                    found.versions.entry(key).or_default().push(version);
                }
            };
            for (tag, number) in block.tags().zip(index + 1..) {
                is_whole &= is_readable[number as usize] && crc_of(page(number)) == tag.crc;
                let at = geometry.page(segment, number);
                add(tag.key, Place::Page { at, check: check_of(tag.crc) });
            }
            block.patches().for_each(|patch| add(patch.key, patch.place_in(at)));
            let of_wanted = block.trims().filter(|trim| wanted.has_some_of(trim.ino));
            trims.extend(of_wanted.map(|trim| (sequence, epoch, trim)));
            epochs.entry(epoch).or_default().note(header, is_whole);
            index += 1 + block.pages() as u32;
        }
    }
    let ends: HashMap<u32, u64> = epochs.iter().map(|(&epoch, blocks)| (epoch, blocks.end())).collect();
    let counts = |epoch: u32, sequence: u64| sequence < ends[&epoch];
    for versions in found.versions.values_mut() {
        versions.retain(|version| counts(version.epoch, version.sequence));
        versions.sort_by_key(|version| std::cmp::Reverse(version.sequence));
    }
    for (sequence, epoch, trim) in trims {
        if counts(epoch, sequence) {
            found.trims.entry(trim.ino).or_default().push((sequence, trim));
        }
    }
    found
}
