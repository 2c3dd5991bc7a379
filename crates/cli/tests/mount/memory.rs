//! Files in memory.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

use crate::ground::bytes;

const LEN: usize = 1 << 20;

/// A file of `LEN` bytes in memory.
struct Mapping(*mut u8);

impl Mapping {
    fn new(file: &File, flags: MapFlags) -> Self {
        // SAFETY: the kernel chooses the address, so no other memory is touched.
        let at = unsafe { mmap(ptr::null_mut(), LEN, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0) };
        Mapping(at.expect("it can be mapped").cast())
    }

    fn put(&self, at: usize, byte: u8) {
        assert!(at < LEN);
        // SAFETY: it lies in the mapping, which lives as long as this.
        unsafe { self.0.add(at).write_volatile(byte) }
    }

    fn get(&self, at: usize) -> u8 {
        assert!(at < LEN);
        // SAFETY: it lies in the mapping, which lives as long as this.
        unsafe { self.0.add(at).read_volatile() }
    }

    fn sync(&self) {
        // SAFETY: the range is that of the mapping.
        unsafe { msync(self.0.cast(), LEN, MsyncFlags::SYNC) }.expect("it syncs");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody has a pointer into the mapping but this.
        unsafe { munmap(self.0.cast(), LEN) }.expect("it is mapped");
    }
}

fn file(at: &Path) -> File {
    fs::write(at.join("file"), vec![7; LEN]).expect("a file");
    OpenOptions::new().read(true).write(true).open(at.join("file")).expect("it opens")
}

pub fn is_written_through_a_mapping(at: &Path) {
    let file = file(at);
    let mapping = Mapping::new(&file, MapFlags::SHARED);
    assert_eq!(mapping.get(LEN - 1), 7);
    for at in (0..LEN).step_by(4099) {
        mapping.put(at, 9);
    }
    mapping.sync();
    drop(mapping);
    file.sync_all().expect("it syncs");
    drop(file);
    let bytes = bytes(&at.join("file"));
    assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == if at % 4099 == 0 { 9 } else { 7 }));
}

pub fn private_mappings_stay_private(at: &Path) {
    let file = file(at);
    let mapping = Mapping::new(&file, MapFlags::PRIVATE);
    mapping.put(0, 9);
    assert_eq!(mapping.get(0), 9);
    assert_eq!(bytes(&at.join("file"))[0], 7);
}

/// What was written through a mapping is no hole.
pub fn mapped_bytes_are_data(at: &Path) {
    let file = File::create_new(at.join("file")).expect("a file");
    file.set_len(LEN as u64).expect("it grows");
    drop(file);
    let file = OpenOptions::new().read(true).write(true).open(at.join("file")).expect("it opens");
    let mapping = Mapping::new(&file, MapFlags::SHARED);
    mapping.put(LEN / 2, 9);
    let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).expect("there is some");
    assert!(data <= LEN as u64 / 2, "{data}");
    let hole =
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(LEN as u64 / 2)).expect("there is one at the end");
    assert!(hole > LEN as u64 / 2, "{hole}");
}

/// Holes are found as holes, whatever was read of them, and what was stored into them through a mapping is found as data.
pub fn holes_are_found(at: &Path) {
    const PIECE: u64 = 64 << 10;
    use rustix::fs::{SeekFrom, seek};
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(at.join("file"));
    let file = file.expect("it is made");
    file.set_len(LEN as u64).expect("it grows");
    file.write_all_at(&[7; PIECE as usize], 4 * PIECE).expect("it writes");
    let data = |from| seek(&file, SeekFrom::Data(from));
    let hole = |from| seek(&file, SeekFrom::Hole(from));
    for _ in 0..2 {
        assert_eq!(
            (data(0), data(4 * PIECE + 1), data(5 * PIECE)),
            (Ok(4 * PIECE), Ok(4 * PIECE + 1), Err(rustix::io::Errno::NXIO))
        );
        assert_eq!((hole(0), hole(4 * PIECE), hole(6 * PIECE)), (Ok(0), Ok(5 * PIECE), Ok(6 * PIECE)));
        assert_eq!(hole(LEN as u64), Err(rustix::io::Errno::NXIO));
        file.sync_all().expect("it syncs");
        assert_eq!(bytes(&at.join("file")).len(), LEN);
    }
    let mapping = Mapping::new(&file, MapFlags::SHARED);
    assert_eq!(mapping.get(0), 0);
    for piece in [10, 1, 12] {
        mapping.put((piece * PIECE) as usize, 9);
        assert_eq!(data((piece * PIECE) & !(PIECE - 1)), Ok(piece * PIECE), "piece {piece}");
    }
    assert_eq!((data(0), hole(12 * PIECE + PIECE)), (Ok(PIECE), Ok(13 * PIECE)));
    drop(mapping);
    file.sync_all().expect("it syncs");
    assert_eq!((data(0), data(6 * PIECE)), (Ok(PIECE), Ok(10 * PIECE)));
}

/// A mapping outlives the file's name and its descriptor, and sees what is written otherwise.
pub fn mapping_and_writing_agree(at: &Path) {
    let file = file(at);
    let mapping = Mapping::new(&file, MapFlags::SHARED);
    file.write_all_at(&[5], 4096).expect("it writes");
    assert_eq!(mapping.get(4096), 5);
    mapping.put(8192, 6);
    let mut byte = [0];
    file.read_exact_at(&mut byte, 8192).expect("it reads");
    assert_eq!(byte, [6]);
    fs::remove_file(at.join("file")).expect("it goes");
    drop(file);
    for n in 0..64 {
        fs::write(at.join(format!("new-{n}")), vec![1; 4096]).expect("a file");
    }
    assert_eq!((mapping.get(4096), mapping.get(8192), mapping.get(LEN - 1)), (5, 6, 7));
}
