//! Raw flash that fails: programs and erases, at each moment and at random, until there is no room any more.

use std::sync::Arc;

use aquifer_device::Pacing;
use aquifer_device::nand::{Geometry, Nand, NandOptions, PowerCut, Tear, Wear};
use aquifer_volume::medium::{Medium, NandMedium};
use aquifer_volume::{Ino, Kind, OpenOptions, Result, Volume, VolumeError};

use crate::history::{History, verify};
use crate::model::{Dice, Model};
use crate::{LITTLE_RAM, check, open, seeds};

const SMALL: Geometry = Geometry {
    channels: 2,
    dies_per_channel: 1,
    planes_per_die: 1,
    blocks_per_plane: 48,
    pages_per_block: 8,
    page_bytes: 4096,
};

fn medium(geometry: Geometry, wear: Wear, seed: u64) -> Arc<NandMedium> {
    let nand = Nand::new(NandOptions { seed, wear, ..NandOptions::new(geometry) }).expect("nand");
    Arc::new(NandMedium::new(nand, Pacing::Simulated).expect("medium"))
}

fn bad_segments(medium: &NandMedium) -> usize {
    (0..medium.geometry().segments).filter(|&segment| medium.is_bad(segment)).count()
}

/// Whether more of the segments of anchors have failed than a volume stands: it can be read, and nothing be written.
fn has_lost_its_anchors(medium: &NandMedium) -> bool {
    (0..medium.anchor_segments()).filter(|&segment| medium.is_bad(segment)).count() > 2
}

fn open_to_read(medium: &Arc<NandMedium>) -> Volume {
    let options = OpenOptions { is_read_only: true, ..LITTLE_RAM };
    Volume::open(Box::new(Arc::clone(medium)), options)
        .unwrap_or_else(|error| panic!("open to read: {error}"))
}

/// Whether nothing stopped a program but a cut of the power.
fn is_fine_or_off(outcome: &Result<()>) -> bool {
    outcome.as_ref().err().is_none_or(|error| error.to_string().contains("the power is off"))
}

/// A short program on flash of which some operations fail, then the process ends without a word, or the power goes earlier. Says how many operations
/// there were.
fn short(seed: u64, failures: &[u64], cut: Option<PowerCut>) -> u64 {
    let medium = medium(SMALL, Wear::default(), seed);
    Volume::create(Box::new(Arc::clone(&medium)), (0, 0)).expect("create");
    let operations = |medium: &NandMedium| {
        let counters = medium.with(|nand| nand.counters());
        counters.programs + counters.erases
    };
    let before = operations(&medium);
    medium.with(|nand| {
        failures.iter().for_each(|&after| nand.fail(after));
        cut.into_iter().for_each(|cut| nand.cut_power(cut));
    });
    let what = format!("seed {seed}, failures {failures:?}, {cut:?}");
    let mut history = History::new(Model::default());
    // The power may go before anything was done.
    let outcome = Volume::open(Box::new(Arc::clone(&medium)), LITTLE_RAM)
        .and_then(|volume| history.run(&volume, &mut Dice::new(seed), 120));
    let done = operations(&medium) - before;
    medium.with(Nand::restore_power);
    if has_lost_its_anchors(&medium) {
        history.find(&open_to_read(&medium), &what);
        return done;
    }
    assert!(is_fine_or_off(&outcome), "{what}: {outcome:?}");
    let model = verify(&medium, &history, &what);
    // It goes on as ever.
    let volume = open(Box::new(Arc::clone(&medium)));
    let mut history = History::new(model);
    history.run(&volume, &mut Dice::new(seed + 1), 20).unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(volume);
    verify(&medium, &history, &what);
    assert!(cut.is_some() || failures.is_empty() || bad_segments(&medium) > 0, "{what}: nothing failed");
    done
}

#[test]
fn each_operation_fails_once() {
    for seed in 0..3 {
        for after in 0..short(seed, &[], None) {
            short(seed, &[after], None);
        }
    }
}

