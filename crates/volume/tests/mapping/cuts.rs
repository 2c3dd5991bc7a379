//! Files that are cut, punched and removed beside threads that store to them.

use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex};

use aquifer_device::{Device, DeviceError};

use super::*;

/// Cuts a file to nothing and lets it grow again, beside a thread that stores to all of its pages and is told by SIGBUS that they are gone. Whatever that thread
/// stored after a cut is its own; a page must be all zeros, or what it stored since.
fn cut_beside_stores(map: impl Fn(&Arc<Volume>, Ino, usize) -> Mapping) {
    const PAGES: usize = 64;
    const ROUNDS: u64 = 300;
    let rig = Rig::new();
    let volume = rig.open();
    let len = PAGES * PAGE_BYTES;
    let ino = make(&volume, "file", len as u64);
    let mapping = map(&volume, ino, len);
    let words_of = |page: usize| &words(&mapping)[page * PAGE_BYTES / 8..][..PAGE_BYTES / 8];
    let is_over = AtomicBool::new(false);
    let round = AtomicU64::new(1);
    let mut old = 0;
    std::thread::scope(|scope| {
        let (volume, is_over, round) = (&volume, &is_over, &round);
        scope.spawn(move || {
            // Punching takes pages away as a cut does, and leaves the file its size: no access raises SIGBUS.
            while !is_over.load(Ordering::Relaxed) {
                for page in 0..PAGES {
                    let now = round.load(Ordering::SeqCst);
                    words_of(page)[9].store(now, Ordering::SeqCst);
                }
            }
        });
        for number in 2..ROUNDS {
            for page in 0..PAGES {
                words_of(page)[1].store(number, Ordering::Relaxed);
            }
            if number % 3 == 0 {
                volume.sync().expect("sync");
            }
            round.store(number, Ordering::SeqCst);
            volume.punch(ino, 0, len as u64).expect("punched");
            // Only this thread stores to word 1: what is there is from before.
            old += (0..PAGES).filter(|&page| words_of(page)[1].load(Ordering::Relaxed) != 0).count();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(old, 0, "pages have come back that were punched");
    drop(mapping);
    volume.sync().expect("sync");
    check(&volume);
}

#[test]
fn a_page_that_is_taken_away_does_not_come_back() {
    cut_beside_stores(|volume, ino, len| volume.map(ino, 0, len, Protection::Write).expect("map"));
}

#[test]
fn nor_one_of_shared_memory() {
    cut_beside_stores(|volume, ino, len| volume.map_to_share(ino, 0, len, Protection::Write).expect("map"));
}

/// What a program stores behind the end, in the last page, is not the file's, also if it has unmapped it when the file grows.
#[test]
fn what_was_stored_behind_the_end_is_zeros_when_the_file_grows() {
    for is_shared in [false, true] {
        let rig = Rig::new();
        let volume = rig.open();
        let ino = make(&volume, "file", 100);
        let map = if is_shared { Volume::map_to_share } else { Volume::map };
        let mapping = map(&volume, ino, 0, PAGE_BYTES, Protection::Write).expect("map");
        words(&mapping)[0].store(1, Ordering::Relaxed);
        words(&mapping)[100].store(u64::MAX, Ordering::Relaxed);
        drop(mapping);
        volume.sync().expect("sync");
        volume.truncate(ino, 3 * PAGE_BYTES as u64).expect("grow");
        let mut bytes = vec![9; 3 * PAGE_BYTES];
        assert_eq!(volume.read(ino, 0, &mut bytes), Ok(bytes.len()));
        assert_eq!(bytes.iter().filter(|&&byte| byte != 0).count(), 1, "shared: {is_shared}");
        volume.sync().expect("sync");
        check(&volume);
    }
}

/// Memory whose next sync waits until it is let go on.
struct Held {
    memory: MemoryDevice,
    /// Whether syncs wait, and whether one does.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Held {
    fn set(&self, waits: bool) {
        self.state.lock().expect("state").0 = waits;
        self.changed.notify_all();
    }

    fn wait_for_a_sync(&self) {
        let state = self.state.lock().expect("state");
        drop(self.changed.wait_while(state, |(_, is_one)| !*is_one).expect("state"));
    }
}

impl Device for Held {
    fn len_bytes(&self) -> u64 {
        self.memory.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.memory.block_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.memory.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.memory.write_at(offset, buf)
    }

    fn sync(&self) -> Result<(), DeviceError> {
        let mut state = self.state.lock().expect("state");
        state.1 = true;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(waits, _)| *waits).expect("state"));
        Ok(())
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.memory.discard(offset, len_bytes)
    }
}

/// While a commit waits for the device, pages that are unmapped stay until the table knows where the commit has written them.
#[test]
fn unmapping_beside_a_commit_shows_no_page_as_it_was() {
    // More than stay in RAM when they are unmapped.
    const PAGES: usize = 18 << 10;
    let memory = MemoryDevice::new(256 << 20, 4096);
    let device = Arc::new(Held { memory, state: Mutex::default(), changed: Condvar::new() });
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 256).expect("medium"));
    Volume::create(medium(), (0, 0)).expect("create");
    let options = OpenOptions { ram_bytes: 128 << 20, is_read_only: false };
    let volume = Arc::new(Volume::open(medium(), options).expect("open"));
    let ino = make(&volume, "file", (PAGES * PAGE_BYTES) as u64);
    let mapping = volume.map(ino, 0, PAGES * PAGE_BYTES, Protection::Write).expect("map");
    let word_of = |page: usize| &words(&mapping)[page * PAGE_BYTES / 8];
    (0..PAGES).for_each(|page| word_of(page).store(1, Ordering::Relaxed));
    volume.sync().expect("sync");
    (0..PAGES).step_by(3).for_each(|page| word_of(page).store(2, Ordering::Relaxed));
    let read = |page: usize| {
        let mut bytes = [0; 8];
        volume.read(ino, (page * PAGE_BYTES) as u64, &mut bytes).expect("read");
        u64::from_le_bytes(bytes)
    };
    let old = || (0..PAGES).step_by(3).filter(|&page| read(page) != 2).count();
    *device.state.lock().expect("state") = (true, false);
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| volume.sync().expect("sync"));
        device.wait_for_a_sync();
        drop(mapping);
        let old = old();
        device.set(false);
        syncing.join().expect("synced");
        assert_eq!(old, 0, "pages are as they were before the stores");
    });
    assert_eq!(old(), 0, "pages are as they were before the stores, once the commit has ended");
    check(&volume);
}
