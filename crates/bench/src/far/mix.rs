//! What the clients of memcached ask for.
//!
//! After the pools ETC and SYS of Atikoglu et al. ("Workload analysis of a large-scale key-value store", 2012) with the shares of gets and sets
//! that the Infiniswap paper gives them. What is made up: keys are drawn by Zipf 0.99 among all of them, and scattered; lengths of values are
//! one of four, drawn for each key, where the pools' go on without end; nothing is deleted and nothing expires.

use super::program::Program;
use crate::distribution::Distribution;
use crate::memcached::load::Point;
use crate::memcached::value::{ITEM_HEADER_BYTES, Sizes};

/// Percent of the keys, and bytes of their values: 292 on average.
const VALUES: Sizes = Sizes::Mixed(&[(30, 64), (35, 200), (25, 400), (10, 1024)]);
const ETC_GET_PERCENT: u32 = 95;
const SYS_GET_PERCENT: u32 = 75;

/// Requests of the clients.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mix {
    /// Percent that get; the others set.
    pub get_percent: u32,
    /// Lengths of the values.
    pub sizes: Sizes,
}

impl Mix {
    /// Of a program that is memcached.
    pub fn of(program: Program) -> Self {
        let get_percent = if program == Program::Sys { SYS_GET_PERCENT } else { ETC_GET_PERCENT };
        Self { get_percent, sizes: VALUES }
    }

    /// Keys whose items take so many bytes.
    pub fn items(self, data_bytes: u64) -> u64 {
        (data_bytes as f64 / (self.sizes.mean() + ITEM_HEADER_BYTES as f64)) as u64
    }

    /// As it is told to the clients.
    pub fn point(self, clients: usize) -> Point {
        Point { distribution: Distribution::Zipf, get_percent: self.get_percent, clients, pipeline: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixes_are_those_of_the_paper_with_small_values() {
        let (etc, sys) = (Mix::of(Program::Etc), Mix::of(Program::Sys));
        assert_eq!((etc.get_percent, sys.get_percent), (95, 75));
        assert!((290.0..295.0).contains(&etc.sizes.mean()), "{}", etc.sizes.mean());
        let items = etc.items(64 << 20);
        let bytes: u64 = (0..items).map(|key| etc.sizes.of(key) as u64 + ITEM_HEADER_BYTES).sum();
        assert!(bytes.abs_diff(64 << 20) < 1 << 20, "{bytes}");
    }
}
