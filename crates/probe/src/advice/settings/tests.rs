//! Each rule on figures of which the answer is plain.

use super::*;
use crate::advice::example::{measurement, report};
use crate::report::{FillMeasurement, FillState};

fn value(report: &Report, setting: Setting) -> Option<u64> {
    Settings::of(report).of_setting(setting).value
}

fn with(cells: &[(Pattern, u8, u32, u32, f64)]) -> Report {
    let matrix = cells
        .iter()
        .map(|&(pattern, read, block, depth, iops)| measurement(pattern, read, block, depth, iops));
    Report { matrix: matrix.collect(), fill: Vec::new(), ..report() }
}

#[test]
fn the_smallest_depth_that_is_enough() {
    let reads = [(1, 10.0), (8, 94.9), (16, 95.0), (32, 100.0), (64, 99.0)];
    let report = with(&reads.map(|(depth, iops)| (Pattern::Random, 100, 4096, depth, iops * 1000.0)));
    assert_eq!(value(&report, Setting::Depth), Some(16));
    assert_eq!(value(&report, Setting::ReadAheadPages), Some(32));
    assert!(!Settings::of(&report).depth.reason.contains("might give more"));
    let report = with(&[(Pattern::Random, 100, 4096, 1, 10.0), (Pattern::Random, 100, 4096, 512, 1000.0)]);
    assert_eq!(
        (value(&report, Setting::Depth), value(&report, Setting::ReadAheadPages)),
        (Some(256), Some(256))
    );
    assert!(Settings::of(&report).depth.reason.contains("might give more"));
    let report = with(&[(Pattern::Random, 100, 8192, 1, 10.0)]);
    assert_eq!((value(&report, Setting::Depth), value(&report, Setting::ReadAheadPages)), (None, None));
}

#[test]
fn the_fewest_bytes_under_way() {
    let write = |kib: u32, depth, mb: f64| {
        (Pattern::Sequential, 0, kib << 10, depth, mb * 1e6 / f64::from(kib << 10))
    };
    let both = |report: &Report| (value(report, Setting::WriteBytes), value(report, Setting::WriteDepth));
    let report = with(&[write(64, 1, 50.0), write(64, 4, 97.0), write(512, 1, 96.0), write(1024, 32, 100.0)]);
    assert_eq!(both(&report), (Some(256 << 10), Some(4)));
    // What the heap cannot do is not advised.
    let report = with(&[write(64, 1, 50.0), write(1024, 32, 100.0), write(4, 32, 99.0)]);
    assert_eq!(both(&report), (Some(64 << 10), Some(1)));
    assert!(Settings::of(&report).write_bytes.reason.contains("nothing within 1 MiB"));
    let report = with(&[write(4, 1, 100.0)]);
    assert_eq!(both(&report), (Some(64 << 10), Some(1)), "never less than the heap's least");
    assert_eq!(both(&with(&[write(2048, 32, 10.0)])), (None, None));
    assert_eq!(both(&with(&[write(96, 3, 10.0)])), (Some(512 << 10), Some(3)), "a power of two");
}

#[test]
fn segments_are_where_random_writes_become_sequential() {
    let cell = |pattern, kib: u32, mb: f64| (pattern, 0, kib << 10, 4, mb * 1e6 / f64::from(kib << 10));
    let cells = [
        cell(Pattern::Sequential, 1024, 100.0),
        cell(Pattern::Random, 4, 20.0),
        cell(Pattern::Random, 256, 95.1),
        cell(Pattern::Random, 1024, 99.0),
    ];
    let mut report = with(&cells);
    assert_eq!(value(&report, Setting::SegmentBytes), Some(256 << 10));
    // Fragmented, the smaller of them is not enough.
    let fill = |pattern, kib: u32, mb: f64| FillMeasurement {
        fill_percent: 90,
        state: FillState::Fragmented,
        measurement: measurement(pattern, 0, kib << 10, 4, mb * 1e6 / f64::from(kib << 10)),
    };
    report.fill = vec![fill(Pattern::Sequential, 64, 40.0), fill(Pattern::Random, 256, 20.0)];
    assert_eq!(value(&report, Setting::SegmentBytes), Some(1 << 20));
    report.fill.push(fill(Pattern::Random, 1024, 39.0));
    assert_eq!(value(&report, Setting::SegmentBytes), Some(1 << 20));
    report.fill.push(fill(Pattern::Sequential, 1024, 80.0));
    assert_eq!(value(&report, Setting::SegmentBytes), None);
    let slow = with(&cells[..2]);
    assert_eq!(value(&slow, Setting::SegmentBytes), None);
    assert!(Settings::of(&slow).segment_bytes.reason.contains("with 4 KiB they reach 20.0 MB/s"));
}

#[test]
fn reads_grow_while_bytes_are_free() {
    let read = |block, iops| (Pattern::Random, 100, block, 32, iops);
    let size = |report: &Report| Settings::of(report).read_size.value;
    let report = with(&[read(512, 98.0), read(4096, 100.0), read(8192, 90.0), read(16384, 89.0)]);
    assert_eq!(size(&report), Some(8192));
    assert_eq!(size(&with(&[read(4096, 100.0)])), None, "of one block nothing follows");
}

#[test]
fn writers_saturate_the_best_block() {
    let write = |block, depth, iops| (Pattern::Sequential, 0, block, depth, iops);
    let report =
        with(&[write(4096, 1, 1000.0), write(65536, 1, 80.0), write(65536, 2, 96.0), write(65536, 8, 100.0)]);
    assert_eq!(Settings::of(&report).writers.value, Some(2));
}
