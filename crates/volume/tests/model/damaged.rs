//! A crash, and then one byte has another value, or a page cannot be read any more, or a write was acknowledged and not done: what a volume shows is as it was
//! written, or named as lost.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use aquifer_device::{AlignedBuffer, Device, DeviceError, Forgetful, Kept, Operation};
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Depth, Ino, Kind, PAGE_BYTES, Result, Volume, VolumeError};

use crate::history::History;
use crate::model::{Dice, Model, Object};
use crate::{LITTLE_RAM, seeds};

const LEN_BYTES: u64 = 3 << 20;
const SEGMENT_PAGES: u32 = 16;

/// What happens, by the seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Damage {
    FlippedByte,
    BadPage,
    LostWrite,
}

/// A device of which a page cannot be read until it is written, or a write is acknowledged and not done.
struct Worn {
    device: Forgetful,
    bad_page: Mutex<Option<u64>>,
    /// Writes before the one that is lost.
    writes_left: Mutex<Option<u64>>,
}

impl Worn {
    fn has_bad_page(&self, offset: u64, len_bytes: usize) -> bool {
        let pages = offset / PAGE_BYTES as u64..(offset + len_bytes as u64) / PAGE_BYTES as u64;
        lock(&self.bad_page).is_some_and(|page| pages.contains(&page))
    }

