//! The emptiest of some that are drawn at random.

use aquifer_base::random::Random;

use super::{BlockId, Blocks, Victims};

/// Where a block is not.
const NOWHERE: u32 = u32::MAX;

/// Blocks in no order.
#[derive(Debug)]
pub(super) struct Choices {
    count: u32,
    blocks: Vec<BlockId>,
    /// Where each block is in `blocks`.
    places: Vec<u32>,
    dice: Random,
}

impl Choices {
    /// Draws `count` times, with replacement.
    pub(super) fn new(count: u32, blocks: u32, seed: u64) -> Self {
        let places = vec![NOWHERE; blocks as usize];
        Choices { count, blocks: Vec::new(), places, dice: Random::new(seed) }
    }
}

impl Victims for Choices {
    fn add(&mut self, block: BlockId, _valid: u32) {
        self.places[block.0 as usize] = self.blocks.len() as u32;
        self.blocks.push(block);
    }

    fn drop_page(&mut self, _block: BlockId, _valid: u32) {}

    fn remove(&mut self, block: BlockId, _valid: u32) {
        let place = std::mem::replace(&mut self.places[block.0 as usize], NOWHERE);
        self.blocks.swap_remove(place as usize);
        if let Some(moved) = self.blocks.get(place as usize) {
            self.places[moved.0 as usize] = place;
        }
    }

    fn choose(&mut self, blocks: &Blocks, _now: u64) -> Option<BlockId> {
        if self.blocks.is_empty() {
            return None;
        }
        let mut draw = || self.blocks[self.dice.below(self.blocks.len() as u64) as usize];
        let first = draw();
        let emptier = |a: BlockId, b: BlockId| if blocks[b].valid < blocks[a].valid { b } else { a };
        let chosen = (1..self.count).fold(first, |best, _| emptier(best, draw()));
        self.remove(chosen, blocks[chosen].valid);
        Some(chosen)
    }
}
