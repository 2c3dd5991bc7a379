//! Names of pages and blocks.

use std::fmt;

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
