//! Open blocks: where the next page goes.

use crate::nand::{BlockId, Geometry, Nand, PageId};

use super::free::{End, FreeBlocks};

/// Why a page is programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stream {
    /// For the host, or for the layer's own metadata.
    Host,
    /// To empty a block.
    Cleaning,
    /// To let a block with few erases be used.
    Leveling,
}

/// The open blocks of one stream, at most one on each die.
#[derive(Debug)]
pub(super) struct Frontier {
    open: Vec<Option<BlockId>>,
    next_die: u32,
    end: End,
    /// Dies it may have open blocks on at the same time.
    width: u32,
}

impl Frontier {
    pub(super) fn new(dies: u32, width: u32, end: End) -> Self {
        Frontier { open: vec![None; dies as usize], next_die: 0, end, width }
    }

    /// The most blocks that it has open.
    pub(super) fn width(&self) -> u32 {
        self.width
    }

    /// Whether the next page would open a block on a die that has none open.
    pub(super) fn wants_block(&self) -> bool {
        self.open.iter().flatten().count() < self.width as usize
    }

    /// The page to program next: on the die that is idle first, in turn if all are. `may_open` allows to open a free block. `None`
    /// without an open block and without a free one.
    pub(super) fn next_page(&mut self, nand: &Nand, free: &mut FreeBlocks, may_open: bool) -> Option<PageId> {
        let geometry = *nand.geometry();
        let die = self.choose(nand, &geometry, free, may_open)?;
        self.next_die = (die + 1) % geometry.dies();
        let slot = &mut self.open[die as usize];
        if slot.is_none() {
            *slot = free.take(die, self.end);
        }
        slot.map(|block| geometry.page(block, nand.used_pages(block)))
    }

    fn choose(&self, nand: &Nand, geometry: &Geometry, free: &FreeBlocks, may_open: bool) -> Option<u32> {
        let dies = geometry.dies();
        let may_open = may_open && self.wants_block();
        let usable = |&die: &u32| self.open[die as usize].is_some() || (may_open && free.has(die));
        let in_turn = (0..dies).map(|step| (self.next_die + step) % dies);
        in_turn.filter(usable).min_by_key(|&die| nand.die_idle_ns(die))
    }

    /// Takes a block that is open after recovery; false when its die has one already or there are enough.
    pub(super) fn adopt(&mut self, die: u32, block: BlockId) -> bool {
        let may = self.wants_block() && self.open[die as usize].is_none();
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
