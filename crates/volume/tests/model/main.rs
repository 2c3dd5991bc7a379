//! A volume against a model in plain memory.
//!
//! `random`: random operations, then everything is compared; the volume is closed, or only dropped, and opened again.
//! `cuts`: the power goes at every operation of raw flash.
//! `flash`: programs and erases of raw flash fail.
//! `wear`: how evenly raw flash is erased.
//! `crashes`: a device forgets any of the writes that were not synced.
//! `damaged`: a flipped byte, a bad page or a lost write after a crash.
//! `reopened`: what a volume has shown after a crash is there after the next.
//!
//! `AQUIFER_CRASHES=n` makes the crash tests try n seeds, `AQUIFER_CRASHES_FROM=k` begins with seed k.

mod crashes;
mod cuts;
mod damaged;
mod flash;
mod full;
mod history;
mod model;
mod random;
mod reopened;
mod wear;

use aquifer_volume::medium::Medium;
use aquifer_volume::{Depth, OpenOptions, Volume};

const LITTLE_RAM: OpenOptions = OpenOptions { ram_bytes: 1 << 20, is_read_only: false };

/// A volume with as little RAM as possible.
fn open(medium: Box<dyn Medium>) -> Volume {
    Volume::open(medium, LITTLE_RAM).unwrap_or_else(|error| panic!("open: {error}"))
}

/// Says that a volume fits together.
fn check(volume: &Volume) {
    let findings = volume.check(Depth::Contents, |_, _| ()).expect("check");
    assert!(findings.problems.is_empty(), "{:#?}", findings.problems);
}

/// Seeds that a crash test tries: as many as it says, or as the environment says.
fn seeds(few: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let from = number("AQUIFER_CRASHES_FROM").unwrap_or(0);
    from..from + number("AQUIFER_CRASHES").unwrap_or(few)
}
