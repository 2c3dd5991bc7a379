//! One transfer at a time, in all write modes.

use super::Probe;
use crate::control::Stop;
use crate::report::{Job, Pattern, WriteMode};

impl Probe<'_> {
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
}
