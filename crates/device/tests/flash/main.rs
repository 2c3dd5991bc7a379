//! Emulated flash and its translation layer: rules, power cuts, wear, time.

mod cuts;
mod files;
mod layer;
mod rules;
mod wear;

use aquifer_device::ftl::{Ftl, FtlOptions};
use aquifer_device::nand::{Geometry, Nand, NandOptions};

/// xorshift64.
pub struct Random(pub u64);

impl Random {
    /// A number from 0 to `bound - 1`.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u32
    }
}

/// Flash in memory.
pub fn nand(geometry: Geometry) -> Nand {
    Nand::new(NandOptions::new(geometry)).unwrap()
}

/// A layer with default policies on new flash.
pub fn ftl(geometry: Geometry, over_provisioning: f64) -> Ftl {
    Ftl::open(nand(geometry), FtlOptions { over_provisioning, ..FtlOptions::default() }).unwrap()
}

/// A page of which every 8 bytes tell `tag`.
pub fn page(tag: u64) -> Vec<u8> {
    tag.to_le_bytes().repeat(512 / 8)
}
