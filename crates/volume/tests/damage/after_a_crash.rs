//! A process writes files, syncs each and is killed; then something happens to one page of what it left.

use super::*;

const FILES: usize = 9;
const VERSIONS: usize = 3;
const LEN: usize = 9000;

/// What a killed process left: files that were each synced, then changed in part and synced again, so that there are blocks with pages, patches and trims.
struct Left {
    image: Vec<u8>,
    files: Vec<Vec<u8>>,
}

fn path(file: usize) -> String {
    format!("/file {file}")
}

fn left(rests: bool) -> Left {
    let flash = Flash::new(3 << 20);
    Volume::create(flash.medium(), (0, 0)).expect("created");
    let files = write_files(&flash, rests).expect("written");
    Left { image: flash.image(), files }
}

/// Writes and syncs files in an empty volume, and is killed; what they hold.
pub fn write_files(flash: &Arc<Flash>, rests: bool) -> Result<Vec<Vec<u8>>> {
    let volume = open(flash)?;
    let mut files = Vec::new();
    for file in 0..FILES {
        let bytes = contents(file, 0, LEN);
        write(&volume, &path(file), 0, &bytes)?;
        volume.sync()?;
        files.push(bytes);
    }
    for version in 1..VERSIONS {
        for (file, bytes) in files.iter_mut().enumerate() {
            let start = 100 * (file + version);
            bytes[start..start + 40].copy_from_slice(&contents(file, version, 40));
            write(&volume, &path(file), start as u64, &bytes[start..start + 40])?;
            volume.sync()?;
        }
    }
    root(&volume).truncate(path(0).as_bytes(), 0)?;
    write(&volume, &path(0), 5000, &[1; 10])?;
    volume.sync()?;
    files[0] = [vec![0; 5000], vec![1; 10]].concat();
    if rests {
        flash.rest(&volume);
    }
    Ok(files)
}

/// What became of the files of an image: none may be wrong, and what is not as it was synced must be named.
#[derive(Default, Debug)]
pub struct Tally {
    pub whole: usize,
    pub lost: usize,
    pub refused: usize,
    /// A new file could be made.
    usable: usize,
    /// Without a word: only where the last block was torn, as far as anybody can tell.
    pub unsaid: usize,
}

impl Tally {
    pub fn look(&mut self, flash: &Arc<Flash>, files: &[Vec<u8>], what: &str) {
        let volume = match open(flash) {
            Ok(volume) => volume,
            Err(error) => {
                assert!(says_damage(&error), "{what}: {error}");
                self.refused += 1;
                let volume = Volume::open_damaged(flash.medium(), 1 << 20);
                assert!(volume.is_ok() || volume.is_err_and(|error| says_damage(&error)), "{what}");
                return;
            }
        };
        let mut differ = 0;
        let mut lost = 0;
        for (file, expected) in files.iter().enumerate() {
            match read(&volume, &path(file)) {
                Ok(found) if found == *expected => {}
                Ok(_) | Err(VolumeError::NotFound) => differ += 1,
                Err(error) => {
                    assert!(says_damage(&error), "{what}: {error}");
                    lost += 1;
                }
            }
        }
        match volume.check(aquifer_volume::Depth::Contents, |_, _| ()) {
            Ok(findings) => assert!(lost == 0 || !findings.problems.is_empty(), "{what}: nothing is named"),
            Err(error) => assert!(says_damage(&error), "{what}: {error}"),
        }
        self.unsaid += usize::from(differ > 0 && volume.recovered().lost == 0);
        self.lost += usize::from(lost > 0);
        self.whole += usize::from(lost + differ == 0);
        drop(volume);
        // What is left can still be used, unless the damage is where a new file would be noted.
        let volume = match open(flash) {
            Ok(volume) => volume,
            // Where the log goes on now cannot be read.
            Err(error) => {
                assert!(says_damage(&error), "{what}, again: {error}");
                return;
            }
        };
        let written = write(&volume, "/another", 0, &[7; 5000]);
        assert!(written.as_ref().err().is_none_or(says_damage), "{what}, again: {written:?}");
        self.usable += usize::from(written.is_ok());
        volume.close().unwrap_or_else(|error| panic!("{what}, again: {error}"));
    }
}

fn used_pages(image: &[u8]) -> impl Iterator<Item = usize> {
    (0..image.len() / PAGE_BYTES)
        .filter(|page| image[page * PAGE_BYTES..][..PAGE_BYTES].iter().any(|&byte| byte != 0))
}

#[test]
fn a_flipped_byte_loses_nothing_in_silence() {
    let left = left(true);
    let flash = Flash::new(left.image.len() as u64);
    let mut tally = Tally::default();
    for page in used_pages(&left.image) {
        for byte in [0, 20, 70, 1000, 4095] {
            let mut image = left.image.clone();
            image[page * PAGE_BYTES + byte] ^= 0x10;
            flash.put(&image);
            tally.look(&flash, &left.files, &format!("page {page}, byte {byte}"));
        }
    }
    assert_eq!((tally.unsaid, tally.refused), (0, 0), "{tally:?}");
    assert!(tally.whole > 20 && tally.lost > 20, "{tally:?}");
}

