//! Records come back from the write buffer and from the device, to which blocks go in one piece or in parts.

use aquifer_device::{AlignedBuffer, Device, FaultKind, FaultPlan, Operation};
use aquifer_log::cleaner::CleanError;
use aquifer_log::record::{lone_record_bytes, record_bytes};
use aquifer_log::{AppendError, Geometry, Kind, ReadError};

use crate::bench::{BLOCK_BYTES, Bench, GEOMETRY, SEGMENTS, id, payload};

#[test]
fn a_record_is_read_from_the_buffer_until_the_device_has_it() {
    let mut bench = Bench::new();
    bench.write(1, &payload(1, 100)).unwrap();
    bench.write(2, &payload(2, 4000)).unwrap();
    assert_eq!(bench.device.counters().writes, 1, "the second did not fit the first one's block");
    assert_eq!(bench.read(2).unwrap(), payload(2, 4000));
    assert_eq!(bench.device.counters().reads, 0, "its block is still in the buffer");
    assert_eq!(bench.read(1).unwrap(), payload(1, 100));
    assert_eq!(bench.device.counters().reads, 1);
    assert_eq!(bench.device.counters().read_bytes, 512, "one device block holds it");
}

#[test]
fn both_heads_have_a_buffer() {
    let mut bench = Bench::new();
    bench.write(1, b"fresh").unwrap();
    bench.survivor.make_room(Kind::Page, lone_record_bytes(8)).unwrap();
    let address = bench.survivor.append(id(2), b"survivor");
    assert_eq!(bench.read_at(address, 2, 8).unwrap(), b"survivor");
    assert_eq!(bench.read(1).unwrap(), b"fresh");
    assert_eq!(bench.device.counters().reads, 0);
}

#[test]
fn a_record_is_found_among_its_neighbours() {
    let mut bench = Bench::new();
    bench.fresh.make_room(Kind::Page, lone_record_bytes(30) + 3 * record_bytes(30)).unwrap();
    let first = bench.fresh.append(id(10), &payload(10, 30));
    for key in 11..14 {
        bench.fresh.append(id(key), &payload(key, 30));
    }
    let mut scratch = vec![0; BLOCK_BYTES];
    for key in 10..14 {
        let range = bench.log.read_in_fault(first, 4 * record_bytes(30), id(key), &mut scratch).unwrap();
        assert_eq!(scratch[range], payload(key, 30));
    }
    let beyond = bench.log.read_in_fault(first, 4 * record_bytes(30), id(14), &mut scratch);
    assert_eq!(beyond, Err(ReadError::Mismatch { address: first, wanted: id(14) }));
}

#[test]
fn nothing_is_found_outside_all_segments_and_where_nothing_was_written() {
    let bench = Bench::new();
    let first = GEOMETRY.segment_offset(aquifer_log::geometry::SegmentId(0));
    let beyond = GEOMETRY.block_bytes as u64 + GEOMETRY.capacity_bytes() - 512;
    for offset in [0, first, beyond] {
        let address = aquifer_base::LogAddress::from_offset(offset);
        let read = bench.read_at(address, 1, 100);
        assert_eq!(read, Err(ReadError::Mismatch { address, wanted: id(1) }));
    }
}

#[test]
fn a_record_of_an_earlier_life_of_the_segment_is_not_accepted() {
    // One segment of the log at a time has room for one record.
    let geometry = Geometry { segment_bytes: BLOCK_BYTES, ..GEOMETRY };
    let mut bench = Bench::with(geometry, aquifer_device::FaultPlan::new(0));
    let old = bench.write(1, &payload(1, 4000)).unwrap();
    bench.write(2, &payload(2, 4000)).unwrap();
    bench.free(1);
    // Free segments are used in turn, so the first one's comes before long.
    let again = (0..2 * SEGMENTS).find(|_| {
        bench.clean_all();
        bench.write(2, &payload(2, 4000)).unwrap() == old
    });
    assert!(again.is_some(), "the first segment was not used again");
    assert!(matches!(bench.read_at(old, 1, 4000), Err(ReadError::Mismatch { .. })));
    assert_eq!(bench.read(2).unwrap(), payload(2, 4000));
}

