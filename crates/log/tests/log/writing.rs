//! Blocks go to the device in one piece or in parts.

use aquifer_device::{FaultKind, FaultPlan, Operation};
use aquifer_log::AppendError;

use crate::bench::{Bench, GEOMETRY, payload};

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
