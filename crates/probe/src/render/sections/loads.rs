//! What the sections need to know of loads.

use std::collections::BTreeSet;

use crate::merged::Merged;
use crate::render::figures::{self, finite};
use crate::report::{Job, Measurement, Pattern, WriteMode};

/// The most block sizes, depths and kinds of load that one table compares, more than any probe measures. A
/// report from elsewhere could make a table of all pairs endless. The others are among all figures, at the
/// end.
pub(super) const KINDS_MAX: usize = 32;

/// As many lines in one plot as there are colours.
pub(super) const LINES_MAX: usize = 8;

/// Colour of reads.
pub(super) const READ: usize = 0;
/// Colour of writes.
pub(super) const WRITE: usize = 1;

/// Transfers per second.
pub(super) fn rate(load: &Measurement) -> Option<f64> {
    finite(load.iops())
}

/// Megabytes per second.
pub(super) fn throughput(load: &Measurement) -> Option<f64> {
    finite(load.megabytes_per_s())
}

/// "random read", "sequential 70 % read".
pub(super) fn kind(job: &Job) -> String {
    format!("{} {}", pattern_name(job.pattern), job.direction())
}

pub(super) fn pattern_name(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
    }
}

pub(super) fn mode_name(mode: WriteMode) -> &'static str {
    match mode {
        WriteMode::Cached => "write cache",
        WriteMode::FlushEach => "flush per write",
        WriteMode::Dsync => "O_DSYNC",
    }
}

/// Block sizes, ascending.
pub(super) fn blocks<'a>(loads: impl IntoIterator<Item = &'a Measurement>) -> Vec<u32> {
    distinct(loads.into_iter().map(|load| load.job.block_bytes))
}

/// Depths, ascending.
pub(super) fn depths<'a>(loads: impl IntoIterator<Item = &'a Measurement>) -> Vec<u32> {
    distinct(loads.into_iter().map(|load| load.job.depth))
}

/// The lowest [`KINDS_MAX`] of the values, each once, ascending.
pub(super) fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.collect::<BTreeSet<_>>().into_iter().take(KINDS_MAX).collect()
}

/// Ticks at sizes.
pub(super) fn size_ticks(sizes: impl IntoIterator<Item = u64>) -> Vec<(f64, String)> {
    sizes.into_iter().map(|size| (size as f64, figures::bytes(size))).collect()
}

/// Ticks at counts.
pub(super) fn count_ticks(counts: &[u32]) -> Vec<(f64, String)> {
    counts.iter().map(|&count| (f64::from(count), count.to_string())).collect()
}

/// Mean and percentiles of a load, as cells of a table; see [`LATENCY_COLUMNS`].
pub(super) fn latency_cells(load: &Measurement) -> Vec<String> {
    let merged = Merged::of(load);
    let whole = [merged.p50_ns, merged.p99_ns, merged.p999_ns, merged.max_ns];
    std::iter::once(figures::nanoseconds(merged.mean_ns))
        .chain(whole.map(|nanoseconds| figures::nanoseconds(nanoseconds as f64)))
        .collect()
}

/// Names of [`latency_cells`].
pub(super) const LATENCY_COLUMNS: [&str; 5] = ["mean", "p50", "p99", "p99.9", "max"];

/// A matrix's load with these properties.
pub(super) fn find(
    loads: &[Measurement],
    (pattern, read_percent): (Pattern, u8),
    block_bytes: u32,
    depth: u32,
) -> Option<&Measurement> {
    loads.iter().find(|load| {
        let job = &load.job;
        (job.pattern, job.read_percent, job.block_bytes, job.depth)
            == (pattern, read_percent, block_bytes, depth)
    })
}
