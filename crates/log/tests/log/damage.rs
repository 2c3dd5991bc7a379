//! Devices that fail, and bytes that are not what was written.

use aquifer_device::{DeviceError, FaultKind, FaultPlan, Operation};
use aquifer_log::cleaner::CleanError;
use aquifer_log::geometry::SegmentId;
use aquifer_log::log::reserve_segments;
use aquifer_log::segment::{SegmentTable, State};
use aquifer_log::{AppendError, Kind, ReadError};

use crate::bench::{Bench, GEOMETRY, SEGMENTS, payload};

#[test]
fn a_damaged_record_is_an_error_with_its_place_and_never_data() {
    let mut bench = Bench::new();
    let keys = bench.fill_segments(2, 0);
    let (address, len) = bench.places.get(keys[3]).unwrap();
    for at in [0, 4, 12, 100] {
        bench.damage(address.plus_bytes(at), 0x10);
        let wanted = crate::bench::id(keys[3]);
        assert_eq!(bench.read_at(address, keys[3], len), Err(ReadError::Mismatch { address, wanted }));
        bench.damage(address.plus_bytes(at), 0x10);
    }
    bench.check_all();
}

#[test]
fn a_damaged_segment_is_retired_with_what_it_still_holds() {
    let mut bench = Bench::new();
    let keys = bench.fill_segments(3, 0);
    let (address, len) = bench.places.get(keys[2]).unwrap();
    let victim = GEOMETRY.segment_of(address).unwrap();
    bench.free(keys[0]);
    bench.damage(address.plus_bytes(20), 1);
    assert!(matches!(bench.clean(victim), Err(CleanError::Damaged(segment)) if segment == victim));
    assert_eq!(bench.log.segments().state(victim), State::Retired);
    // The damaged record is still an error at its own place, and its neighbours can be read wherever they are.
    assert!(matches!(bench.read(keys[2]), Err(ReadError::Mismatch { .. })));
    for &key in keys.iter().filter(|&&key| key != keys[0] && key != keys[2]) {
        assert_eq!(bench.read(key).unwrap(), payload(key, len), "key {key}");
    }
    assert_eq!(bench.log.segments().live_bytes_total(), bench.places.live_bytes());
    // It is never opened again.
    for round in 0..60 {
        bench.make_segments_free(&aquifer_log::victim::Greedy).unwrap();
        let address = bench.write(9000, &payload(round, 2000)).unwrap();
        assert_ne!(GEOMETRY.segment_of(address), Some(victim));
    }
    assert_eq!(bench.log.segments().state(victim), State::Retired);
}

#[test]
fn an_unreadable_block_retires_its_segment_and_can_be_read_when_the_device_recovers() {
    let plan = FaultPlan::new(0).on_nth(Operation::Read, 1, FaultKind::Eio);
    let mut bench = Bench::with(GEOMETRY, plan);
    let keys = bench.fill_segments(2, 0);
    let victim = GEOMETRY.segment_of(bench.places.get(keys[0]).unwrap().0).unwrap();
    bench.free(keys[1]);
    assert!(matches!(bench.clean(victim), Err(CleanError::Damaged(_))));
    assert_eq!(bench.log.io_errors(), 1);
    assert_eq!(bench.log.stopped(), None, "a read error stops no writes");
    bench.check_all();
}

#[test]
fn a_read_error_is_passed_on_with_its_values() {
    let plan = FaultPlan::new(0).on_nth(Operation::Read, 1, FaultKind::Eio);
    let mut bench = Bench::with(GEOMETRY, plan);
    let keys = bench.fill_segments(1, 0);
    let error = bench.read(keys[0]).unwrap_err();
    assert!(
        matches!(error, ReadError::Device(DeviceError::Io { operation: Operation::Read, .. })),
        "{error:?}"
    );
    assert_eq!(bench.log.io_errors(), 1);
    bench.check_all();
}

#[test]
fn the_first_write_error_stops_writing_and_not_reading() {
    for kind in [FaultKind::Eio, FaultKind::NoSpace, FaultKind::TornWrite { keep_blocks: 3 }] {
        let mut bench = Bench::with(GEOMETRY, FaultPlan::new(0).on_nth(Operation::Write, 5, kind));
        let mut key = 0;
        let error = loop {
            if let Err(error) = bench.write(key, &payload(key, 700)) {
                break error;
            }
            key += 1;
        };
        let AppendError::Stopped(reason) = error else { panic!("{error:?}") };
        assert_eq!(bench.log.stopped(), Some(reason));
        assert_eq!(bench.log.io_errors(), 1);
        // Even a device that works again is not trusted.
        assert_eq!(bench.write(key, b"more"), Err(error));
        assert_eq!(bench.survivor.make_room(Kind::Page, 100), Err(error));
        assert!(!bench.log.wait_until_cleaning_is_wanted(0));
        // What was appended is still there: on the device, or in the buffer that could not be written.
        bench.check_all();
        assert_eq!(bench.places.keys().len() as u64, key);
    }
}

#[test]
fn a_write_error_of_the_cleaner_loses_nothing() {
    let mut bench = Bench::with(GEOMETRY, FaultPlan::new(0).on_nth(Operation::Write, 30, FaultKind::Eio));
    let keys = bench.fill_segments(SEGMENTS - reserve_segments(SEGMENTS) - 9, 0);
    for key in keys.iter().filter(|key| *key % 2 == 0) {
        bench.free(*key);
    }
    let error = loop {
        match bench.greedy().expect("half of it is garbage") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, CleanError::Append(AppendError::Stopped(_))), "{error:?}");
    bench.check_all();
}

/// A block device keeps what an earlier log left there.
#[test]
fn records_of_an_earlier_log_do_not_verify() {
    let (before, after) = (SegmentTable::new(8), SegmentTable::new(8));
    let differs = (0..8).map(SegmentId).filter(|&id| before.seed(id) != after.seed(id)).count();
    assert_eq!(differs, 8, "two logs began alike, which happens once in four thousand million times");
}