#[test]
fn a_page_that_cannot_be_read_loses_nothing_in_silence() {
    let left = left(true);
    let flash = Flash::new(left.image.len() as u64);
    let mut tally = Tally::default();
    for page in 0..left.image.len() / PAGE_BYTES {
        flash.put(&left.image);
        flash.make_unreadable(page as u64);
        tally.look(&flash, &left.files, &format!("page {page}"));
    }
    assert_eq!(tally.unsaid, 0, "{tally:?}");
    // The last block, and the page on which either head would go on: nobody knows whether it has.
    assert!(tally.refused <= 3, "{tally:?}");
}

/// Two blocks in a row: the echo of the first is gone too.
#[test]
fn a_volume_is_refused_whose_losses_nobody_knows() {
    let left = left(true);
    let flash = Flash::new(left.image.len() as u64);
    let mut tally = Tally::default();
    let used: Vec<usize> =
        used_pages(&left.image).filter(|&page| page >= 2 * SEGMENT_PAGES as usize).collect();
    for from in used {
        let mut image = left.image.clone();
        for page in from..(from + 8).min(image.len() / PAGE_BYTES) {
            image[page * PAGE_BYTES + 100] ^= 0x10;
        }
        flash.put(&image);
        tally.look(&flash, &left.files, &format!("eight pages from {from}"));
    }
    // Damage of the end of the log, with all that tells of it, looks as if it had never been written.
    assert!(tally.unsaid <= 8 && tally.refused > 5, "{tally:?}");
}

/// Where the process was killed at once, damage of the last transaction cannot be told from a torn write: it is dropped as a whole, and the opening says so.
#[test]
fn before_the_log_rests_only_the_last_transaction_can_be_dropped() {
    let left = left(false);
    let flash = Flash::new(left.image.len() as u64);
    let mut tally = Tally::default();
    for page in used_pages(&left.image) {
        // In a block: the segment where the log goes on, the epoch, the kind.
        for byte in [33, 27, 36] {
            let mut image = left.image.clone();
            image[page * PAGE_BYTES + byte] ^= 0x10;
            flash.put(&image);
            tally.look(&flash, &left.files, &format!("page {page}, byte {byte}"));
        }
    }
    assert_eq!((tally.unsaid, tally.refused), (0, 0), "{tally:?}");
}

/// A crash in a checkpoint loses nothing that a program wrote.
#[test]
fn a_torn_checkpoint_is_no_lost_change() {
    let left = left(false);
    let flash = Flash::new(left.image.len() as u64);
    flash.put(&left.image);
    // Many nodes change, and are written whole.
    let volume = open(&flash).expect("opened");
    for file in 100..140 {
        write(&volume, &path(file), 0, &contents(file, 0, LEN)).expect("room");
    }
    volume.sync().expect("synced");
    let before = flash.image();
    volume.close().expect("closed");
    let after = flash.image();
    let anchors = 2 * SEGMENT_PAGES as usize * PAGE_BYTES;
    let is_written =
        |page: usize| after[page * PAGE_BYTES..][..PAGE_BYTES] != before[page * PAGE_BYTES..][..PAGE_BYTES];
    let node = (2 * SEGMENT_PAGES as usize..after.len() / PAGE_BYTES)
        .find(|&page| is_written(page) && key_of(&after, page).is_some_and(PageKey::is_node));
    let mut torn = [&before[..anchors], &after[anchors..]].concat();
    torn[node.expect("a node was written") * PAGE_BYTES..][..PAGE_BYTES].fill(0);
    flash.put(&torn);
    let volume = open(&flash).expect("opened again");
    let recovered = volume.recovered();
    assert!(recovered.lost > 0 && !recovered.lost_changes, "{recovered:?}");
    assert_eq!(read(&volume, &path(120)), Ok(contents(120, 0, LEN)));
    // Where a commit is torn, it is said.
    flash.put(&left.image);
    let last = (0..left.image.len() / PAGE_BYTES)
        .filter_map(|page| {
            let block =
                Block::decode(left.image[page * PAGE_BYTES..][..PAGE_BYTES].try_into().expect("a page"))?;
            (block.header().at.0 as usize == page).then_some((block.header().sequence, page))
        })
        .max();
    let mut torn = left.image.clone();
    torn[last.expect("a block").1 * PAGE_BYTES + 100] ^= 1;
    flash.put(&torn);
    let volume = open(&flash).expect("opened again");
    assert!(volume.recovered().lost_changes, "{:?}", volume.recovered());
}
