//! What a volume is written to: segments of pages, each written in order and erased as a whole.

mod device;
mod nand;

pub use device::DeviceMedium;
pub use nand::NandMedium;

use std::sync::Arc;

use crate::error::Result;
use crate::key::PageKey;
pub use crate::word::Physical;
use crate::word::{PAGE_BYTES, PageBytes};

/// How a medium is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// How many segments.
    pub segments: u32,
    /// Pages of each.
    pub pages_per_segment: u32,
}

impl Geometry {
    /// Page `index` of a segment.
    #[must_use]
    pub fn page(&self, segment: u32, index: u32) -> Physical {
        Physical(segment * self.pages_per_segment + index)
    }

    /// The segment of a page, and the page's number there.
    #[must_use]
    pub fn split(&self, page: Physical) -> (u32, u32) {
        (page.0 / self.pages_per_segment, page.0 % self.pages_per_segment)
    }

    /// Pages of all segments.
    #[must_use]
    pub fn pages(&self) -> u64 {
        u64::from(self.segments) * u64::from(self.pages_per_segment)
    }
}

/// What is programmed beside a page, where the medium has room for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beside {
    /// Whose bytes; `None` for blocks and anchors.
    pub key: Option<PageKey>,
    /// CRC32C of the page's bytes.
    pub crc: u32,
    /// Sequence of the block that names it.
    pub sequence: u64,
}

/// Segments that hold anchors at least: one is erased only when the other holds the newest.
pub const ANCHOR_SEGMENTS_MIN: u32 = 2;

/// Segments of pages.
///
/// All methods may be called from many threads at once; a page is only read once its append has returned.
pub trait Medium: Send + Sync {
    /// How it is divided.
    fn geometry(&self) -> Geometry;

    /// Whether a segment can not be written or erased any more. What it holds can still be read.
    fn is_bad(&self, segment: u32) -> bool;

    /// How many segments hold anchors, the first of the medium. Where segments fail there are more than the two that take turns.
    fn anchor_segments(&self) -> u32 {
        ANCHOR_SEGMENTS_MIN
    }

    /// How often an anchor is written. Once where the medium mends its bits itself, and each copy wears it.
    fn anchor_copies(&self) -> u32 {
        2
    }

    /// How often a segment was erased; 0 where nobody counts.
    fn erases(&self, segment: u32) -> u32;

    /// Reads one page.
    ///
    /// # Errors
    /// The medium's.
    fn read(&self, at: Physical, bytes: &mut PageBytes) -> Result<()>;

    /// Reads consecutive pages of one segment. A page that was never written has any bytes.
    ///
    /// # Errors
    /// The medium's.
    fn read_run(&self, at: Physical, bytes: &mut [u8]) -> Result<()>;

    /// Reads consecutive pages of one segment at once, or if that fails one by one. Says which could be read.
    fn read_readable(&self, at: Physical, bytes: &mut [u8]) -> Vec<bool> {
        if self.read_run(at, bytes).is_ok() {
            return vec![true; bytes.len() / PAGE_BYTES];
        }
        let pages = bytes.chunks_exact_mut(PAGE_BYTES).zip(at.0..);
        pages.map(|(page, number)| self.read_run(Physical(number), page).is_ok()).collect()
    }

    /// Reads runs of consecutive pages from anywhere, as many at a time as the medium likes.
    ///
    /// # Errors
    /// The first that failed.
    fn read_many(&self, runs: &mut [(Physical, &mut [u8])]) -> Result<()> {
        runs.iter_mut().try_for_each(|(at, bytes)| self.read_run(*at, bytes))
    }

    /// Writes the next pages of a segment; each segment is written from its first page to its last, and each page once.
    ///
    /// # Errors
    /// The medium's; which of the pages were written is unknown then. A segment that failed is bad from now on.
    ///
    /// # Durability
    /// None before [`Medium::sync`].
    fn append(&self, at: Physical, bytes: &[u8], beside: &[Beside]) -> Result<()>;

    /// Makes a segment writable from its first page, if need be by erasing it.
    ///
    /// # Errors
    /// The medium's; one that cannot be erased any more is bad from now on.
    fn prepare(&self, segment: u32) -> Result<()>;

    /// Makes sure that nothing of what a prepared segment held can be read again.
    ///
    /// # Errors
    /// The medium's.
    fn wipe(&self, segment: u32) -> Result<()>;

    /// Says that nobody needs a segment's bytes any more: TRIM, where the medium knows it.
    ///
    /// # Errors
    /// The medium's.
    fn discard(&self, segment: u32) -> Result<()>;

    /// Makes all that was appended durable.
    ///
    /// # Errors
    /// The medium's.
    fn sync(&self) -> Result<()>;
}

/// A pointer to a medium is a medium.
impl<M: Medium + ?Sized> Medium for Arc<M> {
    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }

    fn is_bad(&self, segment: u32) -> bool {
        (**self).is_bad(segment)
    }

    fn anchor_segments(&self) -> u32 {
        (**self).anchor_segments()
    }

    fn anchor_copies(&self) -> u32 {
        (**self).anchor_copies()
    }

    fn erases(&self, segment: u32) -> u32 {
        (**self).erases(segment)
    }

    fn read(&self, at: Physical, bytes: &mut PageBytes) -> Result<()> {
        (**self).read(at, bytes)
    }

    fn read_run(&self, at: Physical, bytes: &mut [u8]) -> Result<()> {
        (**self).read_run(at, bytes)
    }

    fn read_many(&self, runs: &mut [(Physical, &mut [u8])]) -> Result<()> {
        (**self).read_many(runs)
    }

    fn append(&self, at: Physical, bytes: &[u8], beside: &[Beside]) -> Result<()> {
        (**self).append(at, bytes, beside)
    }

    fn prepare(&self, segment: u32) -> Result<()> {
        (**self).prepare(segment)
    }

    fn wipe(&self, segment: u32) -> Result<()> {
        (**self).wipe(segment)
    }

    fn discard(&self, segment: u32) -> Result<()> {
        (**self).discard(segment)
    }

    fn sync(&self) -> Result<()> {
        (**self).sync()
    }
}
