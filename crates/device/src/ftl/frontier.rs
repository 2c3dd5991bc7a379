//! Open blocks: where the next page goes.

use crate::nand::{BlockId, Nand, PageId};

use super::blocks::{End, FreeBlocks};

/// Why a page is programmed, and on which die where that is not the host's choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stream {
    /// For the host, or for the layer's own metadata.
    Host,
    /// To empty a block of this die.
    Cleaning(u32),
    /// To let a block of this die with few erases be used.
    Leveling(u32),
}

/// The open blocks of one stream, at most one on each die.
#[derive(Debug)]
pub(super) struct Frontier {
    open: Vec<Option<BlockId>>,
    next_die: u32,
    end: End,
}

impl Frontier {
    pub(super) fn new(dies: u32, end: End) -> Self {
        Frontier { open: vec![None; dies as usize], next_die: 0, end }
    }

    /// Dies in the order in which the next page would like them: those with the least to do first, in turn if all are idle.
    pub(super) fn dies_by_load(&self, nand: &Nand, at_ns: u64) -> Vec<u32> {
        let count = nand.geometry().dies();
        let mut dies: Vec<u32> = (0..count).map(|step| (self.next_die + step) % count).collect();
        if count > 1 {
            dies.sort_by_cached_key(|&die| nand.program_end_ns(die, at_ns));
        }
        dies
    }

    /// Whether a block is open on the die.
    pub(super) fn is_open_on(&self, die: u32) -> bool {
        self.open[die as usize].is_some()
    }

    /// The page of the die to program next, in a free block if none is open. `None` without either.
    pub(super) fn page_on(&mut self, die: u32, nand: &Nand, free: &mut FreeBlocks) -> Option<PageId> {
        if !self.is_open_on(die) {
            self.open[die as usize] = free.take(die, self.end);
        }
        let block = self.open[die as usize]?;
        self.next_die = (die + 1) % nand.geometry().dies();
        Some(nand.geometry().page(block, nand.used_pages(block)))
    }

    /// Takes a block that is open after recovery; false when its die has one already.
    pub(super) fn adopt(&mut self, die: u32, block: BlockId) -> bool {
        let may = !self.is_open_on(die);
        if may {
            self.open[die as usize] = Some(block);
        }
        may
    }

    /// Forgets a block that is full or bad.
    pub(super) fn close(&mut self, block: BlockId) {
        for slot in &mut self.open {
            if *slot == Some(block) {
                *slot = None;
            }
        }
    }
}
