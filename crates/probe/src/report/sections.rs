//! The tests that are more than one load.

use serde::{Deserialize, Serialize};

use super::Measurement;

/// What it costs to flush, found by doing it. A device whose flush costs nothing after writes either has no volatile cache or
/// ignores flushes; which of the two cannot be seen without cutting its power.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlushTest {
    /// One write of the smallest block that is at least 4 KiB, without a flush.
    pub write: Measurement,
    /// The same, each write followed by a flush; the latency is of both.
    pub write_and_flush: Measurement,
    /// Mean latency of a flush when nothing was written.
    pub empty_flush_ns: f64,
}

/// What was done to a device before it was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreconditioningKind {
    /// Nothing.
    None,
    /// The span once sequentially, then random writes until they settle or the time is over.
    Quick,
    /// Twice the span sequentially, then random writes of twice the span or until they settle (SNIA).
    Full,
}

/// What was written before anything was measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preconditioning {
    /// How much.
    pub kind: PreconditioningKind,
    /// Whether the target was discarded first.
    pub discarded: bool,
    /// Bytes written one after the other.
    pub sequential_bytes: u64,
    /// Bytes written at random places.
    pub random_bytes: u64,
    /// How long it took.
    pub duration_s: f64,
}

/// One interval of a long stretch of random writes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaturationPoint {
    /// End of the interval since the first write.
    pub end_s: f64,
    /// Bytes written since the first write.
    pub bytes_written: u64,
    /// Writes per second in the interval.
    pub iops: f64,
    /// 99 of 100 writes are not above it.
    pub p99_ns: u64,
    /// The longest write.
    pub max_ns: u64,
    /// Of the interval, where the device tells: programs by host programs.
    pub write_amplification: Option<f64>,
}

/// Random writes in rounds, and whether the last five of them are level.
///
/// Steady are five rounds if the highest and lowest differ by at most 20 % of their mean, and the least-squares line through them changes
/// by at most 10 % of it (SNIA Solid State Storage Performance Test Specification).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteadyState {
    /// The load and all its rounds, in order.
    pub rounds: Measurement,
    /// Whether the last five were level. If not, the report's other figures are of a device that was still changing.
    pub reached: bool,
    /// Number of the window's first round, counted from 0; the window is the last five rounds, or all if fewer.
    pub window_start: usize,
    /// Mean of the window, in transfers per second.
    pub mean_iops: f64,
    /// Highest minus lowest, by the mean.
    pub excursion: f64,
    /// Change of the fitted line from the first to the last round of the window, by the mean; with its sign.
    pub slope: f64,
}

/// How the target was filled before it was measured.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FillState {
    /// Written once, one block after the other.
    Fresh,
    /// Then overwritten at random until it settled, or for as long as there was time.
    Fragmented,
}

/// A load on a target of which a part is full.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FillMeasurement {
    /// Full part of the target, 1 to 100; the rest is discarded.
    pub fill_percent: u8,
    /// How it was filled.
    pub state: FillState,
    /// The load.
    pub measurement: Measurement,
}

/// What TRIM costs and brings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrimTest {
    /// Bytes discarded.
    pub bytes: u64,
    /// How long the discards took, all together.
    pub duration_s: f64,
    /// Random writes to the full target.
    pub before: Measurement,
    /// Random writes to the remaining half after the other half was discarded.
    pub after: Measurement,
}

/// What pauses bring: the rate of a short burst of random writes after each.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleTest {
    /// Seconds of rest before each burst, ascending from 0.
    pub pauses_s: Vec<f64>,
    /// The bursts, one for each pause.
    pub bursts: Vec<Measurement>,
}

/// A reader beside a writer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    /// Depth of the writer; 0 for the reader alone.
    pub writer_depth: u32,
    /// Random reads one at a time.
    pub reader: Measurement,
    /// Random writes beside them; none when the reader was alone.
    pub writer: Option<Measurement>,
}

/// Small writes at the end of a log, each made durable before the next.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogTest {
    /// One write and the call that makes it durable are one transfer.
    pub measurement: Measurement,
    /// Whether 99 of 100 took less than 10 ms, which etcd asks of its disk.
    pub is_fit_for_etcd: bool,
}

/// A load on a RAID-0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaidMeasurement {
    /// Devices side by side.
    pub devices: u32,
    /// Bytes that stand together on one device.
    pub stripe_bytes: u32,
    /// The load.
    pub measurement: Measurement,
}
