//! The fewest valid pages.

use super::{BlockId, Blocks, Victims};

/// No block.
const NONE: u32 = u32::MAX;

/// A doubly linked list for each number of valid pages, so that every step takes constant time.
#[derive(Debug)]
pub(super) struct Greedy {
    heads: Vec<u32>,
    links: Vec<(u32, u32)>,
    /// No list below this one has a block.
    lowest: usize,
}

impl Greedy {
    pub(super) fn new(blocks: u32, pages_per_block: u32) -> Self {
        let heads = vec![NONE; pages_per_block as usize + 1];
        Greedy { lowest: heads.len(), heads, links: vec![(NONE, NONE); blocks as usize] }
    }

    fn link(&mut self, block: u32, valid: u32) {
        let head = std::mem::replace(&mut self.heads[valid as usize], block);
        self.links[block as usize] = (NONE, head);
        if head != NONE {
            self.links[head as usize].0 = block;
        }
        self.lowest = self.lowest.min(valid as usize);
    }

    fn unlink(&mut self, block: u32, valid: u32) {
        let (before, after) = self.links[block as usize];
        match before {
            NONE => self.heads[valid as usize] = after,
            before => self.links[before as usize].1 = after,
        }
        if after != NONE {
            self.links[after as usize].0 = before;
        }
    }
}

impl Victims for Greedy {
    fn add(&mut self, block: BlockId, valid: u32) {
        self.link(block.0, valid);
    }

    fn drop_page(&mut self, block: BlockId, valid: u32) {
        self.unlink(block.0, valid + 1);
        self.link(block.0, valid);
    }

    fn remove(&mut self, block: BlockId, valid: u32) {
        self.unlink(block.0, valid);
    }

    fn choose(&mut self, _blocks: &Blocks, _now: u64) -> Option<BlockId> {
        while self.lowest < self.heads.len() && self.heads[self.lowest] == NONE {
            self.lowest += 1;
        }
        let block = *self.heads.get(self.lowest)?;
        self.unlink(block, self.lowest as u32);
        Some(BlockId(block))
    }
}
