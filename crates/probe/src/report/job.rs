//! What is asked of a device.

use std::fmt;

use aquifer_base::units::format_size;
use serde::{Deserialize, Serialize};

/// In which order blocks are visited.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// One after the other, from the start of the span, and again.
    Sequential,
    /// Uniformly at random, aligned to the block.
    Random,
}

/// When a write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// When the device says so; its write cache may hold it.
    Cached,
    /// When a flush of the device after it is done.
    FlushEach,
    /// When it is durable by itself (`O_DSYNC`).
    Dsync,
}

/// One closed-loop load: `depth` transfers are always under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Order of the blocks.
    pub pattern: Pattern,
    /// Share of reads, 0 to 100.
    pub read_percent: u8,
    /// Bytes of one transfer.
    pub block_bytes: u32,
    /// Transfers under way, 1 to 1024.
    pub depth: u32,
    /// When a write counts as done.
    pub write_mode: WriteMode,
    /// The part of the target that is used, from its start.
    pub span_bytes: u64,
}

impl Job {
    /// Whether nothing is written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_percent == 100
    }

    /// "read", "write", or the share of reads.
    #[must_use]
    pub fn direction(&self) -> String {
        match self.read_percent {
            100 => "read".into(),
            0 => "write".into(),
            percent => format!("{percent} % read"),
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = match self.pattern {
            Pattern::Sequential => "sequential",
            Pattern::Random => "random",
        };
        let block = format_size(self.block_bytes.into());
        write!(f, "{pattern} {} {block} depth {}", self.direction(), self.depth)?;
        match self.write_mode {
            WriteMode::Cached => Ok(()),
            WriteMode::FlushEach => f.write_str(", flush per write"),
            WriteMode::Dsync => f.write_str(", O_DSYNC"),
        }
    }
}
