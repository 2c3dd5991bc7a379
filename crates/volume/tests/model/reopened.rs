//! What an opening has shown stays: a program is killed or the power goes, the volume is opened, and the power goes again during the opening or right after
//! it.
//!
//! A killed program leaves writes in the cache of its device. Recovery finds them like any others, and they are not durable yet.

use std::sync::Arc;

use aquifer_device::{Forgetful, Kept};
use aquifer_volume::medium::{DeviceMedium, Medium};
use aquifer_volume::{OpenOptions, Result, Volume};

use crate::history::History;
use crate::model::{Dice, Model};
use crate::{LITTLE_RAM, seeds};

const SECTOR_BYTES: usize = 512;
const SEGMENT_PAGES: u32 = 16;

/// How a volume is left.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The program is killed; the device has all that was written.
    Killed,
    /// The power goes.
    NoPower(Kept),
}

impl End {
    fn random(dice: &mut Dice) -> Self {
        match dice.below(3) {
            0 => End::Killed,
            1 => End::NoPower(Kept::Nothing),
            _ => End::NoPower(Kept::Some(dice.below(1 << 40))),
        }
    }

    fn come(self, device: &Forgetful) {
        match self {
            End::Killed => device.revive(),
            End::NoPower(kept) => device.restore_power(kept),
        }
    }
}

fn medium(device: &Arc<Forgetful>) -> Box<dyn Medium> {
    Box::new(DeviceMedium::new(Arc::clone(device), SEGMENT_PAGES).expect("medium"))
}

fn open(device: &Arc<Forgetful>, is_read_only: bool) -> Result<Volume> {
    Volume::open(medium(device), OpenOptions { is_read_only, ..LITTLE_RAM })
}

/// An empty volume whose parts are lost by the sector or by the page.
fn create(len_bytes: u64, block_bytes: usize) -> Arc<Forgetful> {
    let device = Arc::new(Forgetful::new(len_bytes, block_bytes));
    Volume::create(medium(&device), (0, 0)).expect("create");
    device
}

/// Opens a volume and ends the program at an operation of the opening. Says what was shown, if the opening came to its end.
fn look(
    device: &Arc<Forgetful>,
    is_read_only: bool,
    cut_after: u64,
    history: &History,
    what: &str,
) -> Option<Model> {
    device.cut_after(cut_after);
    let opened = open(device, is_read_only);
    if device.is_cut() {
        return None;
    }
    device.revive();
    let volume = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    Some(history.find(&volume, what))
}

/// Opens a volume that is whole, and says what it shows.
fn find(device: &Arc<Forgetful>, history: &History, what: &str) -> Model {
    let volume = open(device, false).unwrap_or_else(|error| panic!("{what}: {error}"));
    history.find(&volume, what)
}

/// Ends the program at each operation of the opening of a volume, and after it.
fn cut_openings(device: &Forgetful, is_read_only: bool, history: &History, end: End, what: &str) {
    for cut_after in 0.. {
        assert!(cut_after < 1000, "an opening does not end");
        let what = format!("{what}, opened (to read: {is_read_only}), ended after {cut_after}, {end:?}");
        let device = Arc::new(device.copy());
        let shown = look(&device, is_read_only, cut_after, history, &what);
        end.come(&device);
        let found = find(&device, history, &what);
        if let Some(shown) = shown {
            assert!(shown.objects == found.objects, "{what}: what was shown has gone back");
            return;
        }
    }
}

/// Runs random steps until an operation of the device; whether they came so far.
fn run(device: &Arc<Forgetful>, history: &mut History, dice: &mut Dice, steps: u32, cut_after: u64) -> bool {
    let volume = open(device, false).expect("open");
    device.cut_after(cut_after);
    history.run(&volume, dice, steps).is_err()
}

#[test]
fn at_every_operation_of_a_short_program_and_of_the_opening_after_it() {
    let mut all = 0;
    for (seed, block_bytes) in [(3, SECTOR_BYTES), (4, 4096)] {
        for cut_after in 0.. {
            assert!(cut_after < 10_000, "a short program does not end");
            let device = create(3 << 20, block_bytes);
            let mut history = History::new(Model::default());
            let was_cut = run(&device, &mut history, &mut Dice::new(seed), 150, cut_after);
            for end in [End::Killed, End::NoPower(Kept::Some(cut_after))] {
                let device = device.copy();
                end.come(&device);
                let what = format!("seed {seed}, ended after {cut_after} operations, {end:?}");
                for is_read_only in [false, true] {
                    let again = End::NoPower(Kept::Nothing);
                    cut_openings(&device, is_read_only, &history, again, &what);
                }
                cut_openings(&device, false, &history, End::NoPower(Kept::Some(seed)), &what);
            }
            if !was_cut {
                break;
            }
            all += 1;
        }
    }
    assert!(all > 25, "the programs are too short to show anything: {all} operations");
}

#[test]
fn again_and_again_in_long_programs() {
    for seed in seeds(40) {
        let mut dice = Dice::new(seed ^ 0x2F);
        let device = create(5 << 20, [SECTOR_BYTES, 4096][seed as usize % 2]);
        let mut model = Model::default();
        for crash in 0..6 {
            let what = format!("seed {seed}, crash {crash}");
            let mut history = History::new(model);
            let cut_after = dice.below(200);
            run(&device, &mut history, &mut dice, 250, cut_after);
            End::random(&mut dice).come(&device);
            let shown = loop {
                let (is_read_only, cut_after) = (dice.below(3) == 0, dice.below(25));
                let shown = look(&device, is_read_only, cut_after, &history, &what);
                End::random(&mut dice).come(&device);
                if let Some(shown) = shown {
                    break shown;
                }
            };
            let found = find(&device, &History::new(shown), &format!("{what}, what was shown has gone back"));
            model = found;
        }
    }
}