#[test]
fn the_operations_behind_a_failure_fail_too() {
    for seed in 0..2 {
        for after in 0..short(seed, &[], None) {
            short(seed, &[after, after + 1], None);
            short(seed, &[after, after + 1, after + 2, after + 5], None);
        }
    }
}

#[test]
fn the_power_goes_behind_a_failure() {
    for seed in 0..2 {
        for after in 0..short(seed, &[], None) {
            let mut dice = Dice::new(seed << 32 | after);
            for failures in [&[after][..], &[after, after + 1], &[after, after + 1, after + 2]] {
                let part = Tear::Part(dice.below(1000) as u16);
                let tear = [Tear::Nothing, part, Tear::Everything][dice.below(3) as usize];
                let after_operations = after + failures.len() as u64 + dice.below(3);
                short(seed, failures, Some(PowerCut { after_operations, tear }));
            }
        }
    }
}

#[test]
fn again_and_again_with_bad_blocks_from_the_factory() {
    let mut bad = 0;
    for seed in seeds(30) {
        let wear = Wear { factory_bad_ppm: 10_000, program_failures_ppb: 4_000_000, ..Wear::default() };
        let geometry = Geometry { blocks_per_plane: 80, ..SMALL };
        let medium = medium(geometry, wear, seed);
        Volume::create(Box::new(Arc::clone(&medium)), (0, 0)).expect("create");
        let mut dice = Dice::new(seed);
        let mut volume = open(Box::new(Arc::clone(&medium)));
        let mut model = Model::default();
        for crash in 0..6 {
            let mut history = History::new(model);
            let cut =
                PowerCut { after_operations: dice.below(600), tear: Tear::Part(dice.below(1000) as u16) };
            medium.with(|nand| nand.cut_power(cut));
            let outcome = history.run(&volume, &mut dice, 250);
            drop(volume);
            medium.with(Nand::restore_power);
            let what = format!("seed {seed}, crash {crash}, {cut:?}");
            let opened = Volume::open(Box::new(Arc::clone(&medium)), LITTLE_RAM);
            if has_lost_its_anchors(&medium) {
                history.find(&open_to_read(&medium), &what);
                break;
            }
            assert!(is_fine_or_off(&outcome), "{what}: {outcome:?}");
            volume = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
            model = history.find(&volume, &what);
        }
        bad += bad_segments(&medium);
    }
    assert!(bad > 100, "{bad} bad segments are too few to show anything");
}

/// Pages that are whole on flash though their program failed: what it did not come to looks like what was to be written.
#[test]
fn a_program_fails_that_has_written_all() {
    let script = |failures: &[u64]| {
        let medium = medium(SMALL, Wear::default(), 1);
        Volume::create(Box::new(Arc::clone(&medium)), (0, 0)).expect("create");
        let volume = open(Box::new(Arc::clone(&medium)));
        medium.with(|nand| failures.iter().for_each(|&after| nand.fail(after)));
        let before = medium.with(|nand| nand.counters());
        let ino = volume.make(Ino::ROOT_FOLDER, b"file", Kind::File, 0o600, 0, 0).expect("make");
        let mut page = [1; 4096];
        page[2048..].fill(0xFF);
        let mut expected = Vec::new();
        for round in 0..12u8 {
            page[..8].fill(round);
            expected.extend_from_slice(&page);
            volume.write(ino, u64::from(round) * 4096, &page).expect("write");
            // The page before becomes a patch, to the place where it is now.
            let at = (usize::from(round).saturating_sub(1)) * 4096 + 100;
            expected[at] = 0x80 + round;
            volume.write(ino, at as u64, &[0x80 + round]).expect("write");
            volume.sync().expect("sync");
        }
        drop(volume);
        let volume = open(Box::new(Arc::clone(&medium)));
        check(&volume);
        let mut bytes = vec![0; expected.len()];
        assert_eq!(volume.read(ino, 0, &mut bytes), Ok(expected.len()));
        assert!(bytes == expected, "failures {failures:?}");
        medium.with(|nand| nand.counters().programs) - before.programs
    };
    for after in 0..script(&[]) {
        script(&[after]);
        script(&[after, after + 1]);
    }
}

