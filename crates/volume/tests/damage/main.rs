//! Flash that is damaged: what was synced is read as it was written, or named as lost.
//!
//! `after_a_crash`: one flipped byte, or one page that cannot be read, in all that a process left that was killed.
//! `in_use`: pages that cannot be read any more while a volume is open.
//! `acknowledged`: writes that a device has acknowledged and not done.
//! `anew`: a volume that is made where one was.
//! `stale`: pages as they were before they were written last.
//! `salvage`: each page of a volume is lost, and the rest is brought out.

mod acknowledged;
mod after_a_crash;
mod anew;
mod in_use;
mod salvage;
mod stale;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use aquifer_device::{Device, DeviceError, MemoryDevice, Operation};
use aquifer_volume::access::{Access, Credentials};
use aquifer_volume::block::Block;
use aquifer_volume::medium::{DeviceMedium, Medium};
use aquifer_volume::path::Last;
use aquifer_volume::{OpenHow, OpenOptions, PAGE_BYTES, PageKey, Result, Session, Volume, VolumeError};

const SEGMENT_PAGES: u32 = 32;

/// Memory of which some pages cannot be read, and of which a write goes wrong without a word.
struct Flash {
    memory: MemoryDevice,
    unreadable: Mutex<HashSet<u64>>,
    /// Writes so far, and what becomes of one of them.
    writes: Mutex<(u64, Option<(u64, Wrong)>)>,
    /// What pages held before they were written last.
    before: Mutex<HashMap<u64, Vec<u8>>>,
}

/// What becomes of a write that is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    /// Nothing is written.
    Lost,
    /// It goes this number of pages behind where it should.
    Misdirected(u64),
    /// All but its first page is lost.
    Cut,
}

impl Flash {
    fn new(len_bytes: u64) -> Arc<Self> {
        Arc::new(Flash {
            memory: MemoryDevice::new(len_bytes, PAGE_BYTES),
            unreadable: Mutex::default(),
            writes: Mutex::default(),
            before: Mutex::default(),
        })
    }

    /// Waits until a volume on it, which rests, has noted that all of its log is durable.
    fn rest(&self, volume: &Volume) {
        let writes = self.writes();
        let background = volume.start_background(std::time::Duration::from_secs(3600)).expect("started");
        while self.writes() == writes {
            std::thread::yield_now();
        }
        drop(background);
    }

    fn medium(self: &Arc<Self>) -> Box<dyn Medium> {
        Box::new(DeviceMedium::new(Arc::clone(self), SEGMENT_PAGES).expect("a medium"))
    }

    fn image(&self) -> Vec<u8> {
        let mut bytes = aquifer_device::AlignedBuffer::new(self.len_bytes() as usize);
        self.memory.read_at(0, &mut bytes).expect("memory");
        bytes.to_vec()
    }

    fn put(&self, image: &[u8]) {
        let mut bytes = aquifer_device::AlignedBuffer::new(image.len());
        bytes.copy_from_slice(image);
        self.memory.write_at(0, &bytes).expect("memory");
        self.unreadable.lock().expect("pages").clear();
    }

    fn go_wrong(&self, nth: u64, how: Wrong) {
        *self.writes.lock().expect("writes") = (0, Some((nth, how)));
    }

    fn writes(&self) -> u64 {
        self.writes.lock().expect("writes").0
    }

    fn before(&self) -> HashMap<u64, Vec<u8>> {
        self.before.lock().expect("pages").clone()
    }

    fn make_unreadable(&self, page: u64) {
        self.unreadable.lock().expect("pages").insert(page);
    }
}

impl Device for Flash {
    fn len_bytes(&self) -> u64 {
        self.memory.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        PAGE_BYTES
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), DeviceError> {
        let pages = offset / PAGE_BYTES as u64..(offset + buf.len() as u64) / PAGE_BYTES as u64;
        if self.unreadable.lock().expect("pages").iter().any(|page| pages.contains(page)) {
            let operation = Operation::Read;
            return Err(DeviceError::Io { operation, offset, len_bytes: buf.len(), errno: libc::EIO });
        }
        self.memory.read_at(offset, buf)
    }

    /// A page that is written again is good again.
    fn write_at(&self, offset: u64, buf: &[u8]) -> std::result::Result<(), DeviceError> {
        let pages = offset / PAGE_BYTES as u64..(offset + buf.len() as u64) / PAGE_BYTES as u64;
        self.unreadable.lock().expect("pages").retain(|page| !pages.contains(page));
        let mut old = aquifer_device::AlignedBuffer::new(buf.len());
        self.memory.read_at(offset, &mut old)?;
        self.before.lock().expect("pages").extend(pages.zip(old.chunks(PAGE_BYTES).map(Vec::from)));
        let mut writes = self.writes.lock().expect("writes");
        writes.0 += 1;
        match writes.1 {
            Some((nth, how)) if nth == writes.0 => match how {
                Wrong::Lost => Ok(()),
                Wrong::Cut => self.memory.write_at(offset, &buf[..PAGE_BYTES]),
                Wrong::Misdirected(pages) => {
                    let at = offset + pages * PAGE_BYTES as u64;
                    self.memory.write_at(at.min(self.len_bytes() - buf.len() as u64), buf)
                }
            },
            _ => self.memory.write_at(offset, buf),
        }
    }

    fn sync(&self) -> std::result::Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _len_bytes: u64) -> std::result::Result<(), DeviceError> {
        Ok(())
    }
}

fn open(flash: &Arc<Flash>) -> Result<Volume> {
    Volume::open(flash.medium(), OpenOptions { ram_bytes: 1 << 20, is_read_only: false })
}

fn root(volume: &Volume) -> Session<&Volume> {
    Session::new(volume, Credentials::new(0, 0, vec![]))
}

/// Writes a new file, or over an old one.
fn write(volume: &Volume, path: &str, start: u64, bytes: &[u8]) -> Result<()> {
    let how = OpenHow { access: Access::READ.and(Access::WRITE), make: Some(0o600), ..OpenHow::READ };
    root(volume).open(path.as_bytes(), &how)?.write(start, bytes)?;
    Ok(())
}

fn read(volume: &Volume, path: &str) -> Result<Vec<u8>> {
    let file = root(volume).open(path.as_bytes(), &OpenHow::READ)?;
    let mut bytes = vec![0; file.inode()?.size_bytes as usize];
    let got = file.read(0, &mut bytes)?;
    assert_eq!(got, bytes.len());
    Ok(bytes)
}

/// Bytes that no other file has.
fn contents(file: usize, version: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + file * 7 + version * 101 + at / 4096) as u8).collect()
}

/// Whose page it is, as a block before it says.
fn key_of(image: &[u8], page: usize) -> Option<PageKey> {
    let first = page - page % SEGMENT_PAGES as usize;
    (first..page).rev().find_map(|at| {
        let bytes: &[u8; PAGE_BYTES] = image[at * PAGE_BYTES..][..PAGE_BYTES].try_into().expect("a page");
        let block = Block::decode(bytes).filter(|block| block.header().at.0 as usize == at)?;
        Some(block.tags().nth(page - at - 1)?.key)
    })
}

/// Whether an error says that bytes on flash are not what was written.
fn says_damage(error: &VolumeError) -> bool {
    matches!(error, VolumeError::Damaged { .. } | VolumeError::Device(_) | VolumeError::Corrupt(_))
}
