//! The block device of this kernel, where there is ublk: `tests/block/ublk.sh` runs this in a machine that has it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aquifer_block::ublk::{Options, Shown, UblkError};
use aquifer_device::{
    AlignedBuffer, Device, DeviceError, FaultKind, FaultPlan, Faulty, MemoryDevice, Operation, ReadRequest,
    Throttle, Throttled, WriteRequest,
};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const DEVICE_BYTES: u64 = 64 << 20;

/// Held by the test that runs: what others allocate is not to be counted.
static ALONE: Mutex<()> = Mutex::new(());

/// A device that the kernel shows, and whether it went by itself.
struct Fixture {
    shown: Shown,
    is_gone: Arc<AtomicBool>,
    _alone: MutexGuard<'static, ()>,
}

impl Fixture {
    /// `None` where there is no ublk, which is said.
    fn new(device: Arc<dyn Device>) -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let is_gone = Arc::new(AtomicBool::new(false));
        let gone = Arc::clone(&is_gone);
        let options = Options {
            threads: 2,
            report: Arc::new(|sentence: &str| println!("{sentence}")),
            on_gone: Arc::new(move || gone.store(true, SeqCst)),
        };
        match Shown::new(device, &options) {
            Ok(shown) => Some(Fixture { shown, is_gone, _alone: alone }),
            Err(error @ (UblkError::NoDriver | UblkError::NoRights(_) | UblkError::OldKernel { .. })) => {
                println!("SKIP ublk: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The device, without the page cache.
    fn open(&self) -> File {
        let flags = libc::O_DIRECT;
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(self.shown.path()).unwrap()
    }
}

fn number(outcome: std::io::Result<()>) -> Option<i32> {
    outcome.err().and_then(|error| error.raw_os_error())
}

#[test]
fn bytes_go_in_and_out_and_nothing_is_allocated() {
    let Some(fixture) = Fixture::new(Arc::new(MemoryDevice::new(DEVICE_BYTES, 512))) else { return };
    let file = fixture.open();
    let mut written = AlignedBuffer::new(2 << 20);
    let mut read = AlignedBuffer::new(2 << 20);
    let mut round = |rounds: u64| {
        for at in 0..rounds {
            for len in [512, 4096, 65536] {
                written[..len].fill(at as u8);
                read[..len].fill(!at as u8);
                let offset = at % 500 * 65536;
                file.write_all_at(&written[..len], offset).unwrap();
                file.read_exact_at(&mut read[..len], offset).unwrap();
                assert!(read[..len] == written[..len]);
            }
            file.sync_data().unwrap();
        }
        // Longer than a request may be.
        for (at, byte) in written.iter_mut().enumerate() {
            *byte = (at / 512 + at) as u8;
        }
        file.write_all_at(&written, 32 << 20).unwrap();
        file.read_exact_at(&mut read, 32 << 20).unwrap();
        assert!(read[..] == written[..]);
    };
    // Threads that start allocate their own things.
    round(20);
    let before = ALLOCATIONS.load(SeqCst);
    round(200);
    assert_eq!(ALLOCATIONS.load(SeqCst) - before, 0);
    drop(file);
    let path = fixture.shown.path().to_owned();
    assert!(!fixture.is_gone.load(SeqCst));
    fixture.shown.end().unwrap();
    assert!(!path.exists());
}

#[test]
fn errors_of_the_device_are_those_of_the_file() {
    // Nobody has written before: the kernel only looks for partitions.
    let plan = FaultPlan::default()
        .on_nth(Operation::Write, 1, FaultKind::Eio)
        .on_nth(Operation::Write, 2, FaultKind::NoSpace)
        .on_nth(Operation::Sync, 1, FaultKind::Eio);
    let device = Faulty::new(MemoryDevice::new(DEVICE_BYTES, 4096), plan);
    let Some(fixture) = Fixture::new(Arc::new(device)) else { return };
    let file = fixture.open();
    let mut buffer = AlignedBuffer::new(4096);
    assert_eq!(number(file.write_all_at(&buffer, 0)), Some(libc::EIO));
    assert_eq!(number(file.write_all_at(&buffer, 0)), Some(libc::ENOSPC));
    assert_eq!(number(file.sync_all()), Some(libc::EIO));
    assert_eq!(number(file.write_all_at(&buffer, 0)), None);
    assert_eq!(number(file.read_exact_at(&mut buffer, 0)), None);
    // Less than a block.
    assert_eq!(number(file.write_all_at(&buffer[..512], 0)), Some(libc::EINVAL));
}

/// A device whose calls each take the same time, however much is asked for, and the most that one was asked for.
struct Far {
    memory: MemoryDevice,
    most: AtomicU64,
}

impl Far {
    fn call(&self, requests: usize) {
        self.most.fetch_max(requests as u64, SeqCst);
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Device for Far {
    fn len_bytes(&self) -> u64 {
        self.memory.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.memory.block_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.call(1);
        self.memory.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.call(1);
        self.memory.write_at(offset, buf)
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        self.call(requests.len());
        self.memory.read_batch(requests);
    }

    fn write_batch(&self, requests: &mut [WriteRequest<'_>]) {
        self.call(requests.len());
        self.memory.write_batch(requests);
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.memory.sync()
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.memory.discard(offset, len_bytes)
    }
}

#[test]
fn requests_run_side_by_side() {
    let far = Arc::new(Far { memory: MemoryDevice::new(DEVICE_BYTES, 512), most: AtomicU64::new(0) });
    let device: Arc<dyn Device> = Arc::<Far>::clone(&far);
    let Some(fixture) = Fixture::new(device) else { return };
    // Each thread writes a block of its own and reads it.
    let rates = [1, 32].map(|threads| {
        let start = Instant::now();
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let file = fixture.open();
                std::thread::spawn(move || {
                    let mut buffer = AlignedBuffer::new(4096);
                    for round in 0..10 {
                        let fill = (thread * 7 + round) as u8;
                        buffer.fill(fill);
                        file.write_all_at(&buffer, thread * 4096).unwrap();
                        buffer.fill(!fill);
                        file.read_exact_at(&mut buffer, thread * 4096).unwrap();
                        assert!(buffer.iter().all(|&byte| byte == fill));
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        (20 * threads) as f64 / start.elapsed().as_secs_f64()
    });
    let most = far.most.load(SeqCst);
    println!("{rates:.0?} requests a second at depths 1 and 32, calls of 20 ms, up to {most} at once");
    assert!(most >= 8, "at most {most} requests at once");
}

#[test]
fn it_says_that_it_is_used() {
    let Some(fixture) = Fixture::new(Arc::new(MemoryDevice::new(DEVICE_BYTES, 512))) else { return };
    fixture.shown.check_unused().unwrap();
    let flags = libc::O_EXCL;
    let owner = OpenOptions::new().read(true).custom_flags(flags).open(fixture.shown.path()).unwrap();
    let said = fixture.shown.check_unused().unwrap_err();
    assert!(matches!(said, UblkError::InUse(_)) && said.to_string().contains("swapoff"), "{said}");
    drop(owner);
    fixture.shown.check_unused().unwrap();
}

#[test]
fn it_ends_while_requests_are_under_way() {
    let slow = Throttle { read_latency: Duration::from_millis(50), ..Throttle::default() };
    let device = Throttled::new(MemoryDevice::new(DEVICE_BYTES, 512), slow);
    let Some(fixture) = Fixture::new(Arc::new(device)) else { return };
    let path = fixture.shown.path().to_owned();
    let has_read = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4u64)
        .map(|at| {
            let (file, has_read) = (fixture.open(), Arc::clone(&has_read));
            std::thread::spawn(move || {
                let mut buffer = AlignedBuffer::new(4096);
                // Until the device is gone.
                while file.read_exact_at(&mut buffer, at * 4096).is_ok() {
                    has_read.store(true, SeqCst);
                }
            })
        })
        .collect();
    while !has_read.load(SeqCst) {
        std::thread::yield_now();
    }
    fixture.shown.end().unwrap();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert!(!Path::new(&path).exists());
}

#[test]
fn what_is_dropped_is_gone() {
    let Some(fixture) = Fixture::new(Arc::new(MemoryDevice::new(DEVICE_BYTES, 512))) else { return };
    let path = fixture.shown.path().to_owned();
    assert!(path.exists());
    drop(fixture);
    assert!(!path.exists());
}
