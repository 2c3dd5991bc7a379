//! The power goes at every program and erase of raw flash.

use std::sync::Arc;

use aquifer_device::Pacing;
use aquifer_device::nand::{Geometry, Nand, NandOptions, PowerCut, Tear};
use aquifer_volume::Volume;
use aquifer_volume::medium::NandMedium;

use crate::history::{History, verify};
use crate::model::{Dice, Model};
use crate::{open, seeds};

/// One program of random steps; the power goes after `cut`, then again and again at random.
fn crash(seed: u64, cut: PowerCut, steps: u32, crashes: u32) -> bool {
    let geometry = Geometry { channels: 2, ..Geometry::single_die(40, 8, 4096) };
    let nand = Nand::new(NandOptions { seed, ..NandOptions::new(geometry) }).expect("nand");
    let medium = Arc::new(NandMedium::new(nand, Pacing::Simulated).expect("medium"));
    Volume::create(Box::new(Arc::clone(&medium)), (0, 0)).expect("create");
    let mut dice = Dice::new(seed);
    let mut model = Model::default();
    let mut was_cut = false;
    let mut cut = cut;
    for crash in 0..crashes {
        let volume = open(Box::new(Arc::clone(&medium)));
        let mut history = History::new(model);
        medium.with(|nand| nand.cut_power(cut));
        was_cut = history.run(&volume, &mut dice, steps).is_err();
        drop(volume);
        medium.with(Nand::restore_power);
        model = verify(&medium, &history, &format!("seed {seed}, crash {crash}, {cut:?}"));
        cut = PowerCut { after_operations: dice.below(600), tear: tear(&mut dice) };
    }
    was_cut
}

fn tear(dice: &mut Dice) -> Tear {
    match dice.below(3) {
        0 => Tear::Nothing,
        1 => Tear::Part(dice.below(1000) as u16),
        _ => Tear::Everything,
    }
}

#[test]
fn at_every_operation_of_a_short_program() {
    let mut all = 0;
    for seed in 0..3 {
        for tear in [Tear::Nothing, Tear::Part(500), Tear::Part(995), Tear::Everything] {
            let mut operations = 0;
            while crash(seed, PowerCut { after_operations: operations, tear }, 150, 1) {
                operations += 1;
                assert!(operations < 10_000, "a short program does not end");
            }
            all += operations;
        }
    }
    assert!(all > 600, "the programs are too short to show anything: {all} operations");
}

#[test]
fn again_and_again_in_long_programs() {
    for seed in seeds(40) {
        let mut dice = Dice::new(seed ^ 0x55);
        let cut = PowerCut { after_operations: dice.below(600), tear: tear(&mut dice) };
        crash(seed, cut, 250, 6);
    }
}
