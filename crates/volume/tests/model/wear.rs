//! Raw flash under pages that are written all the time, beside many that never are.

use std::sync::Arc;

use aquifer_device::Pacing;
use aquifer_device::nand::{Geometry, Nand, NandOptions, PowerCut, Tear};
use aquifer_volume::medium::{Medium, NandMedium};
use aquifer_volume::{Ino, Kind, PAGE_BYTES, Result, Volume};

use crate::model::Dice;
use crate::{check, open};

/// Erases by which segments differ at most: 32 by the volume's rule, and 16 until a segment's turn has come.
const SPREAD_MAX: u32 = 48;
const HOT_PAGES: u64 = 100;
/// Pages that are written between two syncs.
const SYNC_PAGES: u64 = 32;

fn page(tag: u64) -> Vec<u8> {
    tag.to_le_bytes().repeat(PAGE_BYTES / 8)
}

fn medium(nand: Nand) -> Arc<NandMedium> {
    Arc::new(NandMedium::new(nand, Pacing::Simulated).expect("medium"))
}

/// Erases of the segments of the log: fewest and most.
fn erases(medium: &NandMedium) -> (u32, u32) {
    let segments = medium.anchor_segments()..medium.geometry().segments;
    let counts = segments.map(|segment| medium.erases(segment));
    counts.fold((u32::MAX, 0), |(fewest, most), count| (fewest.min(count), most.max(count)))
}

/// Two files, and what is in them.
#[derive(Clone)]
struct Files {
    cold: Ino,
    cold_pages: u64,
    hot: Ino,
    /// Numbers of the last writes: those that are synced, and all.
    synced: Vec<u64>,
    now: Vec<u64>,
    number: u64,
    dice: Dice,
}

impl Files {
    /// Cold pages that take seven eighths of a volume.
    fn make(volume: &Volume) -> Self {
        let capacity = volume.space().expect("space").capacity_bytes / PAGE_BYTES as u64;
        let make = |name: &[u8]| volume.make(Ino::ROOT_FOLDER, name, Kind::File, 0o600, 0, 0).expect("make");
        let (cold, hot, cold_pages) = (make(b"cold"), make(b"hot"), capacity / 8 * 7);
        for at in 0..cold_pages {
            volume.write(cold, at * PAGE_BYTES as u64, &page(at)).expect("write");
        }
        volume.write(hot, 0, &page(0).repeat(HOT_PAGES as usize)).expect("write");
        volume.sync().expect("sync");
        let none = vec![0; HOT_PAGES as usize];
        Files { cold, cold_pages, hot, synced: none.clone(), now: none, number: 0, dice: Dice::new(1) }
    }

    /// Writes hot pages, and syncs.
    fn write(&mut self, volume: &Volume) -> Result<()> {
        for _ in 0..SYNC_PAGES {
            let at = self.dice.below(HOT_PAGES);
            self.number += 1;
            self.now[at as usize] = self.number;
            volume.write(self.hot, at * PAGE_BYTES as u64, &page(self.number))?;
        }
        volume.sync()?;
        self.synced.clone_from(&self.now);
        Ok(())
    }

    /// Says that a volume has what was synced, or all that was written.
    fn verify(&self, volume: &Volume, what: &str) {
        check(volume);
        let mut bytes = vec![0; PAGE_BYTES];
        for at in 0..self.cold_pages {
            volume.read(self.cold, at * PAGE_BYTES as u64, &mut bytes).expect("read");
            assert!(bytes == page(at), "{what}: cold page {at}");
        }
        let found: Vec<u64> = (0..HOT_PAGES)
            .map(|at| {
                volume.read(self.hot, at * PAGE_BYTES as u64, &mut bytes).expect("read");
                let tag = u64::from_le_bytes(*bytes.first_chunk().expect("a number"));
                assert!(bytes == page(tag), "{what}: hot page {at}");
                tag
            })
            .collect();
        assert!(found == self.synced || found == self.now, "{what}: it is at no sync");
    }
}

fn flash() -> Nand {
    let geometry = Geometry { channels: 2, ..Geometry::single_die(64, 16, 4096) };
    Nand::new(NandOptions::new(geometry)).expect("nand")
}

#[test]
fn segments_with_cold_pages_are_erased_in_their_turn() {
    let medium = medium(flash());
    Volume::create(Box::new(Arc::clone(&medium)), (0, 0)).expect("create");
    let volume = open(Box::new(Arc::clone(&medium)));
    let mut files = Files::make(&volume);
    let before = medium.with(|nand| nand.counters().programs);
    let writes = 150 * volume.space().expect("space").capacity_bytes / PAGE_BYTES as u64;
    let mut spread_most = 0;
    while files.number < writes {
        files.write(&volume).expect("write");
        let (fewest, most) = erases(&medium);
        spread_most = spread_most.max(most - fewest);
    }
    let (fewest, _) = erases(&medium);
    assert!(fewest > 2 * SPREAD_MAX, "{fewest} erases are too few to show anything");
    assert!(spread_most <= SPREAD_MAX, "erases of segments differ by up to {spread_most}");
    // With 1.17 programs for each page when nothing is levelled, and a sixteenth for that.
    let programs = medium.with(|nand| nand.counters().programs) - before;
    assert!(programs < writes / 100 * 124, "{programs} programs for {writes} pages");
    drop(volume);
    files.verify(&open(Box::new(Arc::clone(&medium))), "at the end");
}

#[test]
fn the_power_goes_while_segments_are_levelled() {
    let whole = medium(flash());
    Volume::create(Box::new(Arc::clone(&whole)), (0, 0)).expect("create");
    let volume = open(Box::new(Arc::clone(&whole)));
    let mut files = Files::make(&volume);
    while erases(&whole).1 < 40 {
        files.write(&volume).expect("write");
    }
    drop(volume);
    let mut levelled = 0;
    for after_operations in (0..).step_by(7) {
        let medium = medium(whole.with(|nand| nand.snapshot()).expect("a snapshot"));
        let volume = open(Box::new(Arc::clone(&medium)));
        let tear = [Tear::Nothing, Tear::Part(700), Tear::Everything][after_operations as usize % 3];
        medium.with(|nand| nand.cut_power(PowerCut { after_operations, tear }));
        let mut files = files.clone();
        let outcome = (0..50).try_for_each(|_| files.write(&volume));
        drop(volume);
        medium.with(Nand::restore_power);
        files.verify(&open(Box::new(Arc::clone(&medium))), &format!("after {after_operations} operations"));
        let cold = |medium: &NandMedium| {
            let segments = medium.anchor_segments()..medium.geometry().segments;
            segments.filter(|&segment| medium.erases(segment) < 8).count()
        };
        levelled = levelled.max(cold(&whole).saturating_sub(cold(&medium)));
        if outcome.is_ok() {
            break;
        }
    }
    assert!(levelled > 1, "{levelled} segments were levelled: too few to show anything");
}
