//! First filled, first cleaned.

use std::collections::VecDeque;

use super::{BlockId, Blocks, Victims};

/// Blocks in the order in which they were filled.
#[derive(Debug, Default)]
pub(super) struct Fifo(VecDeque<BlockId>);

impl Victims for Fifo {
    fn add(&mut self, block: BlockId, _valid: u32) {
        self.0.push_back(block);
    }

    fn drop_page(&mut self, _block: BlockId, _valid: u32) {}

    fn remove(&mut self, block: BlockId, _valid: u32) {
        self.0.retain(|&other| other != block);
    }

    fn choose(&mut self, _blocks: &Blocks, _now: u64) -> Option<BlockId> {
        self.0.pop_front()
    }
}
