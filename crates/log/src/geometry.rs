//! How a device is divided.
//!
//! ```text
//! | superblock (one block) | segment 0 | segment 1 | ... |      segment = a whole number of blocks
//! ```

use aquifer_base::LogAddress;
use aquifer_base::limits::{LOG_ADDRESS_BITS, LOG_GRAIN_BYTES};

use crate::record::Kind;
use crate::whole;

/// Number of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentId(pub u32);

/// Sizes of the parts of a log. Records never cross a block, so a block can be parsed by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Unit of writing, in bytes: a power of two, 64 KiB to 1 MiB.
    pub block_bytes: usize,
    /// Unit of cleaning, in bytes: a multiple of the block.
    pub segment_bytes: usize,
    /// How many segments there are.
    pub segments: u32,
}

/// Fewest segments with which cleaning can work.
pub const SEGMENTS_MIN: u32 = 16;
/// Fewest segments of a size that somebody asked for: the ones that are open and in reserve are a twelfth of these at most.
const SEGMENTS_OF_ASKED_MIN: u64 = 128;
/// Most segments of a size that somebody asked for, unless the log has more anyway: each takes RAM.
const SEGMENTS_OF_ASKED_MAX: u64 = 2048;

impl Geometry {
    /// A geometry for `device_bytes` with write buffers of `block_bytes`: about a thousand segments.
    /// `None` if the device is too small for [`SEGMENTS_MIN`] segments.
    pub fn choose(device_bytes: u64, block_bytes: usize) -> Option<Self> {
        let usable = usable_bytes(device_bytes, block_bytes)?;
        Self::with_blocks(usable, block_bytes, blocks_default(usable, block_bytes))
    }

    /// The same with segments of about `segment_bytes`: a whole number of blocks, not so large that cleaning lacks segments to choose
    /// from, and not so small that what is known of them takes more RAM than is set aside for it.
    pub fn choose_with_segments(device_bytes: u64, block_bytes: usize, segment_bytes: u64) -> Option<Self> {
        let usable = usable_bytes(device_bytes, block_bytes)?;
        let block = block_bytes as u64;
        let default = blocks_default(usable, block_bytes);
        let largest = (usable / block / SEGMENTS_OF_ASKED_MIN).max(1);
        let smallest = (usable / block).div_ceil(SEGMENTS_OF_ASKED_MAX).min(default);
        let blocks = (segment_bytes / block).clamp(smallest.min(largest), largest);
        Self::with_blocks(usable, block_bytes, blocks)
    }

    fn with_blocks(usable: u64, block_bytes: usize, blocks: u64) -> Option<Self> {
        let segment_bytes = block_bytes * blocks as usize;
        let segments = u32::try_from(usable / segment_bytes as u64).ok()?;
        (segments >= SEGMENTS_MIN).then_some(Self { block_bytes, segment_bytes, segments })
    }

    /// Device offset of a segment's first byte.
    pub const fn segment_offset(&self, segment: SegmentId) -> u64 {
        self.block_bytes as u64 + segment.0 as u64 * self.segment_bytes as u64
    }

    /// The segment that holds `address`; `None` outside all segments.
    pub fn segment_of(&self, address: LogAddress) -> Option<SegmentId> {
        let offset = address.offset_bytes().checked_sub(self.block_bytes as u64)?;
        let segment = offset / self.segment_bytes as u64;
        (segment < self.segments as u64).then_some(SegmentId(segment as u32))
    }

    /// Where the first record of `kind` stands in a block.
    pub const fn block_start(&self, kind: Kind) -> usize {
        match kind {
            Kind::Page | Kind::Leaf => 0,
            Kind::Whole => whole::FIRST,
        }
    }

    /// Bytes of a segment that records of `kind` can take.
    pub const fn segment_room(&self, kind: Kind) -> usize {
        self.segment_bytes - self.segment_bytes / self.block_bytes * self.block_start(kind)
    }

    /// Bytes in all segments.
    pub const fn capacity_bytes(&self) -> u64 {
        self.segments as u64 * self.segment_bytes as u64
    }

    /// Bytes from `address` to the end of its block.
    pub const fn bytes_left_in_block(&self, address: LogAddress) -> usize {
        self.block_bytes - (address.offset_bytes() % self.block_bytes as u64) as usize
    }
}

/// Bytes behind the superblock that addresses can name.
fn usable_bytes(device_bytes: u64, block_bytes: usize) -> Option<u64> {
    let usable = device_bytes.min(LOG_GRAIN_BYTES as u64 * ((1 << LOG_ADDRESS_BITS) - 1));
    usable.checked_sub(block_bytes as u64)
}

/// Blocks of a segment so that there are about a thousand.
fn blocks_default(usable: u64, block_bytes: usize) -> u64 {
    (usable / 1024 / block_bytes as u64).clamp(1, 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_map_back_to_their_segment() {
        let geometry = Geometry::choose(1 << 30, 256 << 10).unwrap();
        for n in [0, 1, geometry.segments - 1] {
            let start = geometry.segment_offset(SegmentId(n));
            assert_eq!(geometry.segment_of(LogAddress::from_offset(start)), Some(SegmentId(n)));
            let last = start + geometry.segment_bytes as u64 - 4;
            assert_eq!(geometry.segment_of(LogAddress::from_offset(last)), Some(SegmentId(n)));
        }
        assert_eq!(geometry.segment_of(LogAddress(0)), None);
    }

    #[test]
    fn segments_are_as_large_as_asked_within_bounds() {
        let block = 64 << 10;
        let asked = |device: u64, segment| {
            let geometry = Geometry::choose_with_segments(device, block, segment).unwrap();
            assert_eq!(geometry.segment_bytes % block, 0);
            (geometry.segment_bytes, geometry.segments)
        };
        assert_eq!(asked(8 << 30, 32 << 20), (32 << 20, 255));
        assert_eq!(asked(8 << 30, (5 << 20) + 1), (5 << 20, 1638), "whole blocks");
        assert_eq!(asked(1 << 30, 1 << 30), (127 * block, 129), "cleaning has segments to choose from");
        assert_eq!(asked(1 << 30, 0).0, 8 * block, "not too many");
        // A log that has more segments of itself may keep them.
        let default = Geometry::choose(64 << 30, block).unwrap();
        assert_eq!(asked(64 << 30, 0), (default.segment_bytes, default.segments));
        assert_eq!(asked(2 << 20, 1 << 20), (block, 31), "a small device has no choice");
        assert_eq!(Geometry::choose_with_segments(1 << 20, block, 1 << 20), None);
    }

    #[test]
    fn a_tiny_device_is_refused() {
        assert_eq!(Geometry::choose(1 << 20, 256 << 10), None);
    }
}
