//! Whole pages stand aligned, in segments of their own.

use std::collections::BTreeSet;

use aquifer_device::{AlignedBuffer, Device, FaultPlan};
use aquifer_log::cleaner::CleanError;
use aquifer_log::victim::Greedy;
use aquifer_log::{Geometry, Kind, ReadError, RecordId};

use crate::bench::{Bench, SEGMENTS, payload};

const PAGE_BYTES: usize = 4096;
const GEOMETRY: Geometry =
    Geometry { block_bytes: 4 * PAGE_BYTES, segment_bytes: 8 * PAGE_BYTES, segments: SEGMENTS };

fn bench() -> Bench {
    Bench::with(GEOMETRY, FaultPlan::new(0))
}

fn fill(bench: &mut Bench, pages: u64) {
    for key in 0..pages {
        bench.write(key, &payload(key, PAGE_BYTES)).unwrap();
    }
}

#[test]
fn a_page_takes_its_own_device_blocks_and_no_others() {
    let mut bench = bench();
    fill(&mut bench, 12);
    let before = bench.device.counters();
    assert_eq!(bench.read(2).unwrap(), payload(2, PAGE_BYTES));
    let after = bench.device.counters();
    assert_eq!((after.reads - before.reads, after.read_bytes - before.read_bytes), (1, PAGE_BYTES as u64));
    bench.check_all();
}

#[test]
fn pages_and_smaller_objects_share_no_segment() {
    let mut bench = bench();
    for key in 0..20 {
        bench.write(key, &payload(key, PAGE_BYTES)).unwrap();
        bench.write(100 + key, &payload(100 + key, 500)).unwrap();
    }
    let segments = |bench: &Bench, from: u64| -> BTreeSet<_> {
        (from..from + 20).map(|key| GEOMETRY.segment_of(bench.places.get(key).unwrap().0)).collect()
    };
    assert!(segments(&bench, 0).is_disjoint(&segments(&bench, 100)));
    bench.check_all();
}

#[test]
fn cleaning_keeps_what_is_needed() {
    let mut bench = bench();
    fill(&mut bench, 60);
    (0..60).filter(|key| key % 3 != 0).for_each(|key| bench.free(key));
    let free = bench.log.free_segments();
    bench.clean_all();
    assert!(bench.log.free_segments() >= free + 4, "{} of {free} before", bench.log.free_segments());
    bench.check_all();
    for round in 0..20 {
        for key in 0..20 {
            bench.make_segments_free(&Greedy).unwrap();
            bench.write(1000 + key, &payload(1000 + key, PAGE_BYTES)).unwrap();
        }
        assert!(bench.log.stopped().is_none(), "round {round}");
    }
    bench.check_all();
}

#[test]
fn a_segment_full_of_live_pages_is_no_victim() {
    let mut bench = bench();
    fill(&mut bench, 30);
    assert!(bench.greedy().is_none(), "what the entries take is no garbage");
}

#[test]
fn a_damaged_page_is_an_error_and_its_segment_is_retired() {
    let mut bench = bench();
    fill(&mut bench, 20);
    let (address, len) = bench.places.get(3).unwrap();
    for at in [0, 100, PAGE_BYTES - 4] {
        bench.damage(address.plus_bytes(at), 4);
        let wanted = RecordId { kind: Kind::Whole, number: 3 };
        assert_eq!(bench.read_at(address, 3, len), Err(ReadError::Mismatch { address, wanted }));
        bench.damage(address.plus_bytes(at), 4);
    }
    bench.check_all();
    bench.damage(address, 1);
    let victim = GEOMETRY.segment_of(address).unwrap();
    assert!(matches!(bench.clean(victim), Err(CleanError::Damaged(segment)) if segment == victim));
    assert!(matches!(bench.read(3), Err(ReadError::Mismatch { .. })));
}

#[test]
fn an_older_version_at_the_same_place_is_an_error() {
    let mut bench = bench();
    fill(&mut bench, 12);
    let (address, len) = bench.places.get(0).unwrap();
    let mut old = AlignedBuffer::new(PAGE_BYTES);
    bench.device.read_at(address.offset_bytes(), &mut old).unwrap();
    (0..12).for_each(|key| bench.free(key));
    // The segment has its next life, and the write of a page to the same place is lost.
    let mut round = 0;
    let again = loop {
        bench.clean_all();
        let key = 50 + round % 3;
        bench.write(key, &payload(key, PAGE_BYTES)).unwrap();
        if bench.places.get(key).unwrap().0 == address {
            break key;
        }
        round += 1;
        assert!(round < 10_000, "the place is never used again");
    };
    fill_behind(&mut bench);
    assert_eq!(bench.read_at(address, again, len).unwrap(), payload(again, PAGE_BYTES));
    bench.device.write_at(address.offset_bytes(), &old).unwrap();
    assert!(matches!(bench.read_at(address, again, len), Err(ReadError::Mismatch { .. })));
}

/// Writes until the block at hand is on the device.
fn fill_behind(bench: &mut Bench) {
    for key in 500..504 {
        bench.write(key, &payload(key, PAGE_BYTES)).unwrap();
    }
}