/// A head that found no segment to go on with still has the block that it wrote last. It must not serve that
/// block when the segment has begun another life in the hands of the other head.
#[test]
fn a_buffer_does_not_outlive_the_segment_it_was_written_to() {
    let geometry = Geometry { segment_bytes: BLOCK_BYTES, ..GEOMETRY };
    let mut bench = Bench::with(geometry, aquifer_device::FaultPlan::new(0));
    let mut last = None;
    while bench.survivor.make_room(Kind::Page, lone_record_bytes(4000)).is_ok() {
        last = Some(bench.survivor.append(id(0), &payload(0, 4000)));
    }
    let last = last.expect("an empty log has room");
    let segments = bench.log.segments();
    for segment in (0..segments.len()).map(aquifer_log::geometry::SegmentId) {
        bench.log.segments().subtract_live(segment, record_bytes(4000) as u32);
    }
    // The last segment is freed first, so that it is the first to be opened again.
    bench.clean(geometry.segment_of(last).expect("a segment")).unwrap();
    bench.clean_all();
    assert_eq!(bench.write(7, &payload(7, 4000)), Ok(last));
    bench.write(8, &payload(8, 4000)).unwrap();
    assert_eq!(bench.read(7).unwrap(), payload(7, 4000));
    bench.check_all();
}

/// A write that the device lost leaves there what an earlier life of the segment had: an older version of the same page, intact.
#[test]
fn an_older_version_from_an_earlier_life_of_the_segment_is_an_error() {
    let geometry = Geometry { segment_bytes: BLOCK_BYTES, ..GEOMETRY };
    let mut bench = Bench::with(geometry, FaultPlan::new(0));
    let old = bench.write(1, &payload(1, 4000)).unwrap();
    // Puts the block before on the device.
    bench.write(2, &payload(2, 4000)).unwrap();
    let start = old.offset_bytes() / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    let mut older = AlignedBuffer::new(BLOCK_BYTES);
    bench.device.read_at(start, &mut older).unwrap();
    let again = (0..2 * SEGMENTS).find(|_| {
        bench.clean_all();
        bench.write(1, &payload(3, 4000)).unwrap() == old
    });
    assert!(again.is_some(), "the first segment was not used again");
    bench.write(2, &payload(2, 4000)).unwrap();
    assert_eq!(bench.read(1).unwrap(), payload(3, 4000));
    bench.device.write_at(start, &older).unwrap();
    assert!(matches!(bench.read(1), Err(ReadError::Mismatch { .. })));
    // Nor does the cleaner take it for a record that is needed.
    let segment = geometry.segment_of(old).expect("a segment");
    assert!(matches!(bench.clean(segment), Err(CleanError::Damaged(victim)) if victim == segment));
}

#[test]
fn a_block_in_parts_is_the_same_block() {
    for (depth, writes) in [(0, 1), (1, 1), (2, 2), (3, 3), (100, 8)] {
        let mut bench = Bench::new();
        bench.log.set_write_depth(depth);
        bench.write(1, &payload(1, 4000)).unwrap();
        bench.write(2, &payload(2, 4000)).unwrap();
        let counters = bench.device.counters();
        assert_eq!((counters.writes, counters.written_bytes), (writes, 4096), "in {depth} parts");
        assert_eq!(bench.read(1).unwrap(), payload(1, 4000));
        bench.check_all();
    }
}

#[test]
fn a_part_that_fails_stops_the_log() {
    let plan = FaultPlan::new(0).on_nth(Operation::Write, 2, FaultKind::Eio);
    let mut bench = Bench::with(GEOMETRY, plan);
    bench.log.set_write_depth(4);
    bench.write(1, &payload(1, 4000)).unwrap();
    assert!(matches!(bench.write(2, &payload(2, 4000)), Err(AppendError::Stopped(_))));
    assert_eq!(bench.log.io_errors(), 1);
    assert_eq!(bench.read(1).unwrap(), payload(1, 4000), "its buffer has it");
}
