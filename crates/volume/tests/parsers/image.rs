//! A volume with bytes changed.

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use aquifer_device::{AlignedBuffer, Device, MemoryDevice};
use aquifer_volume::medium::{DeviceMedium, Medium};
use aquifer_volume::word::PAGE_BYTES;
use aquifer_volume::{Depth, IfTaken, Ino, Kind, OpenOptions, Volume};

#[path = "signs.rs"]
mod signs;

const SEGMENT_PAGES: u32 = 8;
const PAGES: usize = 32 * SEGMENT_PAGES as usize;
/// Numbers at the limits of what a volume counts with.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    3,
    8,
    0xFFF,
    0x1000,
    0xFFFF,
    (1 << 28) - 1,
    1 << 28,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    4 << 32,
    1 << 44,
    u64::MAX,
];

/// A small volume that was not closed, so that its log is read.
static EXAMPLE: LazyLock<AlignedBuffer> = LazyLock::new(|| {
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
    image
});

/// The bytes that are changed and the device that they go to, which every input uses again: new memory took half of the time.
static PLACE: LazyLock<Mutex<(AlignedBuffer, Arc<MemoryDevice>)>> = LazyLock::new(|| {
    let len = PAGES * PAGE_BYTES;
    Mutex::new((AlignedBuffer::new(len), Arc::new(MemoryDevice::new(len as u64, PAGE_BYTES))))
});

fn medium(device: &Arc<MemoryDevice>) -> Box<dyn Medium> {
    Box::new(DeviceMedium::new(Arc::clone(device), SEGMENT_PAGES).expect("a medium"))
}

/// Whatever bytes a volume has, it is opened or refused, checked and used, and nothing panics. Each five bytes of the input change one place:
///
/// - 0 bit 0: whether the checksum of the block or anchor is made to agree; bit 1: whether the place is in the page's first 128 bytes; bit 2: whether in the end
///   all checksums are made to agree; bit 3: whether a number is put there in place of a byte that changes; bit 4: whether that has eight bytes and not four.
/// - 1 page; 2 and 3 place in it; 4 what is added, or which of the [`EDGES`] is put there.
pub fn property(input: &[u8]) {
    let mut place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    let (image, device) = &mut *place;
    image.copy_from_slice(&EXAMPLE);
    for edit in input.chunks_exact(5).take(64) {
        change(image, edit.try_into().expect("five bytes"));
    }
    if input.chunks_exact(5).any(|edit| edit[0] & 4 != 0) {
        signs::sign_all(image);
    }
    device.write_at(0, image).expect("written");
    open_and_use(device);
}

fn change(image: &mut [u8], [how, page, low, high, what]: [u8; 5]) {
    let page = usize::from(page) % PAGES;
    let range = if how & 2 != 0 { 128 } else { PAGE_BYTES };
    let at = page * PAGE_BYTES + usize::from(u16::from_le_bytes([low, high])) % range;
    if how & 8 != 0 {
        let width = if how & 16 != 0 { 8 } else { 4 };
        let number = EDGES[usize::from(what) % EDGES.len()].to_le_bytes();
        let at = at / width * width;
        image[at..at + width].copy_from_slice(&number[..width]);
    } else {
        image[at] = image[at].wrapping_add(what);
    }
    if how & 1 != 0 {
        signs::sign(image, page);
    }
}

fn open_and_use(device: &Arc<MemoryDevice>) {
    for is_read_only in [true, false] {
        let options = OpenOptions { ram_bytes: 1 << 20, is_read_only };
        let Ok(volume) = Volume::open(medium(device), options) else { continue };
        // Damage is an answer.
        let _ = volume.check(Depth::Contents, |_, _| ());
        if !is_read_only {
            use_it(&volume, 7);
            let _ = volume.close();
        }
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
