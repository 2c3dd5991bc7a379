//! A memory that survives the crashes of its machine.
//!
//! What is stored is seen at once. It is durable after a sync of its range, or when the memory has written it back on its own, which can be at
//! any time: the lines of a cache, the pages of a file. A crash leaves of what was stored and not synced any units: words of eight bytes of memory;
//! pages, sectors or words of a file on flash.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::hits::Kind;
use crate::landing::Landing;
use crate::machine::mix;

pub const WORD_BYTES: u64 = 8;
pub const PAGE_BYTES: u64 = 4096;
const SECTOR_BYTES: u64 = 512;
const PAGE_WORDS: usize = (PAGE_BYTES / WORD_BYTES) as usize;
/// One store in this many has a page written back.
const STORES_TO_WRITE_BACK: u64 = 8;
/// Bytes of the writes that are remembered, about.
const REMEMBERED_BYTES: usize = 1 << 20;

/// What a memory is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Medium {
    /// Persistent memory behind the caches of the processor.
    #[default]
    Memory,
    /// A file on flash behind a cache of pages.
    Flash,
}

impl Medium {
    /// What lands whole or not at all in one crash.
    fn unit_bytes(self, landing: Landing) -> u64 {
        match (self, mix(landing.seed() ^ 0x77) % 4) {
            (Self::Flash, 0 | 1) => PAGE_BYTES,
            (Self::Flash, 2) => SECTOR_BYTES,
            _ => WORD_BYTES,
        }
    }
}

/// The words of a page that were stored and are not durable.
#[derive(Clone)]
struct Page {
    /// Bit *n* is word *n*.
    words: [u64; PAGE_WORDS / 64],
    /// What is durable in their places.
    durable: Box<[u8; PAGE_BYTES as usize]>,
}

impl Page {
    fn new() -> Self {
        Self { words: [0; PAGE_WORDS / 64], durable: Box::new([0; PAGE_BYTES as usize]) }
    }

    fn has(&self, word: usize) -> bool {
        self.words[word / 64] >> (word % 64) & 1 == 1
    }

    /// Adds words that are about to be stored; `bytes` begin with the page as it is.
    fn add(&mut self, words: &Range<usize>, bytes: &[u8]) {
        for n in words.start / 64..words.end.div_ceil(64) {
            let (mask, range) = (mask(n, words), words.start.max(n * 64)..words.end.min(n * 64 + 64));
            if self.words[n] & mask == 0 {
                let range = range.start * 8..range.end * 8;
                self.durable[range.clone()].copy_from_slice(&bytes[range]);
            } else {
                for word in range.filter(|&word| !self.has(word)).collect::<Vec<_>>() {
                    self.durable[word * 8..word * 8 + 8].copy_from_slice(&bytes[word * 8..word * 8 + 8]);
                }
            }
            self.words[n] |= mask;
        }
    }

    fn take(&mut self, word: usize) {
        self.words[word / 64] &= !(1 << (word % 64));
    }
}

/// A range that became durable, for damage to choose from.
#[derive(Clone)]
pub struct Write {
    pub kind: Kind,
    pub offset: u64,
    /// What was there, and what is there since.
    pub before: Vec<u8>,
    pub after: Vec<u8>,
    /// Whether the program was told so.
    pub is_acknowledged: bool,
}

impl Write {
    pub fn end(&self) -> u64 {
        self.offset + self.after.len() as u64
    }
}

#[derive(Clone)]
pub struct Memory {
    medium: Medium,
    /// What is seen: as many bytes as the memory may have.
    pub bytes: Vec<u8>,
    pub len: u64,
    /// The least that its length can be after a crash, and what it was made since.
    settled_len: u64,
    lens: Vec<u64>,
    /// Pages that were given back, and what was there.
    punched: BTreeMap<u64, Vec<u8>>,
    unsynced: BTreeMap<u64, Page>,
    stores: u64,
    /// What became durable, if that is remembered.
    writes: Option<VecDeque<Write>>,
    remembered_bytes: usize,
}

impl Memory {
    pub fn new(medium: Medium, capacity_bytes: u64) -> Self {
        Self {
            medium,
            bytes: vec![0; capacity_bytes as usize],
            len: 0,
            settled_len: 0,
            lens: Vec::new(),
            punched: BTreeMap::new(),
            unsynced: BTreeMap::new(),
            stores: 0,
            writes: None,
            remembered_bytes: 0,
        }
    }

    /// Remembers from now on what becomes durable.
    pub fn remember_writes(&mut self) {
        self.writes.get_or_insert_default();
    }

    /// What became durable, the oldest first, as far as it is remembered.
    pub fn writes(&self) -> impl DoubleEndedIterator<Item = &Write> + ExactSizeIterator {
        static NONE: VecDeque<Write> = VecDeque::new();
        self.writes.as_ref().unwrap_or(&NONE).iter()
    }