    fn is_lost(&self) -> bool {
        let mut left = lock(&self.writes_left);
        let is_lost = *left == Some(0);
        *left = left.and_then(|left| left.checked_sub(1));
        is_lost
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device for Worn {
    fn len_bytes(&self) -> u64 {
        self.device.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.device.block_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), DeviceError> {
        if self.has_bad_page(offset, buf.len()) {
            let operation = Operation::Read;
            return Err(DeviceError::Io { operation, offset, len_bytes: buf.len(), errno: 5 });
        }
        self.device.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> std::result::Result<(), DeviceError> {
        if self.is_lost() {
            return Ok(());
        }
        if self.has_bad_page(offset, buf.len()) {
            *lock(&self.bad_page) = None;
        }
        self.device.write_at(offset, buf)
    }

    fn sync(&self) -> std::result::Result<(), DeviceError> {
        self.device.sync()
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> std::result::Result<(), DeviceError> {
        self.device.discard(offset, len_bytes)
    }
}

fn open(device: &Arc<Worn>) -> Result<Volume> {
    Volume::open(Box::new(DeviceMedium::new(Arc::clone(device), SEGMENT_PAGES).expect("medium")), LITTLE_RAM)
}

/// What random steps left that a crash ended, and which states it may be in.
fn left(seed: u64, damage: Damage, dice: &mut Dice) -> (Arc<Worn>, History) {
    let device = Forgetful::new(LEN_BYTES, PAGE_BYTES);
    let device = Arc::new(Worn { device, bad_page: Mutex::default(), writes_left: Mutex::default() });
    let medium = DeviceMedium::new(Arc::clone(&device), SEGMENT_PAGES).expect("medium");
    Volume::create(Box::new(medium), (0, 0)).expect("create");
    let mut history = History::new(Model::default());
    let volume = open(&device).expect("open");
    device.device.cut_after(dice.below(90));
    *lock(&device.writes_left) = (damage == Damage::LostWrite).then(|| dice.below(60));
    // Where the power goes, or a loss is seen, the steps end.
    let _ = history.run(&volume, dice, 150);
    drop(volume);
    *lock(&device.writes_left) = None;
    match dice.below(3) {
        0 => device.device.restore_power(Kept::Some(seed)),
        _ => device.device.revive(),
    }
    (device, history)
}

/// A page that is not all zeros, and its bytes.
fn used_page(device: &Forgetful, dice: &mut Dice) -> (u64, AlignedBuffer) {
    let mut page = AlignedBuffer::new(PAGE_BYTES);
    loop {
        let number = dice.below(LEN_BYTES / PAGE_BYTES as u64);
        device.read_at(number * PAGE_BYTES as u64, &mut page).expect("power");
        if page.iter().any(|&byte| byte != 0) {
            return (number, page);
        }
    }
}

/// Does what is done after the crash; says what.
fn damage_it(device: &Worn, damage: Damage, dice: &mut Dice) -> String {
    let (number, mut page) = used_page(&device.device, dice);
    match damage {
        Damage::FlippedByte => {
            // Half of the places are where headers and words are.
            let at = dice.below([256, PAGE_BYTES as u64][dice.clone().below(2) as usize]) as usize;
            page[at] ^= 1 + dice.below(255) as u8;
            device.device.write_at(number * PAGE_BYTES as u64, &page).expect("power");
            device.device.sync().expect("power");
            format!("byte {at} of page {number}")
        }
        Damage::BadPage => {
            *lock(&device.bad_page) = Some(number);
            format!("page {number} cannot be read")
        }
        Damage::LostWrite => "a lost write".into(),
    }
}

/// What a volume shows; what it names as damaged is left out, and counted.
#[derive(Default)]
struct Shown {
    objects: Vec<(String, Object)>,
    damaged: usize,
}

impl Shown {
    fn of(volume: &Volume, what: &str) -> Self {
        let mut shown = Shown::default();
        let mut folders = vec![(Ino::ROOT_FOLDER, String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            let mut entries = Vec::new();
            let listed = volume.list(folder, 0, |entry| {
                let name = String::from_utf8(entry.name.to_vec()).expect("a name");
                entries.push((name, entry.ino, entry.kind));
                ControlFlow::Continue(())
            });
            shown.note(listed, what);
            for (name, ino, kind) in entries {
                let path = format!("{prefix}{name}");
                if kind == Kind::Folder {
                    folders.push((ino, format!("{path}/")));
                    shown.objects.push((path, Object::Folder));
                } else if let Some(bytes) = shown.note(bytes_of(volume, ino), what) {
                    shown.objects.push((path, Object::File(Arc::new(bytes))));
                }
            }
        }
        shown
    }

    fn note<T>(&mut self, outcome: Result<T>, what: &str) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                assert!(says_damage(&error), "{what}: {error}");
                self.damaged += 1;
                None
            }
        }
    }
}

fn bytes_of(volume: &Volume, ino: Ino) -> Result<Vec<u8>> {
    let mut bytes = vec![0; volume.inode(ino)?.size_bytes as usize];
    let got = volume.read(ino, 0, &mut bytes)?;
    assert_eq!(got, bytes.len());
    Ok(bytes)
}

fn says_damage(error: &VolumeError) -> bool {
    matches!(error, VolumeError::Damaged { .. } | VolumeError::Device(_) | VolumeError::Corrupt(_))
}

#[derive(Default, Debug)]
struct Tally {
    refused: usize,
    damaged: usize,
    whole: usize,
}

fn look(seed: u64, tally: &mut Tally) {
    let damage = [Damage::FlippedByte, Damage::BadPage, Damage::LostWrite][seed as usize % 3];
    let mut dice = Dice::new(seed ^ 0xF11F);
    let (device, history) = left(seed, damage, &mut dice);
    let what = format!("seed {seed}, {}", damage_it(&device, damage, &mut dice));
    let volume = match open(&device) {
        Ok(volume) => volume,
        Err(error) => {
            assert!(says_damage(&error), "{what}: {error}");
            tally.refused += 1;
            return;
        }
    };
    let shown = Shown::of(&volume, &what);
    // A last write that was lost, as far as anybody can tell, was never made.
    let may_be_older = volume.recovered().lost > 0 || damage == Damage::LostWrite;
    for (path, object) in &shown.objects {
        assert!(history.has(path, object, may_be_older), "{what}: {path} is as it never was");
    }
    match volume.check(Depth::Contents, |_, _| ()) {
        Ok(findings) if findings.problems.is_empty() => {
            assert_eq!(shown.damaged, 0, "{what}: a check finds nothing");
            let objects = shown.objects.into_iter().collect();
            assert!(history.has_state(&Model { objects }, may_be_older), "{what}: in none of its states");
            tally.whole += 1;
        }
        // Where the table of inodes cannot be read, a check ends.
        Err(error) => assert!(says_damage(&error), "{what}: {error}"),
        Ok(_) => tally.damaged += 1,
    }
}

#[test]
fn damage_after_a_crash_is_named_or_changes_nothing() {
    let mut tally = Tally::default();
    let seeds = seeds(90);
    let count = (seeds.end - seeds.start) as usize;
    seeds.for_each(|seed| look(seed, &mut tally));
    let is_telling = tally.damaged > count / 20 && tally.whole > count / 20;
    assert!(is_telling || count < 60, "{tally:?} of {count}");
}
