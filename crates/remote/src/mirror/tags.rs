//! What is known of each page: which family of slabs has it, the checksum of its bytes there, and whether flash has them too.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aquifer_base::checksum;

use super::PAGE_BYTES;

const EPOCH_SHIFT: u32 = 32;
const EPOCH_MASK: u64 = (1 << 29) - 1;
const IS_REMOTE: u64 = 1 << 63;
const IS_LOCKED: u64 = 1 << 62;
const IS_NOT_LOCAL: u64 = 1 << 61;

/// A page's checksum (32 bits), the epoch of the family that has it (29 bits), whether one has it, whether somebody is writing it, and whether neither buffer nor flash
/// have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(u64);

impl Tag {
    /// Buffer or flash have it, and no slab.
    pub const LOCAL: Tag = Tag(0);
    /// Nobody has it any more.
    pub const LOST: Tag = Tag(IS_NOT_LOCAL);

    /// The checksum of a page's bytes.
    pub fn sum(bytes: &[u8]) -> u32 {
        checksum::crc32c_seeded(0, bytes)
    }

    /// The slabs of this epoch have bytes with this checksum; buffer or flash too, or not.
    pub fn of(sum: u32, epoch: u32, is_local: bool) -> Tag {
        let epoch = (u64::from(epoch) & EPOCH_MASK) << EPOCH_SHIFT;
        let local = if is_local { 0 } else { IS_NOT_LOCAL };
        Tag(IS_REMOTE | local | epoch | u64::from(sum))
    }

    /// Whether the slabs of this epoch have it and nobody is writing it.
    pub fn is_in(self, epoch: u32) -> bool {
        let mask = IS_REMOTE | IS_LOCKED | EPOCH_MASK << EPOCH_SHIFT;
        self.0 & mask == IS_REMOTE | (u64::from(epoch) & EPOCH_MASK) << EPOCH_SHIFT
    }

    /// Whether buffer or flash have it.
    pub fn is_local(self) -> bool {
        self.0 & IS_NOT_LOCAL == 0
    }

    /// Whether somebody is writing it.
    pub fn is_locked(self) -> bool {
        self.0 & IS_LOCKED != 0
    }

    /// Whether it is of these bytes.
    pub fn is_of(self, bytes: &[u8]) -> bool {
        self.0 & IS_REMOTE != 0 && self.0 as u32 == Tag::sum(bytes)
    }
}

/// A tag for each page of the device.
#[derive(Debug)]
pub struct Tags {
    words: Box<[AtomicU64]>,
}

impl Tags {
    /// Tags for `device_bytes`, all of which flash has.
    pub fn new(device_bytes: u64) -> Tags {
        let pages = (device_bytes / PAGE_BYTES as u64) as usize;
        Tags { words: (0..pages).map(|_| AtomicU64::new(Tag::LOCAL.0)).collect() }
    }

    /// RAM that they take.
    pub fn ram_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Pages.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// What is known of a page.
    pub fn get(&self, page: usize) -> Tag {
        Tag(self.words[page].load(Ordering::Acquire))
    }

    /// What is known of a page when nobody writes it.
    pub fn get_unlocked(&self, page: usize) -> Tag {
        for round in 0.. {
            let tag = self.get(page);
            if !tag.is_locked() {
                return tag;
            }
            pause(round);
        }
        unreachable!("the rounds have no end")
    }

    /// A number that changes when one of the pages is written.
    pub fn fingerprint(&self, pages: Range<usize>) -> u64 {
        pages.fold(0, |sum: u64, page| {
            sum.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.get(page).0
        })
    }

    /// Waits until nobody else writes one of the pages. `unless` is what they are if their writer does not say.
    pub fn lock(&self, pages: Range<usize>, unless: Tag) -> Locked<'_> {
        for page in pages.clone() {
            self.lock_word(page);
        }
        Locked { tags: self, pages, unless }
    }

    /// Waits until nobody else writes a page, unless a slab of this epoch has it by then. If its holder does not say otherwise, it stays what it was.
    pub fn lock_unless_in(&self, page: usize, epoch: u32) -> Option<Locked<'_>> {
        let word = &self.words[page];
        loop {
            let Tag(now) = self.get_unlocked(page);
            if Tag(now).is_in(epoch) {
                return None;
            }
            if word.compare_exchange(now, now | IS_LOCKED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(Locked { tags: self, pages: page..page + 1, unless: Tag(now) });
            }
        }
    }

    /// Waits until nobody else writes a page, if it is one that neither buffer nor flash have. If its holder does not say otherwise, it stays what it was.
    pub fn lock_remote_alone(&self, page: usize) -> Option<Locked<'_>> {
        let word = &self.words[page];
        loop {
            let Tag(now) = self.get_unlocked(page);
            if Tag(now).is_local() || Tag(now) == Tag::LOST {
                return None;
            }
            if word.compare_exchange(now, now | IS_LOCKED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(Locked { tags: self, pages: page..page + 1, unless: Tag(now) });
            }
        }
    }

    fn lock_word(&self, page: usize) {
        while self.words[page].fetch_or(IS_LOCKED, Ordering::AcqRel) & IS_LOCKED != 0 {
            self.get_unlocked(page);
        }
    }
}

/// Waits for the writer of a page, which waits for donors: for microseconds, or for a deadline.
fn pause(round: u32) {
    const YIELDS: u32 = 100;
    const SLEEP: Duration = Duration::from_micros(50);
    if round < YIELDS { std::thread::yield_now() } else { std::thread::sleep(SLEEP) }
}

/// Pages that one writer has.
pub struct Locked<'a> {
    tags: &'a Tags,
    pages: Range<usize>,
    unless: Tag,
}

impl Locked<'_> {
    /// What the pages are if nothing else is said.
    pub fn before(&self) -> Tag {
        self.unless
    }

    /// Says that the slabs of an epoch have the pages, and lets them go. `sums` are the checksums of all of them.
    pub fn are_in(self, epoch: u32, sums: &[u32], is_local: bool) {
        debug_assert!(sums.len() >= self.pages.len(), "a checksum for each page");
        for (page, sum) in self.pages.clone().zip(sums) {
            self.tags.words[page].store(Tag::of(*sum, epoch, is_local).0, Ordering::Release);
        }
        std::mem::forget(self);
    }

    /// Says that buffer or flash have the pages as well, and lets them go.
    pub fn stay_and_are_local(mut self) {
        self.unless = Tag(self.unless.0 & !IS_NOT_LOCAL);
    }

    /// Says that nobody has the pages any more, and lets them go.
    pub fn are_lost(mut self) {
        self.unless = Tag::LOST;
    }

    /// Says that buffer or flash have the pages and no slab, and lets them go.
    pub fn are_local(mut self) {
        self.unless = Tag::LOCAL;
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.pages.clone().for_each(|page| self.tags.words[page].store(self.unless.0, Ordering::Release));
    }
}
