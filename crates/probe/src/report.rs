//! Everything that was measured of one target, as it is kept in JSON.

mod job;
mod measurement;
mod reading;
mod sections;
mod target;

pub use job::{Job, Pattern, WriteMode};
pub use measurement::{Bucket, Latencies, Measurement, Round, Slice};
pub use reading::ReportError;
pub use sections::{
    FillMeasurement, FillState, FlushTest, IdleTest, Interference, LogTest, Preconditioning,
    PreconditioningKind, RaidMeasurement, SaturationPoint, SteadyState, TrimTest,
};
pub use target::{Emulation, Machine, QueueFlags, Target, TargetKind};

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The first member of every report.
pub const FORMAT: &str = "aquifer-probe";
/// The version that this program writes, and the only one that it reads.
pub const VERSION: u32 = 1;
/// Longest report that is read.
pub const REPORT_BYTES_MAX: u64 = 64 << 20;

/// How much was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Under two minutes: few cells, short rounds.
    Quick,
    /// Some ten minutes.
    Standard,
    /// Everything, for as long as it takes.
    Full,
}

/// What one run of the probe found. Sections that were not measured are empty or absent; `notes` says why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// When the run began: seconds since 1970, UTC.
    pub started_unix_s: u64,
    /// How long it took.
    pub duration_s: f64,
    /// Whether the run came to its end, rather than to Ctrl-C or an error.
    pub complete: bool,
    /// How much was asked for.
    pub effort: Effort,
    /// Seed of all random choices.
    pub seed: u64,
    /// What it ran on.
    pub machine: Machine,
    /// What was measured.
    pub target: Target,
    /// Bytes written to the target by the whole run.
    pub bytes_written: u64,
    /// What a flush costs.
    pub flush: Option<FlushTest>,
    /// What was written before anything was measured.
    pub preconditioning: Option<Preconditioning>,
    /// Random writes from the first one on, in equal intervals of time.
    pub saturation: Vec<SaturationPoint>,
    /// Whether the device had come to rest when the matrix was measured.
    pub steady: Option<SteadyState>,
    /// Pattern x direction x block x depth.
    pub matrix: Vec<Measurement>,
    /// Random transfers of one block with shares of reads between 0 and 100 %.
    pub mixes: Vec<Measurement>,
    /// One at a time, in the write modes.
    pub latency: Vec<Measurement>,
    /// Levels of fill, fresh and fragmented.
    pub fill: Vec<FillMeasurement>,
    /// What TRIM costs and brings.
    pub trim: Option<TrimTest>,
    /// What pauses bring.
    pub idle: Option<IdleTest>,
    /// Readers beside writers.
    pub interference: Vec<Interference>,
    /// Small writes, each made durable.
    pub log: Option<LogTest>,
    /// Random reads and writes over spans of the target; shows caches.
    pub working_set: Vec<Measurement>,
    /// RAID-0 over several devices.
    pub raid: Vec<RaidMeasurement>,
    /// What could not be measured and why, and what a reader must know to believe the rest.
    pub notes: Vec<String>,
}

impl Report {
    /// A report in which nothing has been measured yet, begun now.
    #[must_use]
    pub fn new(effort: Effort, target: Target, seed: u64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Report {
            format: FORMAT.into(),
            version: VERSION,
            started_unix_s: now.map_or(0, |since| since.as_secs()),
            duration_s: 0.0,
            complete: false,
            effort,
            seed,
            machine: Machine::default(),
            target,
            bytes_written: 0,
            flush: None,
            preconditioning: None,
            saturation: Vec::new(),
            steady: None,
            matrix: Vec::new(),
            mixes: Vec::new(),
            latency: Vec::new(),
            fill: Vec::new(),
            trim: None,
            idle: None,
            interference: Vec::new(),
            log: None,
            working_set: Vec::new(),
            raid: Vec::new(),
            notes: Vec::new(),
        }
    }
}
