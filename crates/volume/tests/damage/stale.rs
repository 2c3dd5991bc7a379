//! A page is as it was before it was written last: its checksum verifies, and it is of the past.

use super::*;

const FILES: usize = 16;

/// A volume whose segments were written many times, with what each page held before it was written last.
fn worn(rounds: usize, is_closed: bool) -> (Arc<Flash>, Vec<Vec<u8>>) {
    let flash = Flash::new(3 << 20);
    Volume::create(flash.medium(), (0, 0)).expect("created");
    let mut volume = open(&flash).expect("opened");
    let mut files = vec![Vec::new(); FILES];
    for round in 0..rounds {
        let file = round * 7 % FILES;
        let bytes: &mut Vec<u8> = &mut files[file];
        let (at, len) = if round < FILES { (0, 9000) } else { (round * 37 % 8000, 60) };
        let new = contents(file, round, len);
        write(&volume, &format!("/{file}"), at as u64, &new).expect("room");
        bytes.resize(bytes.len().max(at + len), 0);
        bytes[at..at + len].copy_from_slice(&new);
        volume.sync().expect("synced");
        if round % (rounds / 8) == rounds / 8 - 1 && round < rounds - 1 {
            volume.close().expect("closed");
            volume = open(&flash).expect("opened");
        }
    }
    if is_closed {
        volume.close().expect("closed");
    } else {
        flash.rest(&volume);
    }
    (flash, files)
}

#[derive(Default, Debug)]
struct Tally {
    whole: usize,
    /// Files that could not be read, or volumes that were refused.
    told: usize,
    /// Pages whose older version made a file other than it was, without a word.
    silent: Vec<usize>,
}

fn each_page_is_stale(rounds: usize, is_closed: bool) -> Tally {
    let (flash, files) = worn(rounds, is_closed);
    let (image, before) = (flash.image(), flash.before());
    let mut tally = Tally::default();
    for page in 0..image.len() / PAGE_BYTES {
        let place = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
        let Some(stale) = before.get(&(page as u64)).filter(|stale| stale[..] != image[place.clone()]) else {
            continue;
        };
        let mut stale_image = image.clone();
        stale_image[place].copy_from_slice(stale);
        flash.put(&stale_image);
        let Ok(volume) = open(&flash) else {
            tally.told += 1;
            continue;
        };
        let (mut is_told, mut is_silent) = (false, false);
        for (file, expected) in files.iter().enumerate() {
            match read(&volume, &format!("/{file}")) {
                Ok(found) => is_silent |= found != *expected,
                Err(error) => {
                    assert!(says_damage(&error), "page {page}: {error}");
                    is_told = true;
                }
            }
        }
        is_told |= match volume.check(aquifer_volume::Depth::Contents, |_, _| ()) {
            Ok(found) => !found.problems.is_empty(),
            Err(error) => says_damage(&error),
        };
        is_told |= volume.recovered().lost + volume.recovered().damaged > 0;
        match (is_told, is_silent) {
            (true, _) => tally.told += 1,
            (false, true) => tally.silent.push(page),
            (false, false) => tally.whole += 1,
        }
    }
    tally
}

#[test]
fn an_older_page_is_told_from_the_newest() {
    // After 4000 rounds some blocks have patches to the pages to which the blocks that were there before had patches too.
    for (rounds, is_closed) in [(400, true), (400, false), (4000, false)] {
        let tally = each_page_is_stale(rounds, is_closed);
        println!("{tally:?}");
        assert!(tally.silent.is_empty() && tally.told > 20, "{tally:?}");
    }
}
