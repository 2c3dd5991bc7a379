//! Each write of a process in turn is acknowledged and not done, or done elsewhere; then the process is killed.

use super::after_a_crash::{Tally, write_files};
use super::*;

fn each_write_goes_wrong(how: Wrong) -> Tally {
    let mut tally = Tally::default();
    let mut nth = 1;
    loop {
        let flash = Flash::new(3 << 20);
        Volume::create(flash.medium(), (0, 0)).expect("created");
        flash.go_wrong(nth, how);
        let what = format!("write {nth}, {how:?}");
        match write_files(&flash, true) {
            // What was lost was needed at once, and its loss was seen.
            Err(error) => {
                assert!(says_damage(&error), "{what}: {error}");
                tally.refused += 1;
            }
            Ok(files) => {
                if flash.writes() < nth {
                    return tally;
                }
                tally.look(&flash, &files, &what);
            }
        }
        nth += 1;
        assert!(nth < 1000, "a short program does not end");
    }
}

#[test]
fn lost_writes_lose_nothing_in_silence() {
    let tally = each_write_goes_wrong(Wrong::Lost);
    // The write that says, once the volume rests, that the last commit was durable: nobody misses it.
    assert!(tally.unsaid == 0 && tally.refused <= 4, "{tally:?}");
    assert!(tally.lost > 10, "{tally:?}");
}

#[test]
fn writes_that_were_cut_lose_nothing_in_silence() {
    let tally = each_write_goes_wrong(Wrong::Cut);
    assert!(tally.unsaid == 0 && tally.refused <= 4, "{tally:?}");
}

#[test]
fn misdirected_writes_lose_nothing_in_silence() {
    for pages in [1, 40] {
        let tally = each_write_goes_wrong(Wrong::Misdirected(pages));
        assert!(tally.unsaid == 0 && tally.lost + tally.refused > 10, "{pages} pages: {tally:?}");
    }
}
