//! The power goes at every program and erase of raw flash.

use std::sync::Arc;

use aquifer_device::Pacing;
use aquifer_device::nand::{Geometry, Nand, NandOptions, PowerCut, Tear};
use aquifer_volume::Volume;
use aquifer_volume::medium::NandMedium;

use crate::model::{Dice, Model, Step, read_all};
use crate::{check, open, seeds};

/// The states that a crash may come back to: the last that was synced, and all after it.
struct History {
    states: Vec<Model>,
    synced: usize,
}

/// Runs random steps until the power goes or they are done; says whether it went.
fn run(volume: &Volume, dice: &mut Dice, history: &mut History, steps: u32) -> bool {
    for _ in 0..steps {
        let model = history.states.last().expect("one at least");
        let step = Step::random(dice, model);
        let expected = step.expected(model);
        let mut next = model.clone();
        if expected.is_none() {
            next.apply(&step);
            // It may come to flash in part: as a later state, which is no more and no less than the step.
            history.states.push(next);
        }
        match step.apply(volume) {
            Ok(()) if matches!(step, Step::Sync) => history.synced = history.states.len() - 1,
            Ok(()) => {}
            Err(error) if expected.as_ref() == Some(&error) => {}
            Err(_) => return true,
        }
    }
    false
}

fn verify(medium: &Arc<NandMedium>, history: &History, what: &str) -> Model {
    let volume = open(Box::new(Arc::clone(medium)));
    check(&volume);
    let objects = read_all(&volume);
    let allowed = &history.states[history.synced..];
    let found = allowed.iter().rposition(|state| state.objects == objects);
    assert!(found.is_some(), "{what}: the volume is in none of the {} states it may be in", allowed.len());
    drop(volume);
    Model { objects }
}

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
        let mut history = History { states: vec![model], synced: 0 };
        medium.with(|nand| nand.cut_power(cut));
        was_cut = run(&volume, &mut dice, &mut history, steps);
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
