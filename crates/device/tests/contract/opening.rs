//! Opening regular files: what is found, made, refused and left behind.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use aquifer_device::{AlignedBuffer, Device, DeviceError, FileDevice, OpenError, Operation, ReadRequest};
use tempfile::tempdir;

use crate::fixture::{Mount, pattern, read};

const LEN: u64 = 64 << 10;

#[test]
fn a_file_keeps_its_contents_when_it_is_opened_again() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("device");
    let device = FileDevice::create(&path, LEN).unwrap();
    assert!(device.is_new());
    device.write_at(4096, &pattern(1, 4096)).unwrap();
    device.sync().unwrap();
    drop(device);
    let larger = FileDevice::open(&path, 2 * LEN).unwrap();
    assert!(!larger.is_new());
    assert_eq!(larger.len_bytes(), 2 * LEN);
    assert!(*read(&larger, 4096, 4096) == *pattern(1, 4096));
    drop(larger);
    let smaller = FileDevice::open(&path, LEN).unwrap();
    assert_eq!(smaller.len_bytes(), LEN);
    assert_eq!(fs::metadata(&path).unwrap().len(), 2 * LEN, "a file is never cut");
}

#[test]
fn the_whole_space_is_reserved_and_only_the_owner_may_look() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("device");
    let _device = FileDevice::create(&path, LEN).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), LEN);
    assert!(metadata.blocks() * 512 >= LEN);
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_second_owner_is_refused_and_harms_nothing() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("device");
    let first = FileDevice::create(&path, LEN).unwrap();
    first.write_at(0, &pattern(1, 4096)).unwrap();
    let error = FileDevice::create(&path, 2 * LEN).unwrap_err();
    assert!(matches!(error, OpenError::Busy { .. }), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), LEN);
    assert!(*read(&first, 0, 4096) == *pattern(1, 4096));
    drop(first);
    FileDevice::create(&path, LEN).unwrap();
}

#[test]
fn a_missing_folder_is_named() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("missing").join("device");
    for error in [FileDevice::create(&path, LEN), FileDevice::open(&path, LEN)].map(Result::unwrap_err) {
        assert!(matches!(&error, OpenError::Missing { path: named } if *named == path), "{error}");
    }
    let error = FileDevice::unnamed_in(dir.path().join("missing"), LEN).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    let error = FileDevice::open_block(&path, 0).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
}

#[test]
fn lengths_that_are_no_blocks_leave_no_file() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("device");
    for len_bytes in [0, 1, 513] {
        for result in [FileDevice::create(&path, len_bytes), FileDevice::unnamed_in(dir.path(), len_bytes)] {
            let error = result.unwrap_err();
            assert!(matches!(error, OpenError::BadLength { .. }), "{error}");
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_is_no_file_is_refused() {
    let dir = tempdir().unwrap();
    for result in [
        FileDevice::open("/dev/null", LEN),
        FileDevice::create(dir.path(), LEN),
        FileDevice::open_block("/dev/null", 0),
        FileDevice::open_block(dir.path(), 0),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, OpenError::NotAFileOrBlockDevice { .. }), "{error}");
    }
}

#[test]
fn unnamed_files_leave_nothing() {
    let dir = tempdir().unwrap();
    let device = FileDevice::open(dir.path(), LEN).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(device.path(), dir.path());
    assert!(!device.is_new());
}

#[test]
fn only_what_was_made_here_is_deleted_and_only_when_asked() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("device");
    let make = |remove| {
        let mut device = FileDevice::create(&path, LEN).unwrap();
        device.remove_on_drop(remove);
        device
    };
    drop(make(false));
    assert!(path.exists(), "not asked");
    drop(make(true));
    assert!(path.exists(), "was there before");
    fs::remove_file(&path).unwrap();
    drop(make(true));
    assert!(!path.exists());
    let device = make(true);
    fs::rename(&path, dir.path().join("moved")).unwrap();
    fs::write(&path, b"somebody else's").unwrap();
    drop(device);
    assert!(path.exists(), "another file of that name");
}

#[test]
fn a_file_cut_behind_our_back_is_a_short_transfer() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("device");
    let device = FileDevice::create(&path, LEN).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(8192).unwrap();
    let mut memory = AlignedBuffer::new(8192);
    let error = device.read_at(4096, &mut memory).unwrap_err();
    let short =
        |offset, got| DeviceError::ShortTransfer { operation: Operation::Read, offset, wanted: 8192, got };
    assert_eq!(error, short(4096, 4096));
    let (mut whole, mut beyond) = (AlignedBuffer::new(8192), AlignedBuffer::new(8192));
    let mut batch = [
        ReadRequest::new(0, &mut whole),
        ReadRequest::new(4096, &mut memory),
        ReadRequest::new(16384, &mut beyond),
    ];
    device.read_batch(&mut batch);
    assert_eq!(batch.map(|request| request.result), [Ok(()), Err(short(4096, 4096)), Err(short(16384, 0))]);
}

#[test]
fn a_full_disk_is_an_error_at_open() {
    let Some(mount) = Mount::tmpfs("size=1m") else {
        println!("SKIPPED a_full_disk_is_an_error_at_open: cannot mount a tmpfs");
        return;
    };
    let path = mount.path().join("device");
    for result in [FileDevice::create(&path, 2 << 20), FileDevice::unnamed_in(mount.path(), 2 << 20)] {
        let error = result.unwrap_err();
        assert!(
            matches!(error, OpenError::NoSpace { wanted, available, .. }
                if wanted == 2 << 20 && available == 1 << 20),
            "{error}"
        );
    }
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
    drop(FileDevice::create(&path, 512 << 10).unwrap());
    let error = FileDevice::create(&path, 2 << 20).unwrap_err();
    assert!(matches!(error, OpenError::NoSpace { available, .. } if available == 1 << 20), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 512 << 10, "an old file keeps its length");
}

#[test]
fn a_read_only_file_system_is_named() {
    let Some(mount) = Mount::tmpfs("ro") else {
        println!("SKIPPED a_read_only_file_system_is_named: cannot mount a tmpfs");
        return;
    };
    for result in [FileDevice::create(mount.path().join("device"), LEN), FileDevice::open(mount.path(), LEN)]
    {
        let error = result.unwrap_err();
        assert!(matches!(error, OpenError::ReadOnly { .. }), "{error}");
    }
}

#[test]
fn batches_go_no_deeper_than_they_are_told() {
    let dir = tempdir().unwrap();
    let mut device = FileDevice::unnamed_in(dir.path(), LEN).unwrap();
    if !device.is_uring() {
        println!("SKIPPED batches_go_no_deeper_than_they_are_told: this system refuses io_uring");
        return;
    }
    for (asked, given, reached) in [(3, 3, 3), (1, 1, 1), (0, 1, 1), (1 << 20, 1024, 16)] {
        device.set_depth(asked);
        let mut memory: Vec<_> = (0..16).map(|_| AlignedBuffer::new(4096)).collect();
        let mut reads: Vec<_> =
            (0..).zip(&mut memory).map(|(at, buf)| ReadRequest::new(at * 4096, buf)).collect();
        device.read_batch(&mut reads);
        assert!(reads.iter().all(|read| read.result.is_ok()));
        assert_eq!((device.depth(), device.in_flight_max()), (Some(given), Some(reached)));
    }
}
