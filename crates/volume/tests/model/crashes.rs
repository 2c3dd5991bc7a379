//! A device that forgets, at a crash, any of the writes since the last sync: each sector for itself, or all of them but the last ones.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use aquifer_device::{Device, DeviceError, Operation};
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{PAGE_BYTES, Volume};

use crate::model::{Dice, Model, Step, read_all};
use crate::{LITTLE_RAM, check, open, seeds};

const SECTOR_BYTES: usize = 512;
const SEGMENT_PAGES: u32 = 16;
/// Sectors of the first two segments, where the anchors are.
const ANCHOR_SECTORS: usize = 2 * SEGMENT_PAGES as usize * PAGE_BYTES / SECTOR_BYTES;

/// What is on the device, and what may be lost.
struct Forgetful {
    state: Mutex<State>,
}

struct State {
    durable: Vec<u8>,
    now: Vec<u8>,
    /// Sectors of each write since the last sync.
    unsynced: Vec<Range<usize>>,
    /// Operations until the power goes.
    left: u64,
}

impl Forgetful {
    fn new(len_bytes: usize) -> Self {
        let (durable, now) = (vec![0; len_bytes], vec![0; len_bytes]);
        Forgetful { state: Mutex::new(State { durable, now, unsynced: Vec::new(), left: u64::MAX }) }
    }

    fn cut_after(&self, operations: u64) {
        self.state.lock().expect("state").left = operations;
    }

    /// The power comes back: each sector that was not synced is old or new. Or the writes that came last are on flash, and none before them.
    fn restore(&self, dice: &mut Dice) {
        let mut state = self.state.lock().expect("state");
        let state = &mut *state;
        let unsynced = std::mem::take(&mut state.unsynced);
        let (share, last) = (dice.below(5), dice.below(4) as usize);
        let old = if dice.below(2) == 0 { 0 } else { unsynced.len().saturating_sub(last) };
        for sector in unsynced[old..].iter().flat_map(Range::clone) {
            if old > 0 || dice.below(4) < share {
                let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                state.durable[range.clone()].copy_from_slice(&state.now[range]);
            }
        }
        state.now.copy_from_slice(&state.durable);
        state.left = u64::MAX;
    }

    fn spend(
        state: &mut State,
        operation: Operation,
        offset: u64,
        len_bytes: usize,
    ) -> Result<(), DeviceError> {
        if state.left == 0 {
            return Err(DeviceError::Io { operation, offset, len_bytes, errno: libc::EIO });
        }
        state.left -= 1;
        Ok(())
    }
}

impl Device for Forgetful {
    fn len_bytes(&self) -> u64 {
        self.state.lock().expect("state").now.len() as u64
    }

    fn block_bytes(&self) -> usize {
        SECTOR_BYTES
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let state = self.state.lock().expect("state");
        buf.copy_from_slice(&state.now[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let mut state = self.state.lock().expect("state");
        // A write that fails may have come to flash all the same.
        let outcome = Self::spend(&mut state, Operation::Write, offset, buf.len());
        state.now[offset as usize..][..buf.len()].copy_from_slice(buf);
        let sectors = offset as usize / SECTOR_BYTES..(offset as usize + buf.len()) / SECTOR_BYTES;
        let may_be_lost = state.unsynced.iter().any(|write| write.start >= ANCHOR_SECTORS);
        assert!(sectors.start >= ANCHOR_SECTORS || !may_be_lost, "an anchor before what it names is durable");
        state.unsynced.push(sectors);
        outcome
    }

    fn sync(&self) -> Result<(), DeviceError> {
        let mut state = self.state.lock().expect("state");
        Self::spend(&mut state, Operation::Sync, 0, 0)?;
        let state = &mut *state;
        for sector in state.unsynced.drain(..).flatten() {
            let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
            state.durable[range.clone()].copy_from_slice(&state.now[range]);
        }
        Ok(())
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let zeros = vec![0xDD; len_bytes as usize];
        self.write_at(offset, &zeros)
    }
}

fn crash(seed: u64, after_operations: u64, steps: u32, crashes: u32) -> bool {
    let device = Arc::new(Forgetful::new(5 << 20));
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), SEGMENT_PAGES).expect("medium"));
    Volume::create(medium(), (0, 0)).expect("create");
    let mut dice = Dice::new(seed);
    let mut forgetting = Dice::new(seed ^ after_operations << 20 ^ 0xABCD);
    let mut model = Model::default();
    let (mut was_cut, mut after_operations) = (false, after_operations);
    for crash in 0..crashes {
        let mut states = vec![model];
        let mut synced = 0;
        // Recovery and its anchor may be cut too.
        device.cut_after(after_operations);
        let opened = Volume::open(medium(), LITTLE_RAM);
        was_cut = opened.is_err();
        if let Ok(volume) = &opened {
            for _ in 0..steps {
                let model = states.last().expect("one at least");
                let step = Step::random(&mut dice, model);
                let expected = step.expected(model);
                if expected.is_none() {
                    let mut next = model.clone();
                    next.apply(&step);
                    states.push(next);
                }
                match step.apply(volume) {
                    Ok(()) if matches!(step, Step::Sync) => synced = states.len() - 1,
                    Ok(()) => {}
                    Err(error) if expected.as_ref() == Some(&error) => {}
                    Err(_) => {
                        was_cut = true;
                        break;
                    }
                }
            }
        }
        drop(opened);
        device.restore(&mut forgetting);
        let volume = open(medium());
        check(&volume);
        let objects = read_all(&volume);
        let is_allowed = states[synced..].iter().any(|state| state.objects == objects);
        assert!(
            is_allowed,
            "seed {seed}, crash {crash}: none of the {} states it may be in",
            states.len() - synced
        );
        drop(volume);
        model = Model { objects };
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