    /// The same bytes, all durable, in a memory of its own, with what is remembered of its writes if `has_writes`.
    pub fn image(&self, has_writes: bool) -> Self {
        let mut image = Self::new(self.medium, 0);
        (image.bytes, image.len, image.settled_len) = (self.bytes.clone(), self.len, self.len);
        image.writes = self.writes.clone().filter(|_| has_writes);
        image
    }

    /// Whether all that is seen is durable.
    pub fn is_durable(&self) -> bool {
        self.unsynced.is_empty()
    }

    /// The bytes that it has.
    pub fn file(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    pub fn grow(&mut self, len_bytes: u64) {
        assert!(len_bytes <= self.bytes.len() as u64, "{len_bytes} bytes");
        self.len = len_bytes;
        self.lens.push(len_bytes);
    }

    /// Stores bytes, which are seen and not durable yet.
    pub fn store(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        assert!(end <= self.len && offset.is_multiple_of(4), "{offset} to {end} of {}", self.len);
        if end > self.settled_len {
            self.settled_len =
                self.lens.iter().copied().find(|&len| len >= end).expect("it was made so long");
            self.lens.retain(|&len| len > self.settled_len);
        }
        if !self.punched.is_empty() {
            (offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).for_each(|page| _ = self.punched.remove(&page));
        }
        self.write_back();
        for (number, words) in pages_of(offset, bytes.len() as u64) {
            let page = self.unsynced.entry(number).or_insert_with(Page::new);
            page.add(&words, &self.bytes[(number * PAGE_BYTES) as usize..]);
        }
        self.bytes[offset as usize..end as usize].copy_from_slice(bytes);
    }

    /// Now and then makes a page durable as it is, unasked.
    fn write_back(&mut self) {
        self.stores += 1;
        if mix(self.stores).is_multiple_of(STORES_TO_WRITE_BACK) && self.unsynced.len() > 1 {
            let chosen = mix(self.stores ^ 0x55) as usize % self.unsynced.len();
            let page = *self.unsynced.keys().nth(chosen).expect("so many");
            self.unsynced.remove(&page);
        }
    }

    /// Makes a range durable.
    pub fn sync(&mut self, kind: Kind, offset: u64, len: u64) {
        if self.writes.is_some() {
            self.remember(kind, offset, len, true);
        }
        for (number, words) in pages_of(offset, len) {
            let Some(page) = self.unsynced.get_mut(&number) else { continue };
            (0..page.words.len()).for_each(|n| page.words[n] &= !mask(n, &words));
            if page.words == [0; PAGE_WORDS / 64] {
                self.unsynced.remove(&number);
            }
        }
    }

    /// A word is durable as it is seen.
    fn take(&mut self, word: u64) {
        let page = word * WORD_BYTES / PAGE_BYTES;
        if let Some(unsynced) = self.unsynced.get_mut(&page) {
            unsynced.take(word_in_page(word).0);
            if unsynced.words == [0; PAGE_WORDS / 64] {
                self.unsynced.remove(&page);
            }
        }
    }

    /// The word is as it was when it was durable last, and not as it was stored since.
    fn revert(&mut self, word: u64) {
        if let Some(page) = self.unsynced.get(&(word * WORD_BYTES / PAGE_BYTES)) {
            let ((number, in_page), at) = (word_in_page(word), (word * WORD_BYTES) as usize);
            if page.has(number) {
                self.bytes[at..at + 8].copy_from_slice(&page.durable[in_page..in_page + 8]);
            }
        }
        self.take(word);
    }

    fn remember(&mut self, kind: Kind, offset: u64, len: u64, is_acknowledged: bool) {
        let after = self.bytes[offset as usize..(offset + len) as usize].to_vec();
        let mut before = after.clone();
        for word in words_of(offset, len) {
            let (number, in_page) = word_in_page(word);
            let Some(page) = self.unsynced.get(&(word * WORD_BYTES / PAGE_BYTES)) else { continue };
            if page.has(number) {
                let start = (word * WORD_BYTES).max(offset);
                let end = ((word + 1) * WORD_BYTES).min(offset + len);
                let skipped = (start - word * WORD_BYTES) as usize + in_page;
                before[(start - offset) as usize..(end - offset) as usize]
                    .copy_from_slice(&page.durable[skipped..skipped + (end - start) as usize]);
            }
        }
        self.add_write(Write { kind, offset, before, after, is_acknowledged });
    }

    fn add_write(&mut self, write: Write) {
        let Some(writes) = &mut self.writes else { return };
        self.remembered_bytes += write.after.len() * 2;
        writes.push_back(write);
        while self.remembered_bytes > REMEMBERED_BYTES && writes.len() > 1 {
            let oldest = writes.pop_front().expect("two at least");
            self.remembered_bytes -= oldest.after.len() * 2;
        }
    }

    /// Gives pages back, which a crash can leave as they were.
    pub fn punch(&mut self, offset: u64, len_bytes: u64) {
        assert!(offset.is_multiple_of(PAGE_BYTES) && len_bytes.is_multiple_of(PAGE_BYTES));
        for page in offset / PAGE_BYTES..(offset + len_bytes) / PAGE_BYTES {
            let at = (page * PAGE_BYTES) as usize;
            if let Some(unsynced) = self.unsynced.remove(&page) {
                // What was stored there is as well gone.
                (0..PAGE_WORDS).filter(|&word| unsynced.has(word)).for_each(|word| {
                    self.bytes[at + word * 8..][..8].copy_from_slice(&unsynced.durable[word * 8..][..8]);
                });
            }
            let place = &mut self.bytes[at..at + PAGE_BYTES as usize];
            // Of a page that was given back twice the oldest bytes may come again.
            self.punched.entry(page).or_insert_with(|| place.to_vec());
            place.fill(0);
        }
        let (before, after) = (Vec::new(), vec![0; len_bytes as usize]);
        self.add_write(Write { kind: Kind::Punch, offset, before, after, is_acknowledged: false });
    }

    /// The crash, for some ranges that were being made durable; returns their words. If only the process ends, what has landed is
    /// seen, and is not durable for that.
    pub fn tear(&mut self, ranges: &[(u64, u64)], landing: Landing, is_kill: bool) -> u64 {
        let unit_words = if is_kill { 1 } else { self.medium.unit_bytes(landing) / WORD_BYTES };
        let units_of = |&(offset, len): &(u64, u64)| {
            let words = words_of(offset, len);
            words.start / unit_words..words.end.div_ceil(unit_words)
        };
        let units = ranges.iter().map(|range| units_of(range).count() as u64).sum();
        let (mut words, mut before) = (0, 0);
        for range in ranges {
            let (&(offset, len), in_range) = (range, units_of(range));
            for word in words_of(offset, len) {
                let lands = landing.lands(before + word / unit_words - in_range.start, units);
                words += 1;
                match (lands, is_kill) {
                    (true, true) => {}
                    (true, false) => self.take(word),
                    (false, _) => self.revert(word),
                }
            }
            before += in_range.end - in_range.start;
            if self.writes.is_some() && !is_kill {
                self.remember(Kind::Commit, offset, len, false);
            }
        }
        words
    }

    /// The crash, for all else: what was stored and not synced lands or not, lengths and pages that were given back are old or new.
    pub fn settle(&mut self, landing: Landing) {
        let (seed, unit) = (landing.seed(), self.medium.unit_bytes(landing) as usize / WORD_BYTES as usize);
        let units = (self.unsynced.len() * PAGE_WORDS / unit).max(1) as u64;
        let landing = landing.of(1 << 20);
        for (n, (&page, unsynced)) in std::mem::take(&mut self.unsynced).iter().enumerate() {
            for word in (0..PAGE_WORDS).filter(|&word| unsynced.has(word)) {
                let number = (n * PAGE_WORDS + word) / unit;
                if !landing.lands(number as u64, units) {
                    let at = page as usize * PAGE_BYTES as usize + word * 8;
                    self.bytes[at..at + 8].copy_from_slice(&unsynced.durable[word * 8..word * 8 + 8]);
                }
            }
        }
        let lens = self.lens.len() as u64;
        let chosen = mix(seed ^ 0x11) % (lens + 1);
        self.len = chosen.checked_sub(1).map_or(self.settled_len, |n| self.lens[n as usize]);
        self.settled_len = self.len;
        self.lens.clear();
        for (page, old) in std::mem::take(&mut self.punched) {
            if mix(seed ^ page << 8) & 1 == 0 {
                let at = (page * PAGE_BYTES) as usize;
                self.bytes[at..at + old.len()].copy_from_slice(&old);
            }
        }
    }
}

/// The bits of `words` that are in one number of a page's.
fn mask(number: usize, words: &Range<usize>) -> u64 {
    let (start, end) = (words.start.max(number * 64), words.end.min(number * 64 + 64));
    if start >= end { 0 } else { (u64::MAX >> (64 - (end - start))) << (start % 64) }
}

/// The pages of a range, and its words in each.
fn pages_of(offset: u64, len: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let (words, in_page) = (words_of(offset, len), PAGE_WORDS as u64);
    (words.start / in_page..words.end.div_ceil(in_page)).map(move |page| {
        let first = page * in_page;
        let (start, end) = (words.start.max(first) - first, words.end.min(first + in_page) - first);
        (page, start as usize..end as usize)
    })
}

fn words_of(offset: u64, len: u64) -> Range<u64> {
    offset / WORD_BYTES..(offset + len).div_ceil(WORD_BYTES)
}

/// Which word of its page it is, and where in the page it begins.
fn word_in_page(word: u64) -> (usize, usize) {
    let number = word as usize % PAGE_WORDS;
    (number, number * WORD_BYTES as usize)
}
