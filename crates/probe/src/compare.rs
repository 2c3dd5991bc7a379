//! Reports side by side: the same loads, and which of the differences are more than noise.

mod forms;
mod matching;
mod warnings;

use crate::merged::Merged;
use crate::report::{Job, Measurement, Report, Round};

/// What several reports say of the same loads. The first report is what the others are compared with.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// Names of the reports, in the order given: target and time.
    pub names: Vec<String>,
    /// Why the figures might not be comparable, for people.
    pub warnings: Vec<String>,
    /// Loads that at least two reports have, in the order of the reports.
    pub rows: Vec<Row>,
    /// Loads that only one report has.
    pub unmatched: usize,
}

/// One load in all reports.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The member of the report that has it.
    pub section: &'static str,
    /// What tells it from other loads of the section with the same job; often nothing.
    pub part: String,
    /// The job, as the first report that has it ran it. Spans may differ between reports: they grow with the target.
    pub job: Job,
    /// Its figures in each report; none where it was not measured.
    pub figures: Vec<Option<Figures>>,
}

/// What one report says of a load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// Transfers per second: the median of the rounds.
    pub iops: f64,
    /// The slowest round, in transfers per second.
    pub iops_low: f64,
    /// The fastest round, in transfers per second.
    pub iops_high: f64,
    /// How many rounds there were.
    pub rounds: usize,
    /// Of 100 transfers of all rounds 99 are not above it.
    pub p99_ns: u64,
}

/// What a difference is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every round was faster than every round of the first report.
    Faster,
    /// Every round was slower than every round of the first report.
    Slower,
    /// Some rounds were as fast as some of the first report: the reports do not differ in this.
    Noise,
    /// A single round on a side has no spread to compare with.
    Unknown,
}

/// Compares reports. With fewer than two there is nothing to compare, which a warning says.
#[must_use]
pub fn compare(reports: &[Report]) -> Comparison {
    let (rows, unmatched) = matching::rows(reports);
    Comparison {
        names: reports.iter().map(matching::name).collect(),
        warnings: warnings::warnings(reports),
        rows,
        unmatched,
    }
}

impl Row {
    /// Transfers per second of a report by those of the first one; none if either was not measured or nothing was done.
    #[must_use]
    pub fn ratio(&self, report: usize) -> Option<f64> {
        let (first, other) = self.pair(report)?;
        Some(other.iops / first.iops).filter(|ratio| ratio.is_finite())
    }

    /// p99 latency of a report by that of the first one; none if either was not measured.
    #[must_use]
    pub fn p99_ratio(&self, report: usize) -> Option<f64> {
        let (first, other) = self.pair(report)?;
        Some(other.p99_ns as f64 / first.p99_ns as f64).filter(|ratio| ratio.is_finite())
    }

    /// Whether a report differs from the first one by more than its rounds differ from each other; none if either was not measured.
    #[must_use]
    pub fn verdict(&self, report: usize) -> Option<Verdict> {
        let (first, other) = self.pair(report)?;
        Some(match () {
            () if first.rounds < 2 || other.rounds < 2 => Verdict::Unknown,
            () if other.iops_low > first.iops_high => Verdict::Faster,
            () if other.iops_high < first.iops_low => Verdict::Slower,
            () => Verdict::Noise,
        })
    }

    fn pair(&self, report: usize) -> Option<(Figures, Figures)> {
        let figures = |report: usize| self.figures.get(report).copied().flatten();
        figures(0).zip(figures(report))
    }
}

impl Figures {
    /// How far the rounds lie apart: the fastest minus the slowest by the median; none for a single round.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        let spread = (self.iops_high - self.iops_low) / self.iops;
        Some(spread).filter(|spread| self.rounds > 1 && spread.is_finite())
    }

    fn of(load: &Measurement) -> Self {
        let rates = || load.rounds.iter().map(Round::iops);
        Self {
            iops: load.iops(),
            iops_low: rates().fold(f64::INFINITY, f64::min),
            iops_high: rates().fold(0.0, f64::max),
            rounds: load.rounds.len(),
            p99_ns: Merged::of(load).p99_ns,
        }
    }
}
