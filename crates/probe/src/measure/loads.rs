//! Loads that a plan lists: pattern, direction, block and depth; mixes; parts of the span; single transfers; a reader beside writers.

use super::{DEPTH, Probe};
use crate::control::Stop;
use crate::report::{Interference, Job, Measurement, Pattern, WriteMode};

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

    /// One transfer at a time, in all write modes.
    pub(super) fn latencies(&mut self) -> Result<(), Stop> {
        for pattern in [Pattern::Sequential, Pattern::Random] {
            let read = self.job(pattern, 100, self.page_bytes(), 1);
            let measurement = self.measure(read, 1.0)?;
            self.report.latency.push(measurement);
            for write_mode in [WriteMode::Cached, WriteMode::FlushEach, WriteMode::Dsync] {
                let write = Job { write_mode, ..self.job(pattern, 0, self.page_bytes(), 1) };
                let measurement = self.measure(write, 1.0)?;
                self.report.latency.push(measurement);
            }
        }
        Ok(())
    }

    pub(super) fn readers_beside_writers(&mut self) -> Result<(), Stop> {
        for writer_depth in self.plan.writers.clone() {
            let reader = self.job(Pattern::Random, 100, self.page_bytes(), 1);
            let writer = self.job(Pattern::Random, 0, self.page_bytes(), writer_depth);
            let jobs = if writer_depth == 0 { vec![reader] } else { vec![reader, writer] };
            let mut measurements: Vec<Measurement> =
                jobs.iter().map(|job| Measurement { job: job.clone(), rounds: Vec::new() }).collect();
            for _ in 0..self.plan.rounds {
                let rounds = self.load(&jobs, self.limits(1.0))?;
                for (measurement, round) in measurements.iter_mut().zip(rounds) {
                    measurement.rounds.push(round);
                }
            }
            let mut measurements = measurements.into_iter();
            if let Some(reader) = measurements.next() {
                let writer = measurements.next();
                self.report.interference.push(Interference { writer_depth, reader, writer });
            }
        }
        Ok(())
    }
}
