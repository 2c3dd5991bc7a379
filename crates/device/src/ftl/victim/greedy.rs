//! The fewest valid pages.

use super::{BlockId, Blocks, Victims};

/// No block.
const NONE: u32 = u32::MAX;

/// A doubly linked list for each number of valid pages, so that every step takes constant time. Of several blocks with as few, the one goes
/// first that has had so few for longest: so all of them take part in wear.
#[derive(Debug)]
pub(super) struct Greedy {
    /// First and last block of each list.
    ends: Vec<(u32, u32)>,
    /// Neighbours of each block.
    links: Vec<(u32, u32)>,
    /// No list below this one has a block.
    lowest: usize,
}

impl Greedy {
    pub(super) fn new(blocks: u32, pages_per_block: u32) -> Self {
        let ends = vec![(NONE, NONE); pages_per_block as usize + 1];
        Greedy { lowest: ends.len(), ends, links: vec![(NONE, NONE); blocks as usize] }
    }

    fn link(&mut self, block: u32, valid: u32) {
        let (first, last) = &mut self.ends[valid as usize];
        self.links[block as usize] = (*last, NONE);
        match std::mem::replace(last, block) {
            NONE => *first = block,
            last => self.links[last as usize].1 = block,
        }
        self.lowest = self.lowest.min(valid as usize);
    }

    fn unlink(&mut self, block: u32, valid: u32) {
        let (before, after) = self.links[block as usize];
        let ends = &mut self.ends[valid as usize];
        match before {
            NONE => ends.0 = after,
            before => self.links[before as usize].1 = after,
        }
        match after {
            NONE => ends.1 = before,
            after => self.links[after as usize].0 = before,
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
        while self.ends.get(self.lowest).is_some_and(|&(first, _)| first == NONE) {
            self.lowest += 1;
        }
        let &(block, _) = self.ends.get(self.lowest)?;
        self.unlink(block, self.lowest as u32);
        Some(BlockId(block))
    }
}
