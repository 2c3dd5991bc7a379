//! What page table, file system and flash translation layer take together where each has a map of its own.
//!
//! Constants: a page-table entry of 8 bytes for each page of 4 KiB that is mapped (x86-64, ARMv8); ext4's extents of 12 bytes, 340 of them in a block
//! of 4096 bytes after its header of 12 bytes and its checksum of 4, and above them index entries of 12 bytes, as many in a block; an extent has at
//! most 32768 blocks, 128 MiB; an FTL that maps pages has 4 bytes for each (up to 16 TiB) or 8.

use crate::study::Fields;

/// Bytes of a page-table entry.
pub const PAGE_TABLE_BYTES: f64 = 8.0;
const BLOCK_BYTES: f64 = 4096.0;
/// Of a block of the extent tree.
const EXTENTS_OF_BLOCK: f64 = 340.0;
/// Of an extent.
const PAGES_OF_EXTENT_MAX: f64 = 32768.0;

/// Bytes for each page.
#[derive(Clone, PartialEq, Debug)]
pub struct Conventional {
    /// What is assumed.
    pub name: String,
    /// The process's page table, in RAM.
    pub page_table: f64,
    /// The file's extent tree, on the device and, when it is used, in RAM.
    pub extents: f64,
    /// The translation layer's map, on the device and, when it is used, in its RAM.
    pub ftl: f64,
}

impl Conventional {
    /// All three.
    pub fn sum(&self) -> f64 {
        self.page_table + self.extents + self.ftl
    }

    /// As of a study.
    pub fn figures(&self) -> Fields {
        Fields::default()
            .with("flash_each", self.extents + self.ftl)
            .with("page_table_each", self.page_table)
            .with("extents_each", self.extents)
            .with("ftl_each", self.ftl)
            .with("sum_each", self.sum())
    }
}

/// Bytes of the extent tree for each page.
fn extents_each(pages_of_extent: f64) -> f64 {
    let leaves = BLOCK_BYTES / EXTENTS_OF_BLOCK;
    let above = leaves / EXTENTS_OF_BLOCK;
    (leaves + above) / pages_of_extent
}

/// From the least to the most.
pub fn stacks() -> Vec<Conventional> {
    let extents = [("extents of 128 MiB", PAGES_OF_EXTENT_MAX), ("an extent for each page", 1.0)];
    let ftls = [("4 bytes", 4.0), ("8 bytes", 8.0)];
    let mut stacks = Vec::new();
    for (extent, pages) in extents {
        for (ftl, ftl_bytes) in ftls {
            stacks.push(Conventional {
                name: format!("conventional: {extent}, FTL of {ftl}"),
                page_table: PAGE_TABLE_BYTES,
                extents: extents_each(pages),
                ftl: ftl_bytes,
            });
        }
    }
    stacks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_constants() {
        let sums: Vec<f64> = stacks().iter().map(Conventional::sum).collect();
        assert!((sums[0] - 12.0).abs() < 0.001, "{sums:?}");
        assert!((sums[1] - 16.0).abs() < 0.001, "{sums:?}");
        assert!((sums[2] - (12.0 + 4096.0 / 340.0 * (1.0 + 1.0 / 340.0))).abs() < 1e-9, "{sums:?}");
        assert!((sums[3] - 28.08).abs() < 0.01, "{sums:?}");
    }
}
