//! What a client does with the memory that it was given, beside its views.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FallocateFlags, SealFlags};

use super::raw::{Raw, faults, shared};
use super::victim::Victim;
use super::*;

const READ_WRITE: u64 = open::READ | open::WRITE;

/// Bytes of RAM that memory takes.
fn taken(memory: &OwnedFd) -> u64 {
    rustix::fs::fstat(memory).expect("stat").st_blocks as u64 * 512
}

/// A writer stores to pages of which the server thinks that nobody changed them, and to others as it should: what flash gets is what was there.
#[test]
fn stores_beside_the_views_damage_no_page() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o666, 0, 0);
    let victim = Victim::new(&rig);
    rig.volume.write(ino, 0, &[3; 20 * PAGE_BYTES]).expect("write");
    rig.volume.sync().expect("sync");
    let (raw, faults) = (Raw::connect(&rig.socket), faults());
    let handle = raw.open("file", READ_WRITE);
    let (range, _) = raw.map(handle, 20, Protection::Write, &faults, true);
    let memory = shared(raw.memory(handle));
    for round in 0..4u8 {
        for page in 0..20 {
            let at = page * PAGE_BYTES;
            // SAFETY: the range is mapped, and nobody has a reference into it.
            let load = |at: usize| unsafe { range.base().add(at).read_volatile() };
            load(at);
            memory.write_at(at as u64 + 2000, &[100 + round]).expect("written");
            // SAFETY: as above.
            unsafe { range.base().add(at + 9).write_volatile(round) };
            memory.write_at(at as u64 + 3000, &[200 + round]).expect("written");
        }
        rig.volume.sync().expect("sync");
        check(&rig.volume);
    }
    // Read from flash, not from RAM.
    let other = rig.file("other", 0o600, 0, 0);
    rig.volume.write(other, 0, &vec![1; PAGES * PAGE_BYTES]).expect("write");
    rig.volume.sync().expect("sync");
    rig.volume.read(ino, 0, &mut [0; 20 * PAGE_BYTES]).expect("no page is damaged");
    victim.end(&rig);
}

/// The same, where the file has no shared memory any more when its page is changed, or has another.
#[test]
fn stores_beside_the_views_damage_no_page_when_the_memory_is_gone() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o666, 0, 0);
    let victim = Victim::new(&rig);
    rig.volume.write(ino, 0, &[3; 20 * PAGE_BYTES]).expect("write");
    rig.volume.sync().expect("sync");
    for round in 0..4u8 {
        let (raw, next) = (Raw::connect(&rig.socket), Raw::connect(&rig.socket));
        let handle = raw.open("file", READ_WRITE);
        let memory = shared(raw.memory(handle));
        rig.volume.read(ino, 0, &mut [0; 20 * PAGE_BYTES]).expect("read");
        for page in 0..20 {
            memory.write_at(page * PAGE_BYTES as u64 + 2000, &[100 + round]).expect("written");
        }
        assert_eq!(raw.errno_of(aquifer_volume::serve::protocol::Operation::Close, handle), 0);
        let others = next.open("file", READ_WRITE);
        let _memory = (round % 2 == 0).then(|| next.memory(others));
        for page in 0..20 {
            rig.volume.write(ino, page * PAGE_BYTES as u64 + 9, &[round]).expect("written");
        }
        rig.volume.sync().expect("sync");
        check(&rig.volume);
    }
    victim.end(&rig);
}

/// A writer takes the pages away from their memory: others find zeros, and no error.
#[test]
fn pages_that_a_writer_takes_away_are_zeros_for_others() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o666, 0, 0);
    let mut victim = Victim::new(&rig);
    let raw = Raw::connect(&rig.socket);
    let handle = raw.open("file", READ_WRITE);
    let memory = raw.memory(handle);
    for how in ["r/r", "rw/w", "r/p"] {
        rig.volume.write(ino, 0, b"first").expect("write");
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&memory, hole, 0, (PAGES * PAGE_BYTES) as u64).expect("a hole");
        assert_eq!(rig.run((0, 0), "map", &["file", how]), "mapped \0", "{how}");
    }
    victim.go_on();
    victim.end(&rig);
}

