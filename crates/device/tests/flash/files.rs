//! Flash in a file: found again by another process, refused when it is something else.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use aquifer_device::ftl::{Ftl, FtlOptions};
use aquifer_device::nand::{Backing, Geometry, Nand, NandOpenError, NandOptions, Wear};

use crate::{Random, page};

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    dies_per_channel: 1,
    planes_per_die: 2,
    blocks_per_plane: 32,
    pages_per_block: 16,
    page_bytes: 512,
};

fn open(path: &Path, geometry: Geometry) -> Result<Nand, NandOpenError> {
    let wear = Wear { factory_bad_ppm: 50_000, ..Wear::default() };
    Nand::new(NandOptions { backing: Backing::File(path.into()), wear, ..NandOptions::new(geometry) })
}

fn options() -> FtlOptions {
    FtlOptions { over_provisioning: 0.4, ..FtlOptions::default() }
}

#[test]
fn what_was_written_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    let mut random = Random(1);
    let mut held = Vec::new();
    for round in 0..4u64 {
        let mut ftl = Ftl::open(open(&path, GEOMETRY).unwrap(), options()).unwrap();
        held.resize(ftl.user_pages() as usize, 0);
        let mut bytes = page(0);
        for (logical, &tag) in held.iter().enumerate() {
            ftl.read(logical as u32, &mut bytes, 0).unwrap();
            assert_eq!(bytes, page(tag));
        }
        for step in 0..2000 {
            let logical = random.below(ftl.user_pages());
            held[logical as usize] = round << 32 | step;
            ftl.write(logical, &page(held[logical as usize]), 0).unwrap();
        }
        let trimmed = random.below(ftl.user_pages());
        ftl.trim(trimmed);
        held[trimmed as usize] = 0;
        ftl.sync(0).unwrap();
        ftl.check().unwrap();
    }
    assert_eq!(Nand::geometry_of(&path).unwrap(), GEOMETRY);
}

/// The page is lost; the block that it is in must still be cleaned, or the device could not be written any more.
#[test]
fn a_damaged_page_costs_itself_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    let mut ftl = Ftl::open(open(&path, GEOMETRY).unwrap(), options()).unwrap();
    let pages = ftl.user_pages();
    for logical in 0..pages {
        ftl.write(logical, &page(1 << 40 | u64::from(logical)), 0).unwrap();
    }
    drop(ftl);
    // The file has the bits of pages turned over.
    let turned: Vec<u8> = page(1 << 40 | 7).iter().map(|byte| !byte).collect();
    let at = fs::read(&path).unwrap().windows(512).position(|window| window == turned).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[0x55], at as u64 + 100).unwrap();
    let mut ftl = Ftl::open(open(&path, GEOMETRY).unwrap(), options()).unwrap();
    let mut random = Random(3);
    let mut bytes = page(0);
    for step in 0..5000 {
        let logical = random.below(pages);
        if logical != 7 {
            ftl.write(logical, &page(step), 0).unwrap();
            ftl.read(logical, &mut bytes, 0).unwrap();
            assert_eq!(bytes, page(step));
        }
    }
    assert!(ftl.counters().lost_pages >= 1 && ftl.counters().erases > 0, "its block was never cleaned");
    ftl.read(7, &mut bytes, 0).unwrap_err();
    ftl.write(7, &page(7), 0).unwrap();
    ftl.read(7, &mut bytes, 0).unwrap();
    assert_eq!(bytes, page(7));
    ftl.check().unwrap();
}

#[test]
fn new_flash_takes_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    drop(open(&path, Geometry { blocks_per_plane: 10_000, ..GEOMETRY }).unwrap());
    let metadata = fs::metadata(&path).unwrap();
    assert!(metadata.len() > 160 << 20 && metadata.blocks() * 512 < 1 << 20);
}

#[test]
fn two_at_a_time_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    let _first = open(&path, GEOMETRY).unwrap();
    assert!(matches!(open(&path, GEOMETRY), Err(NandOpenError::Io { step: "locking", .. })));
}

#[test]
fn other_files_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flash");
    let refusal = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let error = open(&path, GEOMETRY).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), bytes, "{error}");
        error
    };
    assert!(matches!(refusal(b"a letter to grandmother"), NandOpenError::NotNand { .. }));
    assert!(matches!(refusal(&[0; 1 << 20]), NandOpenError::NotNand { .. }));
    assert!(matches!(
        refusal(b"AqNand01\x09\0\0\0 and so on, for forty bytes"),
        NandOpenError::OtherVersion { version: 9, .. }
    ));
    fs::remove_file(&path).unwrap();
    drop(open(&path, GEOMETRY).unwrap());
    let other = Geometry { pages_per_block: 8, ..GEOMETRY };
    assert!(matches!(open(&path, other), Err(NandOpenError::Mismatch { .. })));
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&99u32.to_le_bytes(), 4096 + 16).unwrap();
    assert!(matches!(open(&path, GEOMETRY), Err(NandOpenError::Mismatch { .. })), "99 of 16 pages");
    file.set_len(8192).unwrap();
    assert!(matches!(open(&path, GEOMETRY), Err(NandOpenError::Mismatch { .. })), "cut");
    assert!(matches!(Nand::geometry_of(&dir.path().join("absent")), Err(NandOpenError::Io { .. })));
}
