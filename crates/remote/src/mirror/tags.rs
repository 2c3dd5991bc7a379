//! What is known of each page: which slab has it, and the checksum of its bytes there.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::checksum;

use super::PAGE_BYTES;

const EPOCH_SHIFT: u32 = 32;
const EPOCH_MASK: u64 = (1 << 30) - 1;
const IS_REMOTE: u64 = 1 << 63;
const IS_LOCKED: u64 = 1 << 62;

/// A page's checksum (32 bits), the epoch of the slab that has it (30 bits), and whether one has it and whether somebody is writing it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(u64);

impl Tag {
    /// No slab has it.
    pub const NONE: Tag = Tag(0);

    /// A slab of this epoch has these bytes.
    pub fn of(bytes: &[u8], epoch: u32) -> Tag {
        Tag(IS_REMOTE
            | (u64::from(epoch) & EPOCH_MASK) << EPOCH_SHIFT
            | u64::from(checksum::crc32c_seeded(0, bytes)))
    }

    /// Whether the slab of this epoch has it and nobody is writing it.
    pub fn is_in(self, epoch: u32) -> bool {
        let mask = IS_REMOTE | IS_LOCKED | EPOCH_MASK << EPOCH_SHIFT;
        self.0 & mask == IS_REMOTE | (u64::from(epoch) & EPOCH_MASK) << EPOCH_SHIFT
    }
}

/// A tag for each page of the device.
#[derive(Debug)]
pub struct Tags {
    words: Box<[AtomicU64]>,
}

impl Tags {
    /// For so many bytes; no slab has any.
    pub fn new(device_bytes: u64) -> Tags {
        let pages = (device_bytes / PAGE_BYTES as u64) as usize;
        Tags { words: (0..pages).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Pages.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// What is known of a page.
    pub fn get(&self, page: usize) -> Tag {
        Tag(self.words[page].load(Ordering::Acquire))
    }

    /// A number that changes when one of the pages is written.
    pub fn fingerprint(&self, pages: Range<usize>) -> u64 {
        pages.fold(0, |sum: u64, page| {
            sum.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.get(page).0
        })
    }

    /// Waits until nobody else writes one of the pages. From then on no slab has them, until the holder says so.
    pub fn lock(&self, pages: Range<usize>) -> Locked<'_> {
        for page in pages.clone() {
            while self.words[page].swap(IS_LOCKED, Ordering::AcqRel) & IS_LOCKED != 0 {
                std::thread::yield_now();
            }
        }
        Locked { tags: self, pages, before: Tag::NONE }
    }

    /// Locks a page that nobody writes and that is not in the slab of this epoch.
    pub fn lock_unknown(&self, page: usize, epoch: u32) -> Option<Locked<'_>> {
        let word = &self.words[page];
        let now = word.load(Ordering::Acquire);
        let is_free = now & IS_LOCKED == 0 && !Tag(now).is_in(epoch);
        let is_mine =
            is_free && word.compare_exchange(now, IS_LOCKED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        is_mine.then(|| Locked { tags: self, pages: page..page + 1, before: Tag(now) })
    }
}

/// Pages that one writer has. When they are dropped no slab has them.
pub struct Locked<'a> {
    tags: &'a Tags,
    pages: Range<usize>,
    before: Tag,
}

impl Locked<'_> {
    /// Whether the page was in the slab of this epoch.
    pub fn was_in(&self, epoch: u32) -> bool {
        self.before.is_in(epoch)
    }

    /// Whether the page had this tag.
    pub fn was(&self, tag: Tag) -> bool {
        self.before == tag
    }

    /// Says where the pages are now, and lets them go. `bytes` are those of all pages.
    pub fn are_in(self, epoch: u32, bytes: &[u8]) {
        for (page, bytes) in self.pages.clone().zip(bytes.chunks_exact(PAGE_BYTES)) {
            self.tags.words[page].store(Tag::of(bytes, epoch).0, Ordering::Release);
        }
        std::mem::forget(self);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.pages.clone().for_each(|page| self.tags.words[page].store(Tag::NONE.0, Ordering::Release));
    }
}
