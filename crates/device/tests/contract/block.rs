//! Block devices, on loop devices where the test may make them.

use aquifer_device::{Device, FileDevice, OpenError};

use crate::fixture::{DEVICE_BYTES, LoopDevice, pattern, read, without_children};
use crate::suite;

/// A loop device, or the reason why the test does nothing.
macro_rules! loop_device_or_skip {
    ($sector_bytes:expr, $test:literal) => {
        match LoopDevice::new(DEVICE_BYTES, $sector_bytes) {
            Some(device) => device,
            None => {
                println!("SKIPPED {}: cannot make a loop device", $test);
                return;
            }
        }
    };
}

fn whole_contract(device: &dyn Device) {
    suite::sizes(device);
    suite::round_trip(device);
    suite::keeps_neighbours(device);
    suite::out_of_range(device);
    suite::misaligned(device);
    suite::empty_transfers(device);
    suite::large_batches(device);
    suite::mixed_batches(device);
    suite::concurrent_threads(device);
    suite::discarded_ranges(device);
    suite::agrees_with_memory(device);
}

#[test]
fn the_contract_holds_in_blocks_of_512() {
    let ground = loop_device_or_skip!(512, "the_contract_holds_in_blocks_of_512");
    let device = FileDevice::open_block(&ground.path, 0).unwrap();
    assert_eq!((device.block_bytes(), device.len_bytes()), (512, DEVICE_BYTES));
    assert!(device.is_direct());
    whole_contract(&device);
}

#[test]
fn the_contract_holds_in_blocks_of_4096() {
    let ground = loop_device_or_skip!(4096, "the_contract_holds_in_blocks_of_4096");
    let device = FileDevice::open(&ground.path, DEVICE_BYTES).unwrap();
    assert_eq!((device.block_bytes(), device.len_bytes()), (4096, DEVICE_BYTES));
    whole_contract(&device);
}

#[test]
fn contents_outlive_the_process_that_wrote_them() {
    let ground = loop_device_or_skip!(512, "contents_outlive_the_process_that_wrote_them");
    let mut device = FileDevice::open_block(&ground.path, 0).unwrap();
    device.remove_on_drop(true);
    device.write_at(512, &pattern(1, 4096)).unwrap();
    device.sync().unwrap();
    let _quiet = without_children();
    drop(device);
    let again = FileDevice::open_block(&ground.path, 64 << 10).unwrap();
    assert_eq!(again.len_bytes(), 64 << 10);
    assert!(*read(&again, 512, 4096) == *pattern(1, 4096));
}

#[test]
fn one_that_is_too_small_says_by_how_much() {
    let ground = loop_device_or_skip!(512, "one_that_is_too_small_says_by_how_much");
    let _quiet = without_children();
    let error = FileDevice::open_block(&ground.path, DEVICE_BYTES + 512).unwrap_err();
    assert!(
        matches!(error, OpenError::TooSmall { needed, actual, .. }
            if needed == DEVICE_BYTES + 512 && actual == DEVICE_BYTES),
        "{error}"
    );
    let error = FileDevice::open_block(&ground.path, 1000).unwrap_err();
    assert!(matches!(error, OpenError::BadLength { block_bytes: 512, .. }), "{error}");
}

#[test]
fn one_that_is_in_use_is_refused() {
    let ground = loop_device_or_skip!(512, "one_that_is_in_use_is_refused");
    let first = FileDevice::open_block(&ground.path, 0).unwrap();
    let error = FileDevice::open_block(&ground.path, 0).unwrap_err();
    assert!(matches!(error, OpenError::Busy { .. }), "{error}");
    drop(first);
    let Some(_mount) = ground.mount() else {
        println!("SKIPPED the mounted half of one_that_is_in_use_is_refused: cannot make or mount ext4");
        return;
    };
    let error = FileDevice::open_block(&ground.path, 0).unwrap_err();
    assert!(matches!(error, OpenError::Busy { .. }), "{error}");
}
