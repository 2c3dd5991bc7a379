//! What to know if one reads nothing else.

use super::loads::{self, rate};
use super::{depths, flush, steady};
use crate::merged::Merged;
use crate::render::figures;
use crate::report::{FillState, Measurement, Pattern, PreconditioningKind, Report};

/// Steal from which the figures are noisy.
const STEAL_PERCENT: f64 = 5.0;

/// What must be known before anything is believed.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if !report.complete {
        warnings.push("INCOMPLETE: the run was ended early; what it had measured until then is here.".into());
    }
    match &report.steady {
        Some(steady) if !steady.reached => warnings.push(steady::verdict(steady)),
        Some(_) => {}
        None if report.matrix.is_empty() => {}
        None => warnings.push("NOT STEADY: nobody looked whether the device had come to rest.".into()),
    }
    let is_raw = report.preconditioning.as_ref().is_none_or(|done| done.kind == PreconditioningKind::None);
    if is_raw && !report.matrix.is_empty() {
        warnings
            .push("NOT PRECONDITIONED: a device that was not filled first is faster than it will be.".into());
    }
    if report.machine.steal_percent > STEAL_PERCENT {
        let steal = figures::percent(report.machine.steal_percent / 100.0);
        warnings.push(format!("NOISY: other machines on the same host took {steal} of the processor time."));
    }
    warnings
}

/// A sentence for each thing that matters.
pub(super) fn findings(report: &Report) -> Vec<String> {
    let sentences = [
        random(report),
        sequential(report),
        report.steady.as_ref().filter(|steady| steady.reached).map(steady::verdict),
        report.flush.as_ref().map(|test| flush::verdict(test).1.text),
        fragmentation(report),
        report.log.as_ref().map(|log| flush::log_verdict(log.is_fit_for_etcd).into()),
        interference(report),
    ];
    sentences.into_iter().flatten().collect()
}

fn best<'a>(loads: impl Iterator<Item = &'a Measurement>) -> Option<&'a Measurement> {
    loads.filter(|load| rate(load).is_some()).max_by(|one, next| one.iops().total_cmp(&next.iops()))
}

/// The fastest loads of a kind, read and write.
fn pair(report: &Report, pattern: Pattern, block: u32) -> Option<(&Measurement, &Measurement)> {
    let of = |percent: u8| {
        best(report.matrix.iter().filter(move |load| {
            (load.job.pattern, load.job.read_percent, load.job.block_bytes) == (pattern, percent, block)
        }))
    };
    of(100).zip(of(0))
}

fn random(report: &Report) -> Option<String> {
    let of_pattern = report.matrix.iter().filter(|load| load.job.pattern == Pattern::Random);
    let block = depths::common(&loads::blocks(of_pattern))?;
    let (read, write) = pair(report, Pattern::Random, block)?;
    let asymmetry = figures::number_or_dash(figures::ratio(read.iops(), write.iops()));
    Some(format!(
        "Random transfers of {}: up to {} reads per second (depth {}) and {} writes per second (depth {}); reads by writes: {asymmetry}.",
        figures::bytes(block.into()),
        figures::number(read.iops()),
        read.job.depth,
        figures::number(write.iops()),
        write.job.depth
    ))
}

fn sequential(report: &Report) -> Option<String> {
    let of_pattern = report.matrix.iter().filter(|load| load.job.pattern == Pattern::Sequential);
    let block = loads::blocks(of_pattern).last().copied()?;
    let (read, write) = pair(report, Pattern::Sequential, block)?;
    Some(format!(
        "Sequential transfers of {}: {} MB/s read, {} MB/s written.",
        figures::bytes(block.into()),
        figures::number(read.megabytes_per_s()),
        figures::number(write.megabytes_per_s())
    ))
}

/// Random writes at the highest level of fill that has both states.
fn fragmentation(report: &Report) -> Option<String> {
    let writes = || {
        report.fill.iter().filter(|fill| {
            (fill.measurement.job.pattern, fill.measurement.job.read_percent) == (Pattern::Random, 0)
        })
    };
    let fragmented =
        writes().filter(|fill| fill.state == FillState::Fragmented).max_by_key(|fill| fill.fill_percent)?;
    let fresh = writes().find(|fill| {
        fill.state == FillState::Fresh
            && fill.fill_percent == fragmented.fill_percent
            && fill.measurement.job == fragmented.measurement.job
    })?;
    let share = figures::ratio(fragmented.measurement.iops(), fresh.measurement.iops())?;
    Some(format!(
        "Fragmentation changes random writes by {} when the target is {} % full.",
        figures::change(Some(share - 1.0)),
        fragmented.fill_percent
    ))
}

/// The reader's tail alone and beside the deepest writer.
fn interference(report: &Report) -> Option<String> {
    let alone = report.interference.iter().find(|test| test.writer_depth == 0)?;
    let beside = report
        .interference
        .iter()
        .filter(|test| test.writer_depth > 0)
        .max_by_key(|test| test.writer_depth)?;
    let p99 = |load| figures::nanoseconds(Merged::of(load).p99_ns as f64);
    Some(format!(
        "99 of 100 reads take up to {} alone, and up to {} beside {} writes under way.",
        p99(&alone.reader),
        p99(&beside.reader),
        beside.writer_depth
    ))
}
