//! What it costs to make writes durable.

use super::Probe;
use crate::control::Stop;
use crate::report::{FlushTest, Job, LogTest, Measurement, Pattern, WriteMode};

/// Flushes with nothing to write.
const EMPTY_FLUSHES: u32 = 20;
/// What etcd asks of the 99th of 100 writes to its log.
const ETCD_NS: u64 = 10_000_000;

impl Probe<'_> {
    pub(super) fn flush_cost(&mut self) -> Result<(), Stop> {
        let write = self.job(Pattern::Random, 0, self.page_bytes(), 1);
        let write_and_flush = Job { write_mode: WriteMode::FlushEach, ..write.clone() };
        let write = Measurement { rounds: vec![self.round(&write, self.limits(1.0))?], job: write };
        let rounds = vec![self.round(&write_and_flush, self.limits(1.0))?];
        self.queue.flush()?;
        let start_ns = self.queue.now_ns();
        for _ in 0..EMPTY_FLUSHES {
            self.queue.flush()?;
        }
        let empty_flush_ns = (self.queue.now_ns() - start_ns) as f64 / f64::from(EMPTY_FLUSHES);
        let write_and_flush = Measurement { job: write_and_flush, rounds };
        self.report.flush = Some(FlushTest { write, write_and_flush, empty_flush_ns });
        Ok(())
    }

    /// Small writes in order, each durable before the next.
    pub(super) fn log_writes(&mut self) -> Result<(), Stop> {
        let job = Job {
            write_mode: WriteMode::FlushEach,
            ..self.job(Pattern::Sequential, 0, self.page_bytes(), 1)
        };
        let measurement = self.measure(job, 1.0)?;
        let is_fit_for_etcd = measurement.median(|round| round.latency.p99_ns as f64) < ETCD_NS as f64;
        self.report.log = Some(LogTest { measurement, is_fit_for_etcd });
        Ok(())
    }
}
