//! Free blocks of each die, in the order in which they will be used.

use std::collections::BTreeSet;

use crate::nand::BlockId;

/// Free blocks. With dynamic wear levelling the least-erased comes first, else the one that has waited longest.
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
