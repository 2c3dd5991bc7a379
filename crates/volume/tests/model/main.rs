//! A volume against a model in plain memory: random operations, then everything is compared; the volume is closed, or only dropped, and opened again.

mod model;

use std::sync::Arc;

use aquifer_device::nand::{Geometry as Flash, Nand, NandOptions};
use aquifer_device::{Device, MemoryDevice, Pacing};
use aquifer_volume::medium::{DeviceMedium, Medium, NandMedium};
use aquifer_volume::{Depth, OpenOptions, Volume, VolumeError};

use model::{Model, Step};

/// A medium that can be opened again.
trait Reopen {
    fn medium(&self) -> Box<dyn Medium>;
}

struct Memory(Arc<MemoryDevice>, u32);

impl Reopen for Memory {
    fn medium(&self) -> Box<dyn Medium> {
        Box::new(DeviceMedium::new(Arc::clone(&self.0), self.1).expect("medium"))
    }
}

fn check(volume: &Volume) {
    let findings = volume.check(Depth::Contents, |_, _| ()).expect("check");
    assert!(findings.problems.is_empty(), "{:#?}", findings.problems);
}

fn open(medium: Box<dyn Medium>) -> Volume {
    let options = OpenOptions { ram_bytes: 1 << 20, is_read_only: false };
    Volume::open(medium, options).unwrap_or_else(|error| panic!("open: {error}"))
}

fn run(target: &dyn Reopen, seed: u64, rounds: u32, steps: u32) {
    Volume::create(target.medium(), (0, 0)).expect("create");
    let mut dice = model::Dice::new(seed);
    let mut model = Model::default();
    for round in 0..rounds {
        let volume = open(target.medium());
        model.compare(&volume);
        for _ in 0..steps {
            let step = Step::random(&mut dice, &model);
            let outcome = step.apply(&volume);
            match (&outcome, step.expected(&model)) {
                (Ok(()), None) => model.apply(&step),
                (Err(VolumeError::NoSpace), None) => {}
                (Err(error), Some(expected)) => assert_eq!(error, &expected, "round {round}, {step:?}"),
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
    let volume = open(target.medium());
    model.compare(&volume);
    check(&volume);
}

#[test]
fn on_a_device() {
    for seed in 0..6 {
        let device = Arc::new(MemoryDevice::new(48 << 20, 4096));
        assert_eq!(device.block_bytes(), 4096);
        run(&Memory(device, 256), seed, 6, 300);
    }
}

#[test]
fn on_a_device_that_is_nearly_full() {
    for seed in 0..6 {
        let device = Arc::new(MemoryDevice::new(6 << 20, 4096));
        run(&Memory(device, 32), seed, 8, 400);
    }
}

/// Flash keeps its contents when the medium goes.
struct Raw(Arc<std::sync::Mutex<Option<Nand>>>);

struct Borrowed(Option<NandMedium>, Arc<std::sync::Mutex<Option<Nand>>>);

impl Drop for Borrowed {
    fn drop(&mut self) {
        *self.1.lock().expect("nand") = self.0.take().map(NandMedium::into_inner);
    }
}

impl Reopen for Raw {
    fn medium(&self) -> Box<dyn Medium> {
        let nand = self.0.lock().expect("nand").take().expect("closed before");
        Box::new(Borrowed(
            Some(NandMedium::new(nand, Pacing::Simulated).expect("medium")),
            Arc::clone(&self.0),
        ))
    }
}

macro_rules! forward {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        impl Medium for Borrowed {
            $(fn $name(&self $(, $argument: $kind)*) -> $result {
                self.0.as_ref().expect("open").$name($($argument),*)
            })*
        }
    };
}

forward! {
    geometry() -> aquifer_volume::medium::Geometry;
    is_bad(segment: u32) -> bool;
    erases(segment: u32) -> u32;
    read(at: aquifer_volume::medium::Physical, bytes: &mut [u8; 4096]) -> aquifer_volume::Result<()>;
    read_run(at: aquifer_volume::medium::Physical, bytes: &mut [u8]) -> aquifer_volume::Result<()>;
    append(at: aquifer_volume::medium::Physical, bytes: &[u8], beside: &[aquifer_volume::medium::Beside]) -> aquifer_volume::Result<()>;
    prepare(segment: u32) -> aquifer_volume::Result<()>;
    discard(segment: u32) -> aquifer_volume::Result<()>;
    sync() -> aquifer_volume::Result<()>;
}

#[test]
fn on_flash() {
    for seed in 0..4 {
        let geometry = Flash { channels: 2, ..Flash::single_die(64, 16, 4096) };
        let nand = Nand::new(NandOptions::new(geometry)).expect("nand");
        run(&Raw(Arc::new(std::sync::Mutex::new(Some(nand)))), seed, 6, 300);
    }
}
