//! A device forgets, at a crash, any of the writes since the last sync: each sector for itself, or all of them but the last ones.

use std::sync::Arc;

use aquifer_device::{Device, DeviceError, Forgetful, Kept};
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{PAGE_BYTES, Volume};

use crate::history::History;
use crate::model::{Dice, Model};
use crate::{LITTLE_RAM, open, seeds};

const SECTOR_BYTES: usize = 512;
const SEGMENT_PAGES: u32 = 16;
/// Bytes of the first two segments, where the anchors are.
const ANCHOR_BYTES: u64 = 2 * SEGMENT_PAGES as u64 * PAGE_BYTES as u64;

/// A device that knows where anchors are: what they name must be durable before they are written.
struct Ordered(Forgetful);

impl Device for Ordered {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.0.block_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let may_be_lost = self.0.unsynced_behind(ANCHOR_BYTES).is_some();
        assert!(offset >= ANCHOR_BYTES || !may_be_lost, "an anchor before what it names is durable");
        self.0.write_at(offset, buf)
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.0.sync()
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, len_bytes)
    }
}

fn crash(seed: u64, after_operations: u64, steps: u32, crashes: u32) -> bool {
    let device = Arc::new(Ordered(Forgetful::new(5 << 20, SECTOR_BYTES)));
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), SEGMENT_PAGES).expect("medium"));
    Volume::create(medium(), (0, 0)).expect("create");
    let mut dice = Dice::new(seed);
    let mut forgetting = Dice::new(seed ^ after_operations << 20 ^ 0xABCD);
    let mut model = Model::default();
    let (mut was_cut, mut after_operations) = (false, after_operations);
    for crash in 0..crashes {
        let mut history = History::new(model);
        // Recovery and its anchor may be cut too.
        device.0.cut_after(after_operations);
        let opened = Volume::open(medium(), LITTLE_RAM);
        was_cut = opened.as_ref().map_or(true, |volume| history.run(volume, &mut dice, steps).is_err());
        drop(opened);
        device.0.restore_power(Kept::Some(forgetting.below(1 << 40)));
        model = history.find(&open(medium()), &format!("seed {seed}, crash {crash}"));
        after_operations = forgetting.below(200);
    }
    was_cut
}

#[test]
fn at_every_operation_of_a_short_program() {
    let mut all = 0;
    for seed in 0..12 {
        let mut operations = 0;
        while crash(seed, operations, 220, 1) {
            operations += 1;
            assert!(operations < 10_000, "a short program does not end");
        }
        all += operations;
    }
    assert!(all > 150, "the programs are too short to show anything: {all} operations");
}

#[test]
fn again_and_again_in_long_programs() {
    for seed in seeds(40) {
        crash(seed, 60 + seed % 140, 250, 6);
    }
}
