//! Pages of different classes fill segments of their own, as far as the log has room to spare.

use aquifer_base::AllocationClass;
use aquifer_device::FaultPlan;
use aquifer_log::Geometry;
use aquifer_log::geometry::SegmentId;
use aquifer_log::log::reserve_segments;
use aquifer_log::record::lone_record_bytes;
use aquifer_log::segment::State;

use crate::bench::{BLOCK_BYTES, Bench, payload};

/// Large enough for segments to be set aside; a segment has four blocks.
const WIDE: Geometry =
    Geometry { block_bytes: 4 * BLOCK_BYTES, segment_bytes: 16 * BLOCK_BYTES, segments: 1024 };
const PAYLOAD_BYTES: usize = 500;
/// Keys of one class in a row: three blocks.
const RUN: u64 = 96;

fn bench() -> Bench {
    Bench::with(WIDE, FaultPlan::new(0))
}

/// The class of a key.
fn class(key: u64, classes: u64) -> AllocationClass {
    AllocationClass((key / RUN % classes) as u8)
}

/// Writes keys in runs, each of another class.
fn write(bench: &mut Bench, keys: std::ops::Range<u64>, classes: u64) {
    for key in keys {
        bench.fresh.set_class(class(key, classes));
        bench.write(key, &payload(key, PAYLOAD_BYTES)).unwrap();
    }
}

/// Segments with records that are needed.
fn live(bench: &Bench) -> usize {
    (0..WIDE.segments).filter(|&n| bench.log.segments().live_bytes(SegmentId(n)) > 0).count()
}

#[test]
fn what_goes_together_leaves_segments_empty() {
    let left = |classes: u64| {
        let mut bench = bench();
        write(&mut bench, 0..24_000, classes);
        let before = live(&bench);
        (0..24_000).filter(|&key| class(key, 2).0 == 0).for_each(|key| bench.free(key));
        bench.check_all();
        (live(&bench), before)
    };
    let (mixed, before) = left(1);
    assert_eq!(mixed, before, "each segment has runs of both");
    let (apart, before) = left(2);
    // Where runs meet, a block has records of both.
    assert!(apart < before * 7 / 10, "{apart} of {before} segments are still needed");
}

#[test]
fn cleaning_loses_nothing() {
    let mut bench = bench();
    write(&mut bench, 0..24_000, 3);
    (0..24_000).filter(|key| key % 5 < 3).for_each(|key| bench.free(key));
    bench.clean_all();
    bench.check_all();
    assert_eq!(bench.places.keys().len(), 9600);
}

/// More classes than segments may wait: they share.
#[test]
fn many_classes_share_segments() {
    let mut bench = bench();
    write(&mut bench, 0..24_000, 50);
    bench.check_all();
    let open = bench.log.segments().in_state(State::Open).count();
    assert!(open <= 6, "{open} segments are open");
}

fn keep_segments_free(bench: &mut Bench) {
    let mut steps = 0;
    while bench.log.free_segments() <= reserve_segments(WIDE.segments) + 1 {
        bench.greedy().expect("something is garbage").unwrap();
        steps += 1;
        assert!(steps < 1000, "cleaning gains nothing");
    }
}

/// A log without room to spare is filled to what it promises and can be overwritten: no class keeps blocks to itself that
/// others wait for.
#[test]
fn a_full_log_takes_what_it_promises() {
    let mut bench = bench();
    let keys = bench.log.usable_bytes(PAYLOAD_BYTES) / lone_record_bytes(PAYLOAD_BYTES) as u64;
    for key in (0..keys).chain((0..5000).map(|n| n * 7919 % keys)) {
        keep_segments_free(&mut bench);
        bench.fresh.set_class(class(key, 7));
        bench.survivor.set_class(class(key, 5));
        bench.write(key, &payload(key, PAYLOAD_BYTES)).unwrap();
    }
    bench.check_all();
    assert_eq!(bench.places.keys().len() as u64, keys);
}
