//! How full the target is, and whether it was filled in order: the study's two tables.

use super::{DEPTH, Probe};
use crate::control::Stop;
use crate::load::Limits;
use crate::report::{FillMeasurement, FillState, Job, Measurement, Pattern};

/// Block of sequential transfers in the study's table.
const SEQUENTIAL_BYTES: u32 = 64 << 10;
/// A round of these loads is shorter than others: there are many, and random writes must not fragment what is to be fresh.
const SHARE: f64 = 0.5;
/// Rounds of random writes that fragment, where time is not simulated.
const FRAGMENTING_ROUNDS: f64 = 4.0;

impl Probe<'_> {
    pub(super) fn fill_levels(&mut self) -> Result<(), Stop> {
        if !self.ground.can_discard() {
            let text =
                "Fill levels are of the probe's file: how full the device below it is was not in its hands.";
            self.report.notes.push(text.into());
        }
        for percent in self.plan.fills.clone() {
            let span_bytes = self.random_writes().span_bytes;
            let full_bytes = span_bytes / 100 * u64::from(percent) / (1 << 20) * (1 << 20);
            self.discard_from(0)?;
            self.write_once(full_bytes)?;
            self.measure_fill(percent, FillState::Fresh, full_bytes)?;
            self.fragment(full_bytes)?;
            self.measure_fill(percent, FillState::Fragmented, full_bytes)?;
        }
        Ok(())
    }

    /// Overwrites the full part at random: as often as needed to reach its steady state where time is simulated, else for a while.
    fn fragment(&mut self, full_bytes: u64) -> Result<(), Stop> {
        let job = Job { span_bytes: full_bytes, ..self.random_writes() };
        let limits = if self.queue.is_simulated() {
            Limits {
                duration_ns: u64::MAX,
                ios: 2 * full_bytes / u64::from(job.block_bytes),
                written_bytes: u64::MAX,
            }
        } else {
            self.limits(FRAGMENTING_ROUNDS)
        };
        self.round(&job, limits)?;
        Ok(())
    }

    fn measure_fill(&mut self, fill_percent: u8, state: FillState, full_bytes: u64) -> Result<(), Stop> {
        let loads = [
            (Pattern::Sequential, 100, SEQUENTIAL_BYTES),
            (Pattern::Random, 100, self.page_bytes()),
            (Pattern::Sequential, 0, SEQUENTIAL_BYTES),
            (Pattern::Random, 0, self.page_bytes()),
        ];
        for (pattern, read_percent, block_bytes) in loads {
            let job = Job { span_bytes: full_bytes, ..self.job(pattern, read_percent, block_bytes, DEPTH) };
            // A short round on a fresh device: what random writes do to it must not be part of the figure.
            let rounds = vec![self.round(&job, self.limits(SHARE))?];
            let measurement = Measurement { job, rounds };
            self.report.fill.push(FillMeasurement { fill_percent, state, measurement });
        }
        Ok(())
    }
}
