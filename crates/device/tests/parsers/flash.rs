//! The file of an emulated flash device that anybody could have written, and the translation layer over it.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use aquifer_base::checksum::crc32c_seeded;
use aquifer_device::ftl::{Ftl, FtlOpenError, FtlOptions};
use aquifer_device::nand::{
    Backing, Geometry, Header, HeaderFound, Nand, NandOpenError, NandOptions, OOB_BYTES, Oob,
};

pub const GEOMETRY: Geometry = Geometry {
    channels: 1,
    dies_per_channel: 2,
    planes_per_die: 1,
    blocks_per_plane: 8,
    pages_per_block: 4,
    page_bytes: 512,
};

/// Where the out-of-band bytes and the pages of this geometry begin.
pub const OOBS: usize = 8192;
const PAGES: usize = 12288;
const PAGE_BYTES: usize = GEOMETRY.page_bytes as usize;

/// In the first byte of an input: whether checksums are made right again after the damage, and whether the file is cut.
pub const SEALED: u8 = 1;
pub const SEALED_PAGES: u8 = 2;
pub const CUT: u8 = 4;

/// Whatever is in a file, it is refused, or it becomes a device that gives back what is written to it, and of what was written before
/// nothing that belongs to another page.
pub fn property(input: &[u8]) {
    check_headers(input);
    check_oobs(input);
    let Some((&how, edits)) = input.split_first() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flash");
    fs::write(&path, damaged(how, edits)).expect("room");
    let Ok(Ok(mut ftl)) = open(&path) else { return };
    // An input with valid checksums may give the content of one page to another.
    if how & (SEALED | SEALED_PAGES) == 0 {
        check_old_pages(&mut ftl);
    }
    let written = write_pages(&mut ftl);
    ftl.check().expect("table and flash agree");
    drop(ftl);
    match open(&path).expect("the file is as it was") {
        Ok(mut ftl) => check_written(&mut ftl, &written),
        // Made-up pages can be so new that what is written after them is too new to be believed.
        Err(FtlOpenError::Sequence { .. }) if how & SEALED != 0 => {}
        Err(error) => panic!("what was opened once is not opened again: {error}"),
    }
}

fn check_headers(input: &[u8]) {
    let mut sealed = [0; Header::BYTES];
    sealed[..8].copy_from_slice(b"AqNand01");
    sealed[8..12].copy_from_slice(&1u32.to_le_bytes());
    let numbers = input.len().min(24);
    sealed[12..12 + numbers].copy_from_slice(&input[..numbers]);
    seal(&mut sealed);
    for bytes in [input, &sealed] {
        if let HeaderFound::Header(header) = Header::decode(bytes) {
            assert_eq!(header.geometry.check(), Ok(()));
            assert_eq!(header.encode(), bytes[..Header::BYTES]);
        }
    }
}

fn check_oobs(input: &[u8]) {
    let Some(&bytes) = input.first_chunk::<OOB_BYTES>() else { return };
    let mut sealed = bytes;
    // Bytes that have no meaning yet are not kept.
    sealed[1..8].fill(0);
    seal(&mut sealed);
    for bytes in [bytes, sealed] {
        if let Some(oob) = Oob::decode(&bytes) {
            assert_eq!(Oob::decode(&oob.encode()), Some(oob));
        }
    }
    assert!(Oob::decode(&sealed).is_none_or(|oob| oob.encode() == sealed));
}

/// Makes the last four bytes the checksum of the others.
fn seal(bytes: &mut [u8]) {
    let (content, sum) = bytes.split_at_mut(bytes.len() - 4);
    sum.copy_from_slice(&crc32c_seeded(0, content).to_le_bytes());
}

/// A page that tells whose it is and which version.
fn page(logical: u32, version: u32) -> Vec<u8> {
    (u64::from(logical) << 32 | u64::from(version)).to_le_bytes().repeat(PAGE_BYTES / 8)
}

fn options() -> FtlOptions {
    FtlOptions { over_provisioning: 1.0, reserve_blocks_per_die: 1, ..FtlOptions::default() }
}

fn open(path: &Path) -> Result<Result<Ftl, FtlOpenError>, NandOpenError> {
    // An empty file becomes a new device.
    let known = match fs::metadata(path).expect("it is there").len() {
        0 => Some(GEOMETRY),
        _ => Nand::geometry_of(path).ok(),
    };
    let nand = Nand::new(NandOptions { backing: Backing::File(path.into()), ..NandOptions::new(GEOMETRY) })?;
    assert_eq!(known, Some(GEOMETRY), "a file is what it says it is");
    Ok(Ftl::open(nand, options()))
}

