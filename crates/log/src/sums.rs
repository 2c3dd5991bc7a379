//! The checksums of whole pages, in RAM: one for each place in the segments that hold them.
//!
//! Beside the page on the device, a checksum would make every read one device block longer, and unaligned.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use aquifer_base::LogAddress;
use aquifer_base::limits::OS_PAGE_BYTES;

use crate::geometry::Geometry;

type OfSegment = OnceLock<Box<[AtomicU32]>>;

/// Four bytes for each page of a segment that has held whole pages, a thousandth of it.
pub(crate) struct Sums {
    segments: Box<[OfSegment]>,
    ram_bytes: AtomicUsize,
}

impl Sums {
    pub(crate) fn new(segments: u32) -> Self {
        Self { segments: (0..segments).map(|_| OnceLock::new()).collect(), ram_bytes: AtomicUsize::new(0) }
    }

    /// RAM that they take.
    pub(crate) fn ram_bytes(&self) -> usize {
        std::mem::size_of_val(&*self.segments) + self.ram_bytes.load(Ordering::Relaxed)
    }

    /// The segment and the place in it.
    fn place(geometry: &Geometry, address: LogAddress) -> Option<(usize, usize)> {
        let segment = geometry.segment_of(address)?;
        let offset = address.offset_bytes() - geometry.segment_offset(segment);
        Some((segment.0 as usize, offset as usize / OS_PAGE_BYTES))
    }

    /// The page at `address` has this checksum from now on.
    pub(crate) fn set(&self, geometry: &Geometry, address: LogAddress, sum: u32) {
        let Some((segment, at)) = Self::place(geometry, address) else { return };
        let sums = self.segments[segment].get_or_init(|| {
            let pages = geometry.segment_bytes / OS_PAGE_BYTES;
            self.ram_bytes.fetch_add(pages * size_of::<AtomicU32>(), Ordering::Relaxed);
            (0..pages).map(|_| AtomicU32::new(0)).collect()
        });
        sums[at].store(sum, Ordering::Release);
    }

    /// The checksum of the page at `address`, if its segment has held whole pages.
    pub(crate) fn get(&self, geometry: &Geometry, address: LogAddress) -> Option<u32> {
        let (segment, at) = Self::place(geometry, address)?;
        Some(self.segments[segment].get()?.get(at)?.load(Ordering::Acquire))
    }
}
