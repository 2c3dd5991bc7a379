//! How a translation layer works.

use super::VictimPolicy;

/// Whether pages of the host and pages that the cleaner moves share blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Frontiers {
    /// One open block (for each die) for both.
    Shared,
    /// One each: moved pages are colder than new ones.
    #[default]
    Separate,
}

/// How erases are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WearLeveling {
    /// New pages go to the free block with the fewest erases, rather than to the one that has waited longest.
    pub dynamic: bool,
    /// Moves the content of the least-erased block to a worn one, once the two differ by this number of
    /// erases. `None` leaves cold blocks alone.
    pub static_threshold: Option<u32>,
}

impl Default for WearLeveling {
    fn default() -> Self {
        WearLeveling { dynamic: true, static_threshold: None }
    }
}

/// How a translation layer works. Every setting has a default.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FtlOptions {
    /// Spare pages by user pages, (T - U) / U. T are the pages of blocks that are good at the start.
    pub over_provisioning: f64,
    /// Free blocks of each die that only the cleaner may use, at least 1. It works while no more than one beyond them is free.
    pub reserve_blocks_per_die: u32,
    /// Which block is cleaned.
    pub victim: VictimPolicy,
    /// Where moved pages go.
    pub frontiers: Frontiers,
    /// How erases are spread.
    pub wear_leveling: WearLeveling,
    /// Of all that is random.
    pub seed: u64,
}

impl Default for FtlOptions {
    fn default() -> Self {
        FtlOptions {
            over_provisioning: 0.07,
            reserve_blocks_per_die: 1,
            victim: VictimPolicy::Greedy,
            frontiers: Frontiers::default(),
            wear_leveling: WearLeveling::default(),
            seed: 1,
        }
    }
}
