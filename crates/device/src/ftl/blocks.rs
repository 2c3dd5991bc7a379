//! What the translation layer knows of blocks.

use crate::nand::BlockId;

/// What a block is good for at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Erased, waiting to be opened.
    Free,
    /// Being programmed.
    Open,
    /// Full, or as good as; may be cleaned.
    Closed,
    /// Being emptied or given up: no policy chooses it.
    Leaving,
    /// Never to be used again.
    Bad,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) role: Role,
    /// Pages that hold what the table says.
    pub(super) valid: u32,
    /// Sequence of its newest page.
    pub(super) newest: u64,
}

/// All blocks.
#[derive(Debug)]
pub(super) struct Blocks(Vec<Block>);

impl Blocks {
    pub(super) fn new(count: u32) -> Self {
        Blocks(vec![Block { role: Role::Free, valid: 0, newest: 0 }; count as usize])
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = BlockId> + use<> {
        (0..self.0.len() as u32).map(BlockId)
    }

    pub(super) fn with_role(&self, role: Role) -> impl Iterator<Item = BlockId> {
        self.ids().filter(move |&id| self[id].role == role)
    }
}

impl std::ops::Index<BlockId> for Blocks {
    type Output = Block;

    fn index(&self, id: BlockId) -> &Block {
        &self.0[id.0 as usize]
    }
}

impl std::ops::IndexMut<BlockId> for Blocks {
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.0[id.0 as usize]
    }
}
