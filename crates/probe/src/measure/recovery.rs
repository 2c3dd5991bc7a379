//! What rest and TRIM bring.

use std::time::Instant;

use super::Probe;
use crate::control::Stop;
use crate::report::{IdleTest, Job, Measurement, TrimTest};

/// A burst is a part of a round.
const BURST_SHARE: f64 = 0.25;

impl Probe<'_> {
    /// Bursts of random writes, each after a pause; before each pause the device is kept busy for a round.
    pub(super) fn idle_recovery(&mut self) -> Result<(), Stop> {
        let job = self.random_writes();
        let (mut pauses_s, mut bursts) = (Vec::new(), Vec::new());
        for pause_s in self.plan.pauses_s.clone() {
            self.round(&job, self.limits(1.0))?;
            self.pause(pause_s)?;
            let rounds = vec![self.round(&job, self.limits(BURST_SHARE))?];
            pauses_s.push(pause_s);
            bursts.push(Measurement { job: job.clone(), rounds });
        }
        self.report.idle = Some(IdleTest { pauses_s, bursts });
        Ok(())
    }

    /// Rests, in pieces that let somebody end the run.
    fn pause(&mut self, seconds: f64) -> Result<(), Stop> {
        const PIECE_S: f64 = 0.2;
        let mut left_s = seconds;
        while left_s > 0.0 {
            self.queue.rest((left_s.min(PIECE_S) * 1e9) as u64);
            left_s -= PIECE_S;
            if self.control.is_stopped() {
                return Err(Stop::Interrupted);
            }
        }
        Ok(())
    }

    /// Random writes to a full target, and to its one half after the other was discarded.
    pub(super) fn trim_recovery(&mut self) -> Result<(), Stop> {
        let whole = self.random_writes();
        self.write_once(whole.span_bytes)?;
        self.round(&whole, self.limits(2.0))?;
        let before = self.measure(whole.clone(), 1.0)?;
        let half_bytes = whole.span_bytes / 2 / (1 << 20) * (1 << 20);
        let (start, start_ns) = (Instant::now(), self.queue.now_ns());
        self.discard_from(half_bytes)?;
        let duration_s = if self.queue.is_simulated() {
            (self.queue.now_ns() - start_ns) as f64 / 1e9
        } else {
            start.elapsed().as_secs_f64()
        };
        let after = self.measure(Job { span_bytes: half_bytes, ..whole.clone() }, 1.0)?;
        let bytes = whole.span_bytes - half_bytes;
        self.report.trim = Some(TrimTest { bytes, duration_s, before, after });
        Ok(())
    }
}
