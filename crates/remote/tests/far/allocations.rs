//! Pages allocate nothing on their way, whatever donors do: under swap the allocator itself may wait for the page.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use aquifer_device::{Device, DeviceError, MemoryDevice, ReadRequest, WriteRequest};
use aquifer_remote::far::{Code, FarDevice, FarOptions, PAGE_BYTES, Slabs};
use aquifer_remote::transport::fake::Behaviour;

use crate::donors::{DEVICE_BYTES, Several, filled, flash, options, wait_until};

const PAGES: usize = DEVICE_BYTES as usize / PAGE_BYTES;

thread_local! {
    /// This thread moves pages and does nothing else.
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
}

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Watched;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

// SAFETY: as the system's; counting allocates nothing.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_WATCHED.get() {
            ALLOCATIONS.fetch_add(1, SeqCst);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What a watched thread allocates here.
fn allocations(of: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.load(SeqCst);
    IS_WATCHED.set(true);
    of();
    IS_WATCHED.set(false);
    ALLOCATIONS.load(SeqCst) - before
}

/// Flash whose writers are watched from their first write on: the buffer before it has a thread.
struct WatchedFlash(Arc<MemoryDevice>);

impl Device for WatchedFlash {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.0.block_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.0.write_at(offset, buf)
    }

    fn write_batch(&self, requests: &mut [WriteRequest<'_>]) {
        IS_WATCHED.set(true);
        self.0.write_batch(requests);
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.0.sync()
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, len_bytes)
    }
}

/// Writes and reads all pages: one by one, at once and as a batch, scattered. They have the round's byte.
fn move_all(far: &FarDevice, long: &mut [u8], batch: &mut [ReadRequest<'_>], round: u8) {
    long.fill(round);
    far.write_at(0, long).expect("write");
    for page in (0..PAGES).step_by(3) {
        far.write_at((page * PAGE_BYTES) as u64, &long[..PAGE_BYTES]).expect("write");
    }
    long.fill(0);
    far.read_at(0, long).expect("read");
    assert!(long.iter().all(|byte| *byte == round), "round {round}");
    far.read_batch(batch);
    assert!(batch.iter().all(|read| read.result.is_ok() && read.buf.iter().all(|byte| *byte == round)));
}

#[test]
fn pages_allocate_nothing_on_their_way() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7)))), 1, "the allocator looks");
    for code in [Code::FLASH, Code::COPY, Code::new(3, 2).expect("a code")] {
        for seals in [false, true] {
            check(code, seals);
        }
    }
}

fn check(code: Code, seals: bool) {
    let donors = Several::new(code.slabs() as u64 + 1);
    let options = FarOptions { outlives: true, ..options(code, seals) };
    let local = Arc::new(WatchedFlash(flash()));
    let far = FarDevice::new(local, Arc::clone(&donors) as Arc<dyn Slabs>, &options).expect("threads");
    let (mut long, mut pages) = (filled(0, PAGES), Vec::from_iter((0..PAGES).map(|_| filled(0, 1))));
    let mut batch: Vec<_> = pages
        .iter_mut()
        .enumerate()
        .map(|(nth, buf)| ReadRequest::new((nth * 7 % PAGES * PAGE_BYTES) as u64, buf))
        .collect();
    let is_settled = |far: &FarDevice| far.placed().1 == far.placed().0;
    // Flash alone, then slabs that join, then slabs that are there.
    for round in 1..4 {
        assert_eq!(allocations(|| move_all(&far, &mut long, &mut batch, round)), 0, "{code}, round {round}");
        wait_until(&far, "all parts have slabs", is_settled);
    }
    // A donor asks for all its slabs while pages are moved, another one dies, and then all do.
    donors.0[0].ask_back();
    assert_eq!(allocations(|| move_all(&far, &mut long, &mut batch, 4)), 0, "{code}, slabs leave");
    wait_until(&far, "all parts have slabs", is_settled);
    donors.0[1].lends.store(false, SeqCst);
    donors.0[1].donor.behave(Behaviour::Failing(-libc::ENOTCONN));
    // The first time that some slabs are missing, the codec makes a matrix for what they had, and keeps it.
    let of_codec = if code.data > 1 { 32 } else { 0 };
    let made = allocations(|| move_all(&far, &mut long, &mut batch, 5));
    assert!(made <= of_codec, "{code}, a donor dies: {made}");
    assert_eq!(allocations(|| move_all(&far, &mut long, &mut batch, 6)), 0, "{code}, a donor is gone");
    for donors in &donors.0 {
        donors.lends.store(false, SeqCst);
        donors.donor.behave(Behaviour::Silent);
    }
    let made = allocations(|| move_all(&far, &mut long, &mut batch, 7));
    assert!(made <= of_codec, "{code}, all donors die: {made}");
    assert_eq!(allocations(|| move_all(&far, &mut long, &mut batch, 8)), 0, "{code}, flash alone");
}
