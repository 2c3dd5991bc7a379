//! A volume that is opened after a crash again and again.

use std::sync::Arc;

use aquifer_base::random::Random;
use aquifer_device::MemoryDevice;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Depth, Ino, Kind, OpenOptions, PAGE_BYTES, Volume};

const SEGMENT_PAGES: u32 = 64;
const BYTES: u64 = 24 << 20;
const ROUNDS: u64 = 200;

/// Each opening after a crash takes segments for the ends of the log. A volume with room for more takes changes all the same.
#[test]
fn crashes_leave_room_for_changes() {
    // About 40 %, 70 % and 90 % of the room for files.
    for pages in [2000, 3500, 4500] {
        crash_again_and_again(pages);
    }
}

fn crash_again_and_again(pages: u64) {
    let device = Arc::new(MemoryDevice::new(BYTES, PAGE_BYTES));
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), SEGMENT_PAGES).expect("a medium"));
    Volume::create(medium(), (0, 0)).expect("created");
    let options = OpenOptions { ram_bytes: 1 << 20, is_read_only: false };
    let mut rng = Random::new(7);
    for round in 0..ROUNDS {
        let volume = Volume::open(medium(), options)
            .unwrap_or_else(|error| panic!("{pages} pages, round {round}: {error}"));
        let file = if round == 0 {
            let file = volume.make(Ino::ROOT_FOLDER, b"file", Kind::File, 0o600, 0, 0).expect("made");
            for page in 0..pages {
                volume.write(file, page * PAGE_BYTES as u64, &[1; PAGE_BYTES]).expect("written");
            }
            file
        } else {
            volume.lookup(Ino::ROOT_FOLDER, b"file").expect("there")
        };
        // In some rounds nothing is written before the next crash.
        for _ in 0..rng.below(4) {
            for _ in 0..30 {
                let at = rng.below(pages) * PAGE_BYTES as u64;
                volume
                    .write(file, at, &[round as u8; PAGE_BYTES])
                    .unwrap_or_else(|error| panic!("{pages} pages, round {round}: {error}"));
            }
            volume.sync().unwrap_or_else(|error| panic!("{pages} pages, round {round}: {error}"));
        }
        std::mem::forget(volume);
    }
    let volume = Volume::open(medium(), options).expect("opened");
    let findings = volume.check(Depth::Contents, |_, _| ()).expect("checked");
    assert_eq!(findings.problems, [""; 0]);
}
