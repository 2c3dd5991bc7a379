//! What is known of each page of each slab: the checksum of its bytes there, and who has the newest ones.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aquifer_base::checksum;

/// The row has been coded: the checksum is of the bytes that the slab has, or had.
const IS_CODED: u64 = 1 << 32;
/// And they are the page's newest.
const IS_NEWEST: u64 = 1 << 33;
/// Buffer or flash have the newest bytes.
const IS_LOCAL: u64 = 1 << 34;
/// Nobody has them any more.
const IS_LOST: u64 = 1 << 35;

/// The checksum of a page.
pub fn sum(bytes: &[u8]) -> u32 {
    checksum::crc32c_seeded(0, bytes)
}

/// The cells of all pages. A writer of a page holds its row's lock alone, and a reader shares it.
#[derive(Debug)]
pub struct Cells {
    words: Box<[AtomicU64]>,
}

impl Cells {
    /// Flash has all pages.
    pub fn new(count: usize) -> Cells {
        Cells { words: (0..count).map(|_| AtomicU64::new(IS_LOCAL)).collect() }
    }

    /// RAM that they take.
    pub fn ram_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    pub fn get(&self, nth: usize) -> Cell<'_> {
        Cell { word: &self.words[nth] }
    }
}

/// Of one page.
#[derive(Clone, Copy)]
pub struct Cell<'a> {
    word: &'a AtomicU64,
}

impl Cell<'_> {
    fn has(self, flag: u64) -> bool {
        self.word.load(Relaxed) & flag != 0
    }

    /// Whether its row has been coded.
    pub fn is_coded(self) -> bool {
        self.has(IS_CODED)
    }

    /// Whether the slab's bytes, or what the others say of them, are the newest.
    pub fn is_newest(self) -> bool {
        self.has(IS_NEWEST)
    }

    /// Whether buffer or flash have the newest bytes.
    pub fn is_local(self) -> bool {
        self.has(IS_LOCAL)
    }

    /// Whether donors alone have the newest bytes.
    pub fn is_remote_alone(self) -> bool {
        self.is_newest() && !self.is_local()
    }

    /// Whether these are the bytes that its slab should have.
    pub fn is_of(self, bytes: &[u8]) -> bool {
        self.is_coded() && self.word.load(Relaxed) as u32 == sum(bytes)
    }

    /// Its slab has these bytes now, which are the newest, be they on flash too or not.
    pub fn is_in_slab(self, bytes: &[u8], is_local: bool) {
        self.is_in_slab_as(sum(bytes), is_local);
    }

    /// As [`Cell::is_in_slab`], of bytes with this checksum.
    pub fn is_in_slab_as(self, sum: u32, is_local: bool) {
        let flags = IS_CODED | IS_NEWEST | if is_local { IS_LOCAL } else { 0 };
        self.word.store(flags | u64::from(sum), Relaxed);
    }

    /// Its slab has these bytes, but the newest are lost.
    pub fn is_lost(self, bytes: &[u8]) {
        self.word.store(IS_CODED | IS_LOST | u64::from(sum(bytes)), Relaxed);
    }

    /// Flash has the newest bytes too.
    pub fn is_local_too(self) {
        self.word.fetch_or(IS_LOCAL, Relaxed);
    }

    /// Flash alone has the newest bytes; what the slab has is known all the same.
    pub fn is_local_alone(self) {
        let keep = |word: u64| Some(word & !(IS_NEWEST | IS_LOST) | IS_LOCAL);
        let _ = self.word.fetch_update(Relaxed, Relaxed, keep);
    }
}
