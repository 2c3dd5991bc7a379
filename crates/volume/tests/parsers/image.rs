//! A volume with bytes changed.

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use aquifer_device::{AlignedBuffer, Device, MemoryDevice};
use aquifer_volume::anchor::Anchor;
use aquifer_volume::medium::{DeviceMedium, Medium};
use aquifer_volume::word::{PAGE_BYTES, crc_of};
use aquifer_volume::{Depth, IfTaken, Ino, Kind, OpenOptions, Volume};

const SEGMENT_PAGES: u32 = 8;
const PAGES: usize = 32 * SEGMENT_PAGES as usize;

/// A small volume that was not closed, so that its log is read.
static EXAMPLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let device = Arc::new(MemoryDevice::new((PAGES * PAGE_BYTES) as u64, PAGE_BYTES));
    Volume::create(medium(&device), (0, 0)).expect("created");
    for round in 0..2u8 {
        let volume = Volume::open(medium(&device), OpenOptions::default()).expect("opened");
        use_it(&volume, round);
        volume.sync().expect("synced");
        volume.write(Ino(3), 70, &[round; 9]).expect("room");
        volume.sync().expect("synced");
        // Not closed.
    }
    let mut image = AlignedBuffer::new(PAGES * PAGE_BYTES);
    device.read_at(0, &mut image).expect("read");
    image.to_vec()
});

fn medium(device: &Arc<MemoryDevice>) -> Box<dyn Medium> {
    Box::new(DeviceMedium::new(Arc::clone(device), SEGMENT_PAGES).expect("a medium"))
}

/// Whatever bytes a volume has, it is opened or refused, checked and used, and nothing panics. Each five bytes of the input change one byte:
/// 0 (bit 0) whether checksums are made to agree, (bit 1) whether the place is in the page's first 128 bytes, 1 page, 2 and 3 place in it, 4 what
/// is added.
pub fn property(input: &[u8]) {
    let mut image = EXAMPLE.clone();
    for edit in input.chunks_exact(5).take(64) {
        let page = edit[1] as usize % PAGES;
        let range = if edit[0] & 2 != 0 { 128 } else { PAGE_BYTES };
        let at = usize::from(u16::from_le_bytes([edit[2], edit[3]])) % range;
        let byte = &mut image[page * PAGE_BYTES + at];
        *byte = byte.wrapping_add(edit[4]);
        if edit[0] % 2 == 1 {
            sign(&mut image, page);
        }
    }
    let device = Arc::new(MemoryDevice::new(image.len() as u64, PAGE_BYTES));
    let mut aligned = AlignedBuffer::new(image.len());
    aligned.copy_from_slice(&image);
    device.write_at(0, &aligned).expect("written");
    for is_read_only in [true, false] {
        let options = OpenOptions { ram_bytes: 1 << 20, is_read_only };
        let Ok(volume) = Volume::open(medium(&device), options) else { continue };
        // Damage is an answer.
        let _ = volume.check(Depth::Contents, |_, _| ());
        if !is_read_only {
            use_it(&volume, 7);
            let _ = volume.close();
        }
    }
}

/// Makes the checksum of a block or anchor agree with its bytes.
fn sign(image: &mut [u8], page: usize) {
    let rest = &mut image[page * PAGE_BYTES..];
    if rest.starts_with(b"AQVB") {
        let crc = crc_of(&rest[8..PAGE_BYTES]);
        rest[4..8].copy_from_slice(&crc.to_le_bytes());
    } else if let Ok(geometry) = Anchor::geometry_in(rest)
        && let Some(whole) = rest.get(12..Anchor::pages(geometry) as usize * PAGE_BYTES)
    {
        let crc = crc_of(whole);
        rest[8..12].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Makes, changes, lists and removes; whether that works is another matter.
fn use_it(volume: &Volume, round: u8) {
    let root = Ino::ROOT_FOLDER;
    let _ = volume.make(root, b"file", Kind::File, 0o644, 0, 0);
    let _ = volume.make(root, b"folder", Kind::Folder, 0o755, 0, 0);
    let _ = volume.make_symlink(root, b"link", b"folder/gone", 0, 0);
    let mut found = Vec::new();
    let _ = volume.list(root, 0, |entry| {
        found.push((entry.name.to_vec(), entry.ino, entry.kind));
        ControlFlow::Continue(())
    });
    for (name, ino, kind) in found {
        match kind {
            Kind::File => {
                let _ = volume.write(ino, 3 * PAGE_BYTES as u64 - 100, &[round; 5000]);
                let _ = volume.write(ino, 64, &[round + 1; 8]);
                let _ = volume.read(ino, 0, &mut [0; 9000]);
                let _ = volume.data_ranges(ino, 0, 10);
                let _ = volume.punch(ino, 4096, 5000);
                let _ = volume.truncate(ino, 13_000);
            }
            Kind::Folder => {
                let _ = volume.rename((root, &name), (root, b"renamed"), IfTaken::Replace);
                let _ = volume.make(ino, b"inside", Kind::File, 0o600, 0, 0);
                let _ = volume.unlink(ino, b"inside");
            }
            Kind::Symlink => {
                let _ = volume.read_link(ino);
                let _ = volume.unlink(root, &name);
            }
            _ => {
                let _ = volume.read(ino, 0, &mut [0; 9000]);
                let _ = volume.unlink(root, &name);
            }
        }
    }
    let _ = volume.space();
    let _ = volume.sync();
}