/// A writer fills memory with pages of which the server knows nothing: it has them for as long as it has the file.
#[test]
fn memory_beside_the_pages_goes_with_its_writer() {
    const STRAY_BYTES: usize = 64 << 20;
    let rig = Rig::new();
    let ino = rig.file("file", 0o666, 0, 0);
    let mut victim = Victim::new(&rig);
    rig.volume.write(ino, 0, &[4; 10 * PAGE_BYTES]).expect("write");
    // Somebody else has the file too, or nobody.
    for is_shared in [false, true] {
        let other = Raw::connect(&rig.socket);
        let held = other.open("file", open::READ);
        let others = is_shared.then(|| other.memory(held));
        let raw = Raw::connect(&rig.socket);
        let handle = raw.open("file", READ_WRITE);
        let memory = raw.memory(handle);
        let stray = vec![9; 1 << 20];
        for at in 0..STRAY_BYTES >> 20 {
            rustix::io::pwrite(&memory, &stray, (1 << 40) + (at << 20) as u64).expect("written");
        }
        assert!(taken(&memory) >= STRAY_BYTES as u64);
        drop(memory);
        assert_eq!(raw.errno_of(aquifer_volume::serve::protocol::Operation::Close, handle), 0);
        let now = others.unwrap_or_else(|| other.memory(held));
        assert!(taken(&now) < 1 << 20, "{} bytes stay, shared: {is_shared}", taken(&now));
        // The end of its connection would give back more, in its time.
        assert_eq!(other.errno_of(aquifer_volume::serve::protocol::Operation::Close, held), 0);
    }
    let mut bytes = [0; 10 * PAGE_BYTES];
    rig.volume.read(ino, 0, &mut bytes).expect("read");
    assert_eq!(bytes, [4; 10 * PAGE_BYTES]);
    victim.go_on();
    victim.end(&rig);
}

/// A reader can hold its descriptor as it likes: locks, leases and seals of it mean nothing to anybody.
#[test]
fn a_reader_locks_nothing() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o644, 0, 0);
    let mut victim = Victim::new(&rig);
    let raw = Raw::connect(&rig.socket);
    let handle = raw.open("file", open::READ);
    let memory = raw.memory(handle);
    rustix::fs::flock(&memory, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("a lock");
    assert!(rustix::fs::fcntl_add_seals(&memory, SealFlags::WRITE).is_err());
    assert!(rustix::fs::ftruncate(&memory, 0).is_err());
    assert!(rustix::io::write(&memory, b"x").is_err());
    for flags in [FallocateFlags::empty(), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE] {
        assert!(rustix::fs::fallocate(memory.as_fd(), flags, 0, 4096).is_err());
    }
    rig.volume.write(ino, 0, b"after").expect("write");
    let mut bytes = [0; 5];
    rustix::io::pread(&memory, &mut bytes, 0).expect("read");
    assert_eq!(&bytes, b"after");
    victim.go_on();
    victim.end(&rig);
}

/// What was behind the end of a file that was cut is not in its memory, nor what a removed file had.
#[test]
fn memory_has_no_bytes_of_what_is_gone() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o644, 0, 0);
    let victim = Victim::new(&rig);
    rig.volume.write(ino, 0, &[6; 30 * PAGE_BYTES]).expect("write");
    let raw = Raw::connect(&rig.socket);
    let memory = raw.memory(raw.open("file", open::READ));
    rig.volume.truncate(ino, 5 * PAGE_BYTES as u64 + 7).expect("cut");
    let mut bytes = [1; 30 * PAGE_BYTES];
    rustix::io::pread(&memory, &mut bytes, 0).expect("read");
    assert!(bytes[5 * PAGE_BYTES + 7..].iter().all(|byte| *byte == 0));
    rig.volume.unlink(Ino::ROOT_FOLDER, b"file").expect("remove");
    drop(raw);
    rig.volume.sync().expect("sync");
    let next = rig.file("next", 0o600, 0, 0);
    rig.volume.write(next, 0, &[7; 30 * PAGE_BYTES]).expect("write");
    let raw = Raw::connect(&rig.socket);
    let _theirs = raw.memory(raw.open("next", open::READ));
    rustix::io::pread(&memory, &mut bytes, 0).expect("read");
    assert!(bytes.iter().all(|byte| *byte != 7), "bytes of another file");
    victim.end(&rig);
}
