//! Old and empty.

use super::{BlockId, Blocks, Victims};

/// Looks at all blocks each time: ages change with every write.
#[derive(Debug)]
pub(super) struct CostBenefit {
    pages_per_block: f64,
    blocks: Vec<BlockId>,
}

impl CostBenefit {
    pub(super) fn new(pages_per_block: u32) -> Self {
        CostBenefit { pages_per_block: pages_per_block.into(), blocks: Vec::new() }
    }

    fn worth(&self, blocks: &Blocks, block: BlockId, now: u64) -> f64 {
        let used = f64::from(blocks[block].valid) / self.pages_per_block;
        let age = (now - blocks[block].newest) as f64;
        if used == 0.0 { f64::INFINITY } else { age * (1.0 - used) / (2.0 * used) }
    }
}

impl Victims for CostBenefit {
    fn add(&mut self, block: BlockId, _valid: u32) {
        self.blocks.push(block);
    }

    fn drop_page(&mut self, _block: BlockId, _valid: u32) {}

    fn remove(&mut self, block: BlockId, _valid: u32) {
        self.blocks.retain(|&other| other != block);
    }

    fn choose(&mut self, blocks: &Blocks, now: u64) -> Option<BlockId> {
        let worth = |at: &usize| self.worth(blocks, self.blocks[*at], now);
        let best = (0..self.blocks.len()).max_by(|a, b| worth(a).total_cmp(&worth(b)))?;
        Some(self.blocks.swap_remove(best))
    }
}
