//! What is written before anything is measured, and whether the device has come to rest.

use std::time::Instant;

use super::Probe;
use crate::control::Stop;
use crate::load::Limits;
use crate::report::{Measurement, Preconditioning, PreconditioningKind, SaturationPoint};
use crate::steady;

/// Points of the saturation curve, about.
const POINTS: f64 = 60.0;

impl Probe<'_> {
    /// Discards the target if that can be, writes it once or twice in order, and then at random: the saturation curve.
    pub(super) fn precondition(&mut self) -> Result<(), Stop> {
        let begun = Instant::now();
        let span_bytes = self.job(crate::report::Pattern::Sequential, 0, 4096, 1).span_bytes;
        let discarded = self.discard_from(0)?;
        let passes = if self.plan.full_preconditioning { 2 } else { 1 };
        let mut sequential_bytes = 0;
        for _ in 0..passes {
            sequential_bytes += self.write_once(span_bytes)?.bytes;
        }
        let random_bytes = self.saturate((span_bytes as f64 * self.plan.random_share) as u64)?;
        let kind = if self.plan.full_preconditioning {
            PreconditioningKind::Full
        } else {
            PreconditioningKind::Quick
        };
        let duration_s = begun.elapsed().as_secs_f64();
        self.report.preconditioning =
            Some(Preconditioning { kind, discarded, sequential_bytes, random_bytes, duration_s });
        Ok(())
    }

    /// Writes at random until `bytes` are written or the time is over; notes how fast it went.
    fn saturate(&mut self, bytes: u64) -> Result<u64, Stop> {
        let job = self.random_writes();
        let begun = Instant::now();
        let (mut written, mut end_s) = (0, 0.0);
        // Simulated figures must not depend on how fast this machine is.
        let random_s = if self.queue.is_simulated() { f64::INFINITY } else { self.plan.random_s };
        while written < bytes && begun.elapsed().as_secs_f64() < random_s {
            let interval = Limits {
                duration_ns: if self.queue.is_simulated() {
                    1 << 50
                } else {
                    (self.plan.random_s / POINTS * 1e9) as u64
                },
                ios: if self.queue.is_simulated() {
                    (bytes as f64 / POINTS) as u64 / u64::from(job.block_bytes)
                } else {
                    u64::MAX
                }
                .max(1),
                written_bytes: bytes - written,
            };
            let before = self.queue.flash().first().map(|ftl| ftl.counters());
            let round = self.round(&job, interval)?;
            let since = before.and_then(|before| Some(self.queue.flash().first()?.counters().since(&before)));
            written += round.bytes;
            end_s += round.duration_s;
            self.report.saturation.push(SaturationPoint {
                end_s,
                bytes_written: written,
                iops: round.iops(),
                p99_ns: round.latency.p99_ns,
                max_ns: round.latency.max_ns,
                write_amplification: since.map(|counters| counters.write_amplification()),
            });
        }
        Ok(written)
    }

    /// Random writes in rounds until five of them are level.
    pub(super) fn steady_state(&mut self) -> Result<(), Stop> {
        let job = self.random_writes();
        let mut rounds = Vec::new();
        loop {
            rounds.push(self.round(&job, self.limits(1.0))?);
            let state = steady::judge(Measurement { job: job.clone(), rounds: rounds.clone() });
            let is_over = state.reached || rounds.len() == steady::ROUNDS_MAX;
            // Kept after every round, so that a run that ends early shows what there was.
            self.report.steady = Some(state);
            if is_over {
                return Ok(());
            }
        }
    }
}
