//! Random operations, and a new opening every now and then.

use std::sync::Arc;

use aquifer_device::nand::{Geometry, Nand, NandOptions};
use aquifer_device::{MemoryDevice, Pacing};
use aquifer_volume::medium::{DeviceMedium, Medium, NandMedium};
use aquifer_volume::{Volume, VolumeError};

use crate::model::{Dice, Model, Step};
use crate::{check, open};

fn run(medium: &Arc<dyn Medium>, seed: u64, rounds: u32, steps: u32) {
    Volume::create(Box::new(Arc::clone(medium)), (0, 0)).expect("create");
    let mut dice = Dice::new(seed);
    let mut model = Model::default();
    for round in 0..rounds {
        let volume = open(Box::new(Arc::clone(medium)));
        model.compare(&volume);
        for _ in 0..steps {
            let step = Step::random(&mut dice, &model);
            match (step.apply(&volume), step.expected(&model)) {
                (Ok(done), None) => model.apply(&done.unwrap_or(step)),
                (Err(VolumeError::NoSpace), None) => {}
                (Err(error), Some(expected)) => assert_eq!(error, expected, "round {round}, {step:?}"),
                (outcome, expected) => panic!("round {round}, {step:?}: {outcome:?} instead of {expected:?}"),
            }
        }
        model.compare(&volume);
        check(&volume);
        volume.sync().expect("sync");
        match round % 3 {
            0 => volume.close().expect("close"),
            _ => drop(volume),
        }
    }
    let volume = open(Box::new(Arc::clone(medium)));
    model.compare(&volume);
    check(&volume);
}

fn run_on_device(len_bytes: u64, pages_per_segment: u32, seeds: u64, rounds: u32) {
    for seed in 0..seeds {
        let device = MemoryDevice::new(len_bytes, 4096);
        let medium: Arc<dyn Medium> = Arc::new(DeviceMedium::new(device, pages_per_segment).expect("medium"));
        run(&medium, seed, rounds, 300);
    }
}

#[test]
fn on_a_device() {
    run_on_device(48 << 20, 256, 6, 6);
}

#[test]
fn on_a_small_device_that_is_cleaned_all_the_time() {
    run_on_device(6 << 20, 32, 6, 10);
}

#[test]
fn on_flash() {
    for seed in 0..4 {
        let geometry = Geometry { channels: 2, ..Geometry::single_die(64, 16, 4096) };
        let nand = Nand::new(NandOptions::new(geometry)).expect("nand");
        let medium: Arc<dyn Medium> = Arc::new(NandMedium::new(nand, Pacing::Simulated).expect("medium"));
        run(&medium, seed, 6, 300);
    }
}
