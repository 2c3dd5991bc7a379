//! Reports from files: written by this program, by another version of it, or by nobody's friend.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{FORMAT, Measurement, REPORT_BYTES_MAX, Report, VERSION};

/// Why a report could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// More than [`REPORT_BYTES_MAX`].
    #[error("this is longer than any report ({REPORT_BYTES_MAX} bytes)")]
    TooLong,
    /// Not a report at all.
    #[error("this is not a report of aquifer probe; `aquifer probe DEVICE --report-json FILE` writes one")]
    NotAReport,
    /// Of another version.
    #[error(
        "this report has version {0}, and this program reads version {VERSION}; measure again, or use the program that wrote it"
    )]
    OtherVersion(u64),
    /// A member is missing, unknown or of another type.
    #[error("this report is damaged: {0}")]
    Malformed(serde_json::Error),
    /// A figure that no measurement gives.
    #[error("this report is damaged: {0}")]
    Impossible(String),
}

/// Enough of any report to tell what it is.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u64,
}

impl Report {
    /// The report in a file.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        let unreadable = |source| ReportError::Unreadable { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(REPORT_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        Self::parse(&bytes)
    }

    /// The report in `bytes`. What it returns has only finite figures, and at least one round in each measurement.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ReportError> {
        if bytes.len() as u64 > REPORT_BYTES_MAX {
            return Err(ReportError::TooLong);
        }
        let head: Head = serde_json::from_slice(bytes).map_err(|_| ReportError::NotAReport)?;
        if head.format != FORMAT {
            return Err(ReportError::NotAReport);
        }
        if head.version != u64::from(VERSION) {
            return Err(ReportError::OtherVersion(head.version));
        }
        let report: Report = serde_json::from_slice(bytes).map_err(ReportError::Malformed)?;
        for measurement in report.measurements() {
            check(measurement)?;
        }
        Ok(report)
    }

    /// The report as JSON, with a newline at the end.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).expect("a report has string keys and finite figures");
        text.push('\n');
        text
    }

    /// All loads of all sections.
    pub fn measurements(&self) -> impl Iterator<Item = &Measurement> {
        let flush = self.flush.iter().flat_map(|flush| [&flush.write, &flush.write_and_flush]);
        let steady = self.steady.iter().map(|steady| &steady.rounds);
        let trim = self.trim.iter().flat_map(|trim| [&trim.before, &trim.after]);
        let idle = self.idle.iter().flat_map(|idle| &idle.bursts);
        let beside =
            self.interference.iter().flat_map(|test| std::iter::once(&test.reader).chain(&test.writer));
        flush
            .chain(steady)
            .chain(&self.matrix)
            .chain(&self.mixes)
            .chain(&self.latency)
            .chain(self.fill.iter().map(|fill| &fill.measurement))
            .chain(trim)
            .chain(idle)
            .chain(beside)
            .chain(self.log.iter().map(|log| &log.measurement))
            .chain(&self.working_set)
            .chain(self.raid.iter().map(|raid| &raid.measurement))
    }
}

/// Refuses figures that nothing can be calculated from.
fn check(measurement: &Measurement) -> Result<(), ReportError> {
    let job = &measurement.job;
    let is_possible = job.read_percent <= 100
        && (1..=1024).contains(&job.depth)
        && (1..=64 << 20).contains(&job.block_bytes)
        && !measurement.rounds.is_empty()
        && measurement.rounds.iter().all(|round| round.duration_s >= 0.0 && round.cpu_s >= 0.0);
    if is_possible { Ok(()) } else { Err(ReportError::Impossible(format!("no load can be \"{job}\""))) }
}
