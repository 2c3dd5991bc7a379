//! Which block is cleaned next, by five policies.

use std::collections::VecDeque;
use std::fmt::Debug;

use aquifer_base::random::Random;

use super::blocks::Blocks;
use crate::nand::BlockId;

/// Which block is cleaned next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VictimPolicy {
    /// Any, with equal chances.
    Random,
    /// The one that was filled longest ago (also called LRW).
    Fifo,
    /// The one with the fewest valid pages.
    Greedy,
    /// The one with the fewest valid pages of `d` blocks drawn at random (Van Houdt, SIGMETRICS 2013; also
    /// called RGA).
    Choices(u32),
    /// The one with the largest age x (1 - u) / 2u, where u is its share of valid pages (Kawaguchi, Nishioka, Motoda, USENIX 1995).
    CostBenefit,
}

/// The blocks that may be cleaned, in whatever order a policy needs.
pub(super) trait Victims: Debug + Send {
    /// A block was filled.
    fn add(&mut self, block: BlockId, valid: u32);

    /// A page of a block that was added has become garbage; `valid` are left.
    fn drop_page(&mut self, block: BlockId, valid: u32);

    /// Takes a block away without choosing it.
    fn remove(&mut self, block: BlockId, valid: u32);

    /// Chooses a block and takes it away. `now` is the newest sequence.
    fn choose(&mut self, blocks: &Blocks, now: u64) -> Option<BlockId>;
}

impl VictimPolicy {
    pub(super) fn make(self, blocks: u32, pages_per_block: u32, seed: u64) -> Box<dyn Victims> {
        match self {
            VictimPolicy::Random => Box::new(Choices::new(1, blocks, seed)),
            VictimPolicy::Choices(count) => Box::new(Choices::new(count, blocks, seed)),
            VictimPolicy::Fifo => Box::new(Fifo::default()),
            VictimPolicy::Greedy => Box::new(Greedy::new(blocks, pages_per_block)),
            VictimPolicy::CostBenefit => Box::new(CostBenefit::new(pages_per_block)),
        }
    }
}

/// Where a block is not.
const NOWHERE: u32 = u32::MAX;

/// The emptiest of some blocks that are drawn at random. The blocks are in no order.
#[derive(Debug)]
struct Choices {
    count: u32,
    blocks: Vec<BlockId>,
    /// Where each block is in `blocks`.
    places: Vec<u32>,
    dice: Random,
}

impl Choices {
    /// Draws `count` times, with replacement.
    fn new(count: u32, blocks: u32, seed: u64) -> Self {
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

/// First filled, first cleaned: blocks in the order in which they were filled.
#[derive(Debug, Default)]
struct Fifo(VecDeque<BlockId>);

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

/// No block.
const NONE: u32 = u32::MAX;

/// The fewest valid pages: a doubly linked list for each number of valid pages, so that every step takes constant time. Of several blocks with as few, the one goes
/// first that has had so few for longest: so all of them take part in wear.
#[derive(Debug)]
struct Greedy {
    /// First and last block of each list.
    ends: Vec<(u32, u32)>,
    /// Neighbours of each block.
    links: Vec<(u32, u32)>,
    /// No list below this one has a block.
    lowest: usize,
}

impl Greedy {
    fn new(blocks: u32, pages_per_block: u32) -> Self {
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

/// Old and empty. Looks at all blocks each time: ages change with every write.
#[derive(Debug)]
struct CostBenefit {
    pages_per_block: f64,
    blocks: Vec<BlockId>,
}

impl CostBenefit {
    fn new(pages_per_block: u32) -> Self {
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