/// A used file, in order.
fn sound() -> &'static [u8] {
    static SOUND: OnceLock<Vec<u8>> = OnceLock::new();
    SOUND.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("flash");
        let nand =
            Nand::new(NandOptions { backing: Backing::File(path.clone()), ..NandOptions::new(GEOMETRY) });
        let mut ftl = Ftl::open(nand.expect("new"), options()).expect("enough spare blocks");
        for step in 0..150 {
            let logical = step * 7 % ftl.user_pages();
            ftl.write(logical, &page(logical, step), 0).expect("room");
        }
        (3..6).for_each(|logical| ftl.trim(logical));
        ftl.sync(0).expect("room");
        drop(ftl);
        fs::read(&path).expect("written")
    })
}

/// The sound file with edits: each is an offset of two bytes, a length of one, and the bytes.
fn damaged(how: u8, mut edits: &[u8]) -> Vec<u8> {
    let mut file = sound().to_vec();
    let cut = if how & CUT != 0 { edits.split_off_first().copied() } else { None };
    while let [low, high, length, rest @ ..] = edits {
        let at = usize::from(u16::from_le_bytes([*low, *high]));
        let (bytes, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        for (to, &byte) in file.iter_mut().skip(at).zip(bytes) {
            *to = byte;
        }
        edits = rest;
    }
    if how & SEALED != 0 {
        seal_file(&mut file, how & SEALED_PAGES != 0);
    }
    file.truncate(cut.map_or(file.len(), |cut| usize::from(cut) * 256));
    file
}

/// Makes the checksums of the header and of all out-of-band bytes right, and on request those of pages. In the file their bits are turned.
fn seal_file(file: &mut [u8], with_pages: bool) {
    seal(&mut file[..Header::BYTES]);
    let (before, pages) = file.split_at_mut(PAGES);
    let oobs = before[OOBS..].chunks_exact_mut(OOB_BYTES);
    for (oob, page) in oobs.zip(pages.chunks_exact(PAGE_BYTES)) {
        let mut turned: Vec<u8> = oob.iter().map(|byte| byte ^ 0xFF).collect();
        if with_pages {
            let page: Vec<u8> = page.iter().map(|byte| byte ^ 0xFF).collect();
            turned[24..28].copy_from_slice(&crc32c_seeded(0, &page).to_le_bytes());
        }
        seal(&mut turned);
        oob.iter_mut().zip(turned).for_each(|(to, byte)| *to = byte ^ 0xFF);
    }
}

fn check_old_pages(ftl: &mut Ftl) {
    let mut bytes = vec![0; PAGE_BYTES];
    for logical in 0..ftl.user_pages() {
        if ftl.read(logical, &mut bytes, 0).is_ok() {
            let version = u32::from_le_bytes(*bytes.first_chunk().expect("long enough"));
            let is_own = bytes.iter().all(|&byte| byte == 0) || bytes == page(logical, version);
            assert!(is_own, "logical page {logical} has bytes of another");
        }
    }
}

/// Writes and trims; returns the logical pages that were written and their last version.
fn write_pages(ftl: &mut Ftl) -> Vec<(u32, u32)> {
    let mut written = Vec::new();
    for version in 1000..1003 {
        for logical in 0..ftl.user_pages() {
            match ftl.write(logical, &page(logical, version), 0) {
                Ok(_) => {
                    written.retain(|&(other, _)| other != logical);
                    written.push((logical, version));
                }
                // What is worn out or damaged stays so; it must not cost what was written before.
                Err(_) => break,
            }
        }
        // A device that fails while it is left alone says so at the next write.
        let _ = ftl.rest(0, u64::MAX);
    }
    check_written(ftl, &written);
    if let Some((trimmed, _)) = written.pop() {
        ftl.trim(trimmed);
    }
    let _ = ftl.sync(0);
    written
}

fn check_written(ftl: &mut Ftl, written: &[(u32, u32)]) {
    let mut bytes = vec![0; PAGE_BYTES];
    for &(logical, version) in written {
        ftl.read(logical, &mut bytes, 0).expect("it was written");
        assert!(bytes == page(logical, version), "logical page {logical} lost version {version}");
    }
}
