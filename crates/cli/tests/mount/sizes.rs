//! Sizes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::ground::{self, bytes, fails};

fn file(at: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(at.join("file"))
        .expect("it opens")
}

pub fn up_and_down(at: &Path) {
    let mut file = file(at);
    let mut model = vec![1; 10_000];
    file.write_all(&model).expect("it writes");
    for size in [9_999, 4097, 8192, 4096, 4095, 20_000, 1, 12_288, 0, 5] {
        file.set_len(size as u64).expect("it changes");
        model.resize(size, 0);
        assert_eq!(file.metadata().expect("it is there").len(), size as u64);
        assert!(bytes(&at.join("file")) == model, "{size}");
        // Something behind the new end must not come back.
        if size > 100 {
            file.write_all_at(&[2; 50], size as u64 - 50).expect("it writes");
            model[size - 50..].fill(2);
        }
    }
}

/// A file with much room between its bytes takes little.
pub fn sparse(at: &Path) {
    let file = file(at);
    let far = 1 << 30;
    file.write_all_at(b"start", 0).expect("it writes");
    file.write_all_at(b"end", far).expect("it writes");
    file.sync_all().expect("it syncs");
    let metadata = file.metadata().expect("it is there");
    assert_eq!(metadata.len(), far + 3);
    assert!(metadata.blocks() * 512 < 1 << 20, "{}", metadata.blocks());
    let mut between = vec![1; 8192];
    file.read_exact_at(&mut between, far / 2 - 1).expect("it reads");
    assert!(between.iter().all(|&byte| byte == 0));
    let mut end = [0; 3];
    file.read_exact_at(&mut end, far).expect("it reads");
    assert_eq!(&end, b"end");
    let mut seeking = &file;
    // Where file systems do not know their holes, all is data up to a hole at the end.
    let hole = seeking.seek(SeekFrom::End(0)).expect("it seeks");
    assert_eq!(hole, far + 3);
    assert!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).expect("there is one") <= far + 3);
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(far)), Ok(far));
    fails(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(far + 3)), Errno::NXIO);
}

pub fn punched(at: &Path) {
    let mut file = file(at);
    let mut model = vec![7; 40_000];
    file.write_all(&model).expect("it writes");
    file.sync_all().expect("it syncs");
    let blocks = file.metadata().expect("it is there").blocks();
    for (from, len) in [(5000, 20_000), (0, 1), (39_000, 5_000), (8192, 4096)] {
        fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, len)
            .expect("it is punched");
        let end = (from + len).min(40_000) as usize;
        model[from as usize..end].fill(0);
        assert!(bytes(&at.join("file")) == model, "{from} {len}");
    }
    file.sync_all().expect("it syncs");
    assert!(file.metadata().expect("it is there").blocks() < blocks);
    fallocate(&file, FallocateFlags::ZERO_RANGE, 30_000, 30_000).expect("it is zeroed");
    model.resize(60_000, 0);
    model[30_000..].fill(0);
    assert!(bytes(&at.join("file")) == model);
}

pub fn allocated(at: &Path) {
    let file = file(at);
    file.write_all_at(b"bytes", 0).expect("it writes");
    fallocate(&file, FallocateFlags::empty(), 0, 100_000).expect("there is room");
    assert_eq!(file.metadata().expect("it is there").len(), 100_000);
    fallocate(&file, FallocateFlags::empty(), 0, 10).expect("there is room");
    assert_eq!(file.metadata().expect("it is there").len(), 100_000);
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 200_000).expect("there is room");
    assert_eq!(file.metadata().expect("it is there").len(), 100_000);
    assert!(bytes(&at.join("file")).starts_with(b"bytes\0\0"));
}

/// Where the kernel writes back, it takes this and is refused later.
fn behind_all_files(at: &Path) {
    let file = file(at);
    // No file system here has files of 8 EiB.
    fails(file.write_at(b"x", i64::MAX as u64 - 1), Errno::FBIG);
    assert_eq!(file.metadata().expect("it is there").len(), 0);
}

#[test]
fn native_has_nothing_behind_all_files() {
    ground::native(behind_all_files);
}

#[test]
fn mounted_has_nothing_behind_all_files() {
    ground::mounted("mounted_has_nothing_behind_all_files", behind_all_files);
}

pub fn far_away(at: &Path) {
    let file = file(at);
    file.write_all_at(b"x", 5 << 30).expect("it writes");
    assert_eq!(file.metadata().expect("it is there").len(), (5 << 30) + 1);
}

pub fn short_writes_at_the_end(at: &Path) {
    let mut file = file(at);
    let mut model = Vec::new();
    for n in 0..2000u32 {
        let piece = vec![n as u8; (n * 7 % 113) as usize];
        file.write_all(&piece).expect("it writes");
        model.extend(piece);
    }
    assert!(bytes(&at.join("file")) == model);
    let mut behind = [1; 10];
    file.seek(SeekFrom::End(-4)).expect("it seeks");
    assert_eq!(file.read(&mut behind).expect("it reads"), 4);
    assert_eq!(file.read(&mut behind).expect("it reads"), 0);
}
