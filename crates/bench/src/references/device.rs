//! The device's own random reads by one thread at the depth that batches are compared with.

use std::time::Duration;

use super::sample::FioReads;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::peer::Setup;
use crate::peer::fio::Target;
use crate::progress::Progress;

/// Reads that fio keeps under way.
pub const DEPTH: usize = 32;
/// Longest wait for late writes before a measurement.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(3);
const BLOCKS_BYTES: [u64; 2] = [4096, 512];

/// fio with its file.
pub struct Probe {
    target: Target,
    time: Duration,
}

/// One measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reads {
    block_bytes: u64,
    per_s: f64,
}

impl Reads {
    /// This one together with the one of the same size in `after`.
    pub fn with_after(&self, after: &[Self]) -> Option<FioReads> {
        let after = after.iter().find(|after| after.block_bytes == self.block_bytes)?;
        let (block_bytes, before_per_s, after_per_s) = (self.block_bytes, self.per_s, after.per_s);
        Some(FioReads { block_bytes, depth: DEPTH, before_per_s, after_per_s })
    }
}

impl Probe {
    /// Writes fio's file, as large as the data.
    ///
    /// # Errors
    /// As [`Target::create`].
    pub fn create(setup: &Setup, seconds: f64, progress: &Progress) -> Result<Self> {
        let total = setup.data_bytes;
        let report = |done: u64| progress.doing(format!("fio: writing its file {} %", done * 100 / total));
        let target = Target::create(&setup.dir, total, report)?;
        Ok(Self { target, time: Duration::from_secs_f64(seconds) })
    }

    /// Both sizes of blocks, once.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with fio's words.
    pub fn measure(&self, device: &Device, progress: &Progress, run: u32) -> Result<Vec<Reads>> {
        let mut all = Vec::new();
        for block_bytes in BLOCKS_BYTES {
            progress.doing(format!("fio: {block_bytes} B, depth {DEPTH}, after run {run}"));
            device.settle(SETTLE_LIMIT)?;
            match self.target.measure_deep(block_bytes, DEPTH, self.time) {
                Ok(reads) => all.push(Reads { block_bytes, per_s: reads.ops_per_s }),
                // Disks with sectors of 4 KiB cannot read less.
                Err(error @ Error::Unavailable(_)) if block_bytes < 4096 => {
                    progress.note(&format!("fio {block_bytes} B: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_block_size_is_compared() {
        let reads = |block_bytes, per_s| Reads { block_bytes, per_s };
        let after = [reads(4096, 30.0), reads(512, 50.0)];
        let both = reads(512, 40.0).with_after(&after);
        assert_eq!(
            both,
            Some(FioReads { block_bytes: 512, depth: DEPTH, before_per_s: 40.0, after_per_s: 50.0 })
        );
        assert_eq!(reads(512, 40.0).with_after(&after[..1]), None);
    }
}
