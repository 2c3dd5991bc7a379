//! A reader beside writers.

use super::Probe;
use crate::control::Stop;
use crate::report::{Interference, Measurement, Pattern};

impl Probe<'_> {
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
