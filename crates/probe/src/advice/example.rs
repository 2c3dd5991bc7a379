//! A report with round figures, for tests.

use crate::report::{
    Effort, Job, Machine, Measurement, Pattern, Preconditioning, PreconditioningKind, Report, Round,
    SteadyState, Target, TargetKind, WriteMode,
};

/// A load that ran at a rate for a second.
pub(super) fn measurement(
    pattern: Pattern,
    read_percent: u8,
    block_bytes: u32,
    depth: u32,
    iops: f64,
) -> Measurement {
    let job =
        Job { pattern, read_percent, block_bytes, depth, write_mode: WriteMode::Cached, span_bytes: 1 << 30 };
    // So long that rates that are no whole numbers come out.
    let ios = (iops * 1000.0).round() as u64;
    let round = Round { duration_s: 1000.0, ios, bytes: ios * u64::from(block_bytes), ..Round::default() };
    Measurement { job, rounds: vec![round] }
}

/// A steady device of 1 TB: 100 000 random reads and 25 000 random writes of 4 KiB, half as many of 8 KiB.
pub(super) fn report() -> Report {
    let mut matrix = Vec::new();
    for (depth, part) in [(1, 0.1), (32, 0.96), (128, 1.0)] {
        for (block_bytes, reads, writes) in [(4096, 100_000.0, 25_000.0), (8192, 50_000.0, 12_500.0)] {
            matrix.push(measurement(Pattern::Random, 100, block_bytes, depth, reads * part));
            matrix.push(measurement(Pattern::Random, 0, block_bytes, depth, writes * part));
        }
    }
    matrix.push(measurement(Pattern::Sequential, 0, 131_072, 2, 1000.0));
    let rounds = measurement(Pattern::Random, 0, 4096, 32, 25_000.0);
    let preconditioning = Preconditioning {
        kind: PreconditioningKind::Full,
        discarded: false,
        sequential_bytes: 0,
        random_bytes: 0,
        duration_s: 0.0,
    };
    Report {
        duration_s: 600.0,
        complete: true,
        machine: Machine { cpus: 4, ..Machine::default() },
        preconditioning: Some(preconditioning),
        steady: Some(SteadyState {
            rounds,
            reached: true,
            window_start: 0,
            mean_iops: 25_000.0,
            excursion: 0.0,
            slope: 0.0,
        }),
        matrix,
        mixes: vec![measurement(Pattern::Random, 25, 8192, 32, 14_000.0)],
        ..Report::new(Effort::Standard, target(), 0)
    }
}

fn target() -> Target {
    Target {
        name: "/dev/example".into(),
        kind: TargetKind::BlockDevice,
        size_bytes: 1_000_000_000_000,
        tested_bytes: 1 << 30,
        block_bytes: 512,
        model: None,
        file_system: None,
        queue: None,
        emulation: None,
    }
}
