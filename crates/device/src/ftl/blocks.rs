//! What the translation layer knows of blocks, and which of them are free.

use std::collections::BTreeSet;

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

/// Free blocks of each die, in the order in which they will be used. With dynamic wear levelling the least-erased comes first, else the one that has waited longest.
#[derive(Debug)]
pub(super) struct FreeBlocks {
    dies: Vec<BTreeSet<(u64, BlockId)>>,
    by_erases: bool,
    arrivals: u64,
}

/// Which end of the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// For new and moved pages.
    First,
    /// For cold pages, so that worn blocks may rest.
    Last,
}

impl FreeBlocks {
    pub(super) fn new(dies: u32, by_erases: bool) -> Self {
        FreeBlocks { dies: vec![BTreeSet::new(); dies as usize], by_erases, arrivals: 0 }
    }

    pub(super) fn count_on(&self, die: u32) -> u32 {
        self.dies[die as usize].len() as u32
    }

    pub(super) fn add(&mut self, die: u32, block: BlockId, erases: u32) {
        self.arrivals += 1;
        let key = if self.by_erases { erases.into() } else { self.arrivals };
        self.dies[die as usize].insert((key, block));
    }

    pub(super) fn take(&mut self, die: u32, end: End) -> Option<BlockId> {
        let blocks = &mut self.dies[die as usize];
        let (_, block) = match end {
            End::First => blocks.pop_first()?,
            End::Last => blocks.pop_last()?,
        };
        Some(block)
    }
}
