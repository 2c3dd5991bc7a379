//! A profile changes what reaches the device, and nothing that a program sees.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aquifer::device::{Device, DeviceError, MemoryDevice, ReadRequest, WriteRequest};
use aquifer::profile::Setting;
use aquifer::{Error, Flash, Heap, Hint, Options};

const PAGE: usize = 4096;
const FLASH: u64 = 128 << 20;
const RAM: u64 = 32 << 20;

/// A device in memory that knows how it was used.
struct Watched {
    memory: MemoryDevice,
    /// Largest single write.
    write_bytes_max: AtomicUsize,
    /// Most writes that came together.
    writes_max: AtomicUsize,
    /// Most pages that were read together.
    read_pages_max: AtomicUsize,
    /// Ends of writes.
    ends: Mutex<Vec<u64>>,
}

impl Watched {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryDevice::new(FLASH, 4096),
            write_bytes_max: AtomicUsize::new(0),
            writes_max: AtomicUsize::new(0),
            read_pages_max: AtomicUsize::new(0),
            ends: Mutex::default(),
        })
    }
}

fn get(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::Relaxed)
}

impl Device for Watched {
    fn len_bytes(&self) -> u64 {
        self.memory.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.memory.block_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.memory.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.write_bytes_max.fetch_max(buf.len(), Ordering::Relaxed);
        self.ends.lock().unwrap().push(offset + buf.len() as u64);
        self.memory.write_at(offset, buf)
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        let bytes: usize = requests.iter().map(|request| request.buf.len()).sum();
        self.read_pages_max.fetch_max(bytes / PAGE, Ordering::Relaxed);
        self.memory.read_batch(requests);
    }

    fn write_batch(&self, requests: &mut [WriteRequest<'_>]) {
        self.writes_max.fetch_max(requests.len(), Ordering::Relaxed);
        for request in requests {
            request.result = self.write_at(request.offset, request.buf);
        }
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.memory.sync()
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.memory.discard(offset, len_bytes)
    }
}

fn options(device: &Arc<Watched>) -> Options {
    Options::new().ram_bytes(RAM).object_bytes(PAGE).flash(Flash::Device(device.clone()))
}

/// Writes and reads more than RAM in order, twice; each word is checked.
fn use_all(options: Options) {
    let heap = Heap::open(options).unwrap();
    let words = (RAM as usize * 2) / 8;
    let block = heap.allocate_block(words * 8, PAGE).unwrap();
    heap.advise(block, words * 8, Hint::Sequential).unwrap();
    // SAFETY: the block has `words * 8` bytes, and all threads use its words as atomics.
    let word = |at: usize| unsafe { AtomicU64::from_ptr(block.add(at * 8).cast()) };
    for round in 1..=2u64 {
        (0..words).for_each(|at| word(at).store((at as u64 * round) | 1, Ordering::Relaxed));
        (0..words).for_each(|at| assert_eq!(word(at).load(Ordering::Relaxed), (at as u64 * round) | 1));
    }
    heap.check().unwrap();
    heap.free(block).unwrap();
}

fn profile(folder: &Path, settings: &str) -> std::path::PathBuf {
    let path = folder.join("device.profile");
    std::fs::write(&path, format!("aquifer-device-profile = 1\n{settings}")).unwrap();
    path
}

#[test]
fn the_profile_decides_how_the_device_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let plain = Watched::new();
    use_all(options(&plain));
    let settings = "read_ahead_pages = 16\nwrite_bytes = 256K\nwrite_depth = 4\nsegment_bytes = 512K\n";
    let tuned = Watched::new();
    use_all(options(&tuned).device_profile(profile(folder.path(), settings)));
    assert_eq!((get(&plain.write_bytes_max), get(&plain.writes_max)), (64 << 10, 0));
    assert_eq!((get(&tuned.write_bytes_max), get(&tuned.writes_max)), (64 << 10, 4), "256K in four parts");
    // Pages that are in RAM already are left out, so that fewer than the window may be read; pages between two that are wanted may be read too.
    let (plain, tuned) = (get(&plain.read_pages_max), get(&tuned.read_pages_max));
    assert!((32..=255).contains(&plain) && (1..=31).contains(&tuned), "{plain} and {tuned} at once");
}

#[test]
fn blocks_of_the_log_are_as_large_as_asked() {
    let device = Watched::new();
    use_all(options(&device).device_setting(Setting::WriteBytes, 256 << 10).unwrap());
    assert_eq!(get(&device.write_bytes_max), 256 << 10);
    // Nothing crosses a block, and the superblock is one.
    assert!(device.ends.lock().unwrap().iter().all(|end| end % (256 << 10) == 0));
}

#[test]
fn what_is_said_explicitly_wins() {
    let folder = tempfile::tempdir().unwrap();
    let path = profile(folder.path(), "write_depth = 4\nread_ahead_pages = 8\n");
    let device = Watched::new();
    let options = options(&device).device_profile(path).device_setting(Setting::WriteDepth, 2).unwrap();
    use_all(options);
    assert_eq!(get(&device.writes_max), 2);
    let most = get(&device.read_pages_max);
    assert!((1..=15).contains(&most), "{most} at once");
}

#[test]
fn a_profile_that_makes_no_sense_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let said = |path: &Path| match Heap::open(options(&Watched::new()).device_profile(path)) {
        Err(Error::Invalid(said)) => said,
        other => panic!("{:?}", other.map(|_| ())),
    };
    let path = profile(folder.path(), "depth = 1000\n");
    assert_eq!(
        said(&path),
        format!("device profile {}: line 2: depth is 1000; it may be 1 to 256", path.display())
    );
    assert!(said(&folder.path().join("none")).contains("No such file"));
    assert!(said(folder.path()).contains("directory"));
    let checked = options(&Watched::new()).device_profile(&path).check();
    assert!(matches!(checked, Err(Error::Invalid(said)) if said.contains("line 2")));
    assert!(matches!(Options::new().device_setting(Setting::Depth, 0), Err(Error::Invalid(_))));
}
