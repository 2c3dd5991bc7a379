//! Clients that say what is not so of their memory: they hurt no file that they may not write, and stop nobody.

use aquifer_sys::memory::{MappedRange, SharedMemory};

use super::raw::{Raw, faults};
use super::*;

fn read(volume: &Volume, ino: Ino, page: usize) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES];
    volume.read(ino, (page * PAGE_BYTES) as u64, &mut bytes).expect("read");
    bytes
}

/// Views of addresses that no program has, or that are not registered: commits of others go on, and lose nothing.
#[test]
fn a_view_of_no_memory_stops_no_commit() {
    let rig = Rig::new();
    let (theirs, ours) = (rig.file("open to all", 0o666, 0, 0), rig.file("ours", 0o600, 0, 0));
    let raw = Raw::connect(&rig.socket);
    let handle = raw.open("open to all", open::READ | open::WRITE);
    let faults = faults();
    let nothing = MappedRange::of_own_memory(PAGE_BYTES, true).expect("memory");
    let (base, free) = (nothing.base() as u64, 0x7000_0000_0000u64);
    let addresses = [0x8000_0000_0000, 0, u64::MAX - 4095, 1 << 56, free, base, 0xFFFF_8000_0000_0000];
    let mut given = Some(&faults);
    for address in addresses {
        raw.attach(handle, address, 1, 1, given.take());
    }
    for round in 1..5u8 {
        rig.volume.write(ours, 0, &[round; 100]).expect("write");
        // A store through a good view of the same page, which a commit has to protect.
        let client = Client::connect(&rig.socket).expect("connect");
        let file = client.open(b"open to all", open::READ | open::WRITE, 0).expect("open");
        let mapping = file.map(0, PAGE_BYTES, Protection::Write).expect("map");
        store(&mapping, 7, round);
        rig.volume.sync().unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!((read(&rig.volume, ours, 0)[99], read(&rig.volume, theirs, 0)[7]), (round, round));
    }
    check(&rig.volume);
}

/// A reader whose addresses are other memory: the pages of the file are what they were for everybody else.
#[test]
fn a_reader_who_lies_about_its_memory_changes_nothing() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o644, 0, 0);
    for page in 0..20 {
        rig.volume.write(ino, (page * PAGE_BYTES) as u64, &[page as u8 + 1; PAGE_BYTES]).expect("write");
    }
    rig.volume.sync().expect("sync");
    // The pages leave RAM: what the reader asks for comes from flash.
    let other = rig.file("other", 0o600, 0, 0);
    let mut bytes = [0; PAGE_BYTES];
    for page in 0..PAGES {
        rig.volume.write(other, (page * PAGE_BYTES) as u64, &[7; 8]).expect("write");
    }
    rig.volume.sync().expect("sync");
    for page in 0..PAGES {
        rig.volume.read(other, (page * PAGE_BYTES) as u64, &mut bytes).expect("read");
    }
    // Whatever becomes of it: accesses to memory that is not what it said may raise SIGBUS.
    rig.child((1001, 1001), "lie", &["file"]).wait().expect("a child");
    for page in 0..20 {
        assert_eq!(read(&rig.volume, ino, page), vec![page as u8 + 1; PAGE_BYTES], "page {page}");
    }
    rig.volume.write(ino, 5, b"changed").expect("write");
    rig.volume.sync().expect("sync");
    check(&rig.volume);
}

/// Attaches memory of its own as a view of a file for loads, and loads.
pub fn lie(socket: &Path, path: &str) -> String {
    let raw = Raw::connect(socket);
    let handle = raw.open(path, open::READ);
    let _memory = raw.memory(handle);
    let faults = faults();
    let own = MappedRange::of_own_memory(20 * PAGE_BYTES, true).expect("memory");
    // SAFETY: the range is new, and only threads of this process touch it, which ends whatever becomes of them.
    unsafe { faults.register(own.base(), own.len(), true) }.expect("registered");
    assert_eq!(raw.attach(handle, own.base() as u64, 20, 0, Some(&faults)).errno, 0);
    for page in 0..20 {
        let address = own.base() as usize + page * PAGE_BYTES;
        std::thread::spawn(move || {
            // SAFETY: the range is mapped until the process ends.
            unsafe { std::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
        });
    }
    std::thread::sleep(Duration::from_millis(300));
    std::mem::forget(own);
    "lied".into()
}

/// A client that may write a file has its memory. It can neither make that shorter for others, nor seal it against them.
#[test]
fn a_writer_cannot_take_the_memory_from_others() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o666, 0, 0);
    let raw = Raw::connect(&rig.socket);
    let handle = raw.open("file", open::READ | open::WRITE);
    let memory = raw.memory(handle);
    assert_eq!(rustix::fs::ftruncate(&memory, 0), Err(rustix::io::Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(&memory, u64::MAX >> 1), Err(rustix::io::Errno::PERM));
    let sealed = rustix::fs::fcntl_add_seals(&memory, rustix::fs::SealFlags::FUTURE_WRITE);
    assert_eq!(sealed, Err(rustix::io::Errno::PERM));
    rig.volume.write(ino, 9, b"bytes").expect("write");
    rig.volume.sync().expect("sync");
    assert_eq!(&read(&rig.volume, ino, 0)[9..14], b"bytes");
    check(&rig.volume);
}

/// Attaches other shared memory as a view of a file for loads, and stores.
pub fn write_by_faults(socket: &Path, path: &str) -> String {
    let raw = Raw::connect(socket);
    let handle = raw.open(path, open::READ);
    let faults = faults();
    let other = SharedMemory::new((64 * PAGE_BYTES) as u64).expect("memory");
    let own = other.map(0, 64 * PAGE_BYTES, Protection::Write).expect("map");
    // SAFETY: the range is new, and only threads of this process touch it, which ends whatever becomes of them.
    unsafe { faults.register_shared(own.base(), own.len(), true) }.expect("registered");
    assert_eq!(raw.attach(handle, own.base() as u64, 64, 0, Some(&faults)).errno, 0);
    for page in 0..64 {
        let address = own.base() as usize + page * PAGE_BYTES;
        std::thread::spawn(move || {
            // SAFETY: the range is mapped until the process ends.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) }
        });
    }
    std::thread::sleep(Duration::from_millis(300));
    std::mem::forget(own);
    "stored".into()
}
