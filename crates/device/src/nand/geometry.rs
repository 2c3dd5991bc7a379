//! How many of everything, and the numbers of blocks and pages.

use std::fmt;

/// Channels, each with dies, each with planes of blocks of pages. A die does one thing at a time, and so does a channel; a plane is part
/// of a block's address and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Buses between the controller and the dies.
    pub channels: u32,
    /// Dies on each bus.
    pub dies_per_channel: u32,
    /// Planes of each die.
    pub planes_per_die: u32,
    /// Erase blocks of each plane.
    pub blocks_per_plane: u32,
    /// Pages of each erase block.
    pub pages_per_block: u32,
    /// Bytes of each page: a power of two from 512 to 65536. The out-of-band bytes come on top.
    pub page_bytes: u32,
}

/// Why there is no such device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GeometryError {
    /// Something is zero.
    #[error("channels, dies, planes, blocks and pages must all be at least 1")]
    Empty,
    /// Not a page size.
    #[error("{0} bytes are no size of a page; use a power of two from 512 to 65536")]
    PageBytes(u32),
    /// More than page numbers can tell apart.
    #[error("{0} pages are too many; the most is 4294967040")]
    TooManyPages(u64),
}

/// Page numbers above this have other meanings in tables.
const PAGES_MAX: u64 = u32::MAX as u64 - 255;

impl Geometry {
    /// One channel with one die and one plane, for studies in which only numbers of pages matter.
    #[must_use]
    pub fn single_die(blocks: u32, pages_per_block: u32, page_bytes: u32) -> Self {
        Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: blocks,
            pages_per_block,
            page_bytes,
        }
    }

    /// Checks that a device of this geometry can exist.
    ///
    /// # Errors
    /// [`GeometryError`].
    pub fn check(&self) -> Result<(), GeometryError> {
        let counts = [
            self.channels,
            self.dies_per_channel,
            self.planes_per_die,
            self.blocks_per_plane,
            self.pages_per_block,
        ];
        if counts.contains(&0) {
            return Err(GeometryError::Empty);
        }
        if !self.page_bytes.is_power_of_two() || !(512..=65536).contains(&self.page_bytes) {
            return Err(GeometryError::PageBytes(self.page_bytes));
        }
        let pages = counts.iter().try_fold(1u64, |product, &count| product.checked_mul(count.into()));
        match pages {
            Some(pages) if pages <= PAGES_MAX => Ok(()),
            pages => Err(GeometryError::TooManyPages(pages.unwrap_or(u64::MAX))),
        }
    }

    /// Dies on all channels.
    #[must_use]
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Blocks of one die.
    #[must_use]
    pub fn blocks_per_die(&self) -> u32 {
        self.planes_per_die * self.blocks_per_plane
    }

    /// Blocks on all dies.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.dies() * self.blocks_per_die()
    }

    /// Pages of all blocks.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.blocks() * self.pages_per_block
    }

    /// Bytes of all pages, good or bad, without the out-of-band bytes.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        u64::from(self.pages()) * u64::from(self.page_bytes)
    }

    /// The die that a block is on, counted through channels: neighbours are on different channels.
    #[must_use]
    pub fn die_of(&self, block: BlockId) -> u32 {
        block.0 / self.blocks_per_die()
    }

    /// The channel that a die is on.
    #[must_use]
    pub fn channel_of(&self, die: u32) -> u32 {
        die % self.channels
    }

    /// The plane of its die that a block is in.
    #[must_use]
    pub fn plane_of(&self, block: BlockId) -> u32 {
        block.0 % self.blocks_per_die() / self.blocks_per_plane
    }

    /// Page number `index` of a block.
    #[must_use]
    pub fn page(&self, block: BlockId, index: u32) -> PageId {
        PageId::of(block, index, self.pages_per_block)
    }
}

/// One erase block, counted through planes, dies and channels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlockId(pub u32);

/// One page, counted through blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PageId(pub u32);

impl PageId {
    /// Page number `index` of a block of `pages_per_block`.
    #[must_use]
    pub fn of(block: BlockId, index: u32, pages_per_block: u32) -> Self {
        PageId(block.0 * pages_per_block + index)
    }

    /// The block it is in, and its number there.
    #[must_use]
    pub fn split(self, pages_per_block: u32) -> (BlockId, u32) {
        (BlockId(self.0 / pages_per_block), self.0 % pages_per_block)
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        channels: 2,
        dies_per_channel: 3,
        planes_per_die: 2,
        blocks_per_plane: 10,
        pages_per_block: 16,
        page_bytes: 4096,
    };

    #[test]
    fn everything_has_its_place() {
        assert_eq!((GEOMETRY.dies(), GEOMETRY.blocks(), GEOMETRY.pages()), (6, 120, 1920));
        assert_eq!(GEOMETRY.raw_bytes(), 1920 * 4096);
        let block = BlockId(53);
        assert_eq!((GEOMETRY.die_of(block), GEOMETRY.plane_of(block)), (2, 1));
        assert_eq!(GEOMETRY.channel_of(2), 0);
        assert_eq!(GEOMETRY.page(block, 5).split(16), (block, 5));
    }

    #[test]
    fn impossible_geometries_are_refused() {
        let with = |change: fn(&mut Geometry)| {
            let mut geometry = GEOMETRY;
            change(&mut geometry);
            geometry.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|g| g.planes_per_die = 0), Err(GeometryError::Empty));
        assert_eq!(with(|g| g.page_bytes = 5000), Err(GeometryError::PageBytes(5000)));
        assert!(matches!(with(|g| g.blocks_per_plane = u32::MAX), Err(GeometryError::TooManyPages(_))));
        let all = |g: &mut Geometry| {
            (g.channels, g.dies_per_channel, g.blocks_per_plane) = (u32::MAX, u32::MAX, u32::MAX)
        };
        assert_eq!(with(all), Err(GeometryError::TooManyPages(u64::MAX)));
    }
}
