//! Pattern, direction, block and depth; mixes; parts of the span.

use super::{DEPTH, Probe};
use crate::control::Stop;
use crate::report::{Job, Pattern};

impl Probe<'_> {
    /// Reads first at each block size: writes leave work behind that a device does when it likes.
    pub(super) fn matrix(&mut self) -> Result<(), Stop> {
        for block_bytes in self.plan.blocks.clone() {
            for read_percent in [100, 0] {
                for pattern in [Pattern::Sequential, Pattern::Random] {
                    for depth in self.plan.depths.clone() {
                        let job = self.job(pattern, read_percent, block_bytes, depth);
                        let measurement = self.measure(job, 1.0)?;
                        self.report.matrix.push(measurement);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn mixes(&mut self) -> Result<(), Stop> {
        for read_percent in self.plan.mixes.clone() {
            let job = self.job(Pattern::Random, read_percent, self.page_bytes(), DEPTH);
            let measurement = self.measure(job, 1.0)?;
            self.report.mixes.push(measurement);
        }
        Ok(())
    }

    pub(super) fn working_sets(&mut self) -> Result<(), Stop> {
        for share in self.plan.working_sets.clone() {
            for read_percent in [100, 0] {
                let whole = self.job(Pattern::Random, read_percent, self.page_bytes(), DEPTH);
                let blocks = (whole.span_bytes as f64 * share) as u64 / (1 << 20);
                let job = Job { span_bytes: blocks.max(1) << 20, ..whole };
                let measurement = self.measure(job, 1.0)?;
                self.report.working_set.push(measurement);
            }
        }
        Ok(())
    }
}