/// Pages of one file, over and over, until flash is worn out.
#[test]
fn worn_out_flash_is_full_and_not_damaged() {
    const PAGES: u64 = 400;
    const LIMIT: u32 = 20;
    for seed in seeds(8) {
        let wear = Wear { erase_limit: LIMIT, program_failures_ppb: 100_000, ..Wear::default() };
        let medium = medium(Geometry { blocks_per_plane: 60, pages_per_block: 16, ..SMALL }, wear, seed);
        Volume::create(Box::new(Arc::clone(&medium)), (0, 0)).expect("create");
        let volume = open(Box::new(Arc::clone(&medium)));
        let before = volume.space().expect("space").capacity_bytes;
        let ino = volume.make(Ino::ROOT_FOLDER, b"file", Kind::File, 0o600, 0, 0).expect("make");
        volume.write(ino, 0, &[0; PAGES as usize * 4096]).expect("write");
        volume.sync().expect("sync");
        let mut dice = Dice::new(seed);
        // Of each state that may be found, the numbers that its pages begin with.
        let mut states = vec![vec![0; PAGES as usize]];
        let mut write = |volume: &Volume, number: u64, states: &mut Vec<Vec<u64>>| {
            let page = dice.below(PAGES);
            let mut next = states.last().expect("one at least").clone();
            next[page as usize] = number;
            states.push(next);
            volume.write(ino, page * 4096, &number.to_le_bytes().repeat(512))?;
            if number.is_multiple_of(8) {
                volume.sync()?;
                states.drain(..states.len() - 1);
            }
            Ok(())
        };
        let mut volume = Some(volume);
        let error = (1..).find_map(|number| {
            let outcome: Result<()> = write(volume.as_ref()?, number, &mut states);
            if number.is_multiple_of(1000) && outcome.is_ok() {
                volume = None;
                match Volume::open(Box::new(Arc::clone(&medium)), LITTLE_RAM) {
                    Ok(opened) => volume = Some(opened),
                    Err(error) => return Some(error),
                }
            }
            outcome.err()
        });
        assert_eq!(error, Some(VolumeError::NoSpace), "seed {seed}");
        let log = medium.anchor_segments()..medium.geometry().segments;
        let (stood, erases) =
            (log.len() as u32 * LIMIT, log.map(|segment| medium.erases(segment)).sum::<u32>());
        assert!(erases > stood / 100 * 80, "seed {seed}: full after {erases} erases of {stood}");
        // Without anchors a volume stops, and is opened to read alone.
        let has_anchors = !has_lost_its_anchors(&medium);
        assert!(volume.is_some() || !has_anchors, "seed {seed}: it cannot be opened");
        if let Some(volume) = volume.filter(|_| has_anchors) {
            let left = volume.space().expect("space").capacity_bytes;
            assert!(left < before / 4 * 3, "seed {seed}: {left} bytes of {before} are left");
            // What the last attempt has cleaned may be room for a sync.
            let synced = volume.sync();
            assert!(matches!(synced, Ok(()) | Err(VolumeError::NoSpace)), "seed {seed}: {synced:?}");
        }
        let volume = open_to_read(&medium);
        check(&volume);
        let mut bytes = vec![0; PAGES as usize * 4096];
        volume.read(ino, 0, &mut bytes).expect("read");
        let found: Vec<u64> = bytes
            .chunks_exact(4096)
            .map(|page| u64::from_le_bytes(*page.first_chunk().expect("eight")))
            .collect();
        assert!(states.contains(&found), "seed {seed}: in none of {} states", states.len());
    }
}
