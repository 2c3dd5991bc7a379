//! Lines of results.

use std::fmt;

use aquifer_base::units::format_size;
use serde::{Deserialize, Serialize};

use super::Contestant;
use super::point::Point;
use crate::machine::Context;

/// What the RAM of a stack goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Division {
    /// All of it.
    pub ram_bytes: u64,
    /// Pages and nodes that translate them.
    pub frames: u64,
    /// Bytes of each.
    pub frame_bytes: u64,
    /// The table of the translation layer.
    pub table_bytes: u64,
    /// Extents of the file; 0 for the volume, which has none.
    pub extents: u64,
    /// Nodes that translate the file; of the volume's, the leaves.
    pub nodes: u64,
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ram_bytes, frames, frame_bytes, table_bytes, extents, nodes } = self;
        let rest = ram_bytes - frames * frame_bytes - table_bytes;
        write!(
            f,
            "{ram_bytes} bytes = {frames} frames x {frame_bytes} + table {table_bytes} + rest {rest}; \
             {extents} extents, {nodes} nodes of {}",
            format_size(4096)
        )
    }
}

/// What was read of the flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reads {
    /// Pages of the file.
    pub pages: u64,
    /// Nodes that translate it.
    pub nodes: u64,
    /// All reads, also patches and those of cleaning.
    pub flash: u64,
}

/// What came out of a cell.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Seconds in which it was counted.
    pub seconds: f64,
    /// Accesses, each to one word of a page.
    pub accesses: u64,
    /// Time of an access by the clock, without syncs.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Processor time of the process in these seconds, waits for fast flash among it.
    pub cpu_ns: u64,
    /// Syncs of all threads.
    pub syncs: u64,
    /// Mean time of a sync.
    pub sync_ns: f64,
    /// What was read meanwhile.
    pub reads: Reads,
    /// Page tables of the process at the end, which no budget counts.
    pub vm_pte_bytes: u64,
}

/// A run of a cell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Layered {
    /// Number of the run, from 1.
    pub run: u32,
    /// Who.
    pub stack: Contestant,
    /// What.
    pub point: Point,
    /// Bytes of the file.
    pub data_bytes: u64,
    /// Part of the flash that it takes.
    pub fill_percent: u32,
    /// What the RAM went to.
    pub division: Division,
    /// What came out.
    pub measured: Measured,
    /// Machine and command.
    pub context: Context,
}

impl Layered {
    /// Accesses in a second.
    pub fn per_s(&self) -> f64 {
        self.measured.accesses as f64 / self.measured.seconds
    }

    /// Part of the accesses for which no page of the file was read.
    pub fn hits(&self) -> f64 {
        1.0 - self.per_access(self.measured.reads.pages)
    }

    /// Reads of the flash for an access.
    pub fn reads(&self) -> f64 {
        self.per_access(self.measured.reads.flash)
    }

    /// Reads of nodes for an access.
    pub fn node_reads(&self) -> f64 {
        self.per_access(self.measured.reads.nodes)
    }

    /// Processor time of an access in microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.per_access(self.measured.cpu_ns) / 1e3
    }

    fn per_access(&self, count: u64) -> f64 {
        count as f64 / self.measured.accesses.max(1) as f64
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!(
            "{}, {}: {:.0} accesses/s, {:.2} us, {:.1} % hits, {:.2} reads of which nodes {:.2}",
            self.point,
            self.stack,
            self.per_s(),
            self.measured.mean_ns / 1e3,
            100.0 * self.hits(),
            self.reads(),
            self.node_reads()
        )
    }
}
