//! Which block is cleaned next. One file for each policy.

mod choices;
mod cost_benefit;
mod fifo;
mod greedy;

use std::fmt::Debug;

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
            VictimPolicy::Random => Box::new(choices::Choices::new(1, blocks, seed)),
            VictimPolicy::Choices(count) => Box::new(choices::Choices::new(count, blocks, seed)),
            VictimPolicy::Fifo => Box::new(fifo::Fifo::default()),
            VictimPolicy::Greedy => Box::new(greedy::Greedy::new(blocks, pages_per_block)),
            VictimPolicy::CostBenefit => Box::new(cost_benefit::CostBenefit::new(pages_per_block)),
        }
    }
}
