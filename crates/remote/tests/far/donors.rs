//! Donors for tests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use aquifer_device::{AlignedBuffer, Device, MemoryDevice};
use aquifer_remote::far::{Code, DonorId, FarDevice, FarOptions, Home, PAGE_BYTES, Slabs};
use aquifer_remote::transport::fake::FakeDonor;
use aquifer_remote::transport::{Link, LinkOptions};

pub const SLAB_BYTES: u64 = 32 * PAGE_BYTES as u64;
pub const SLABS: u64 = 8;
pub const DEVICE_BYTES: u64 = SLABS * SLAB_BYTES;
/// The largest that donors lend.
const SLAB_BYTES_MAX: u64 = 64 * PAGE_BYTES as u64;
const DONOR_SLABS: u64 = 64;

/// A donor, with a link that is made anew when it has ended.
pub struct Donors {
    pub donor: FakeDonor,
    id: DonorId,
    /// Whether it has slabs to lend.
    pub lends: AtomicBool,
    state: Mutex<(Option<Arc<Link>>, u64)>,
    lent: Mutex<Vec<Weak<Home>>>,
    /// Connections that have ended and were made anew.
    replaced: AtomicU64,
}

impl Donors {
    pub fn new() -> Arc<Donors> {
        Donors::with_id(0)
    }

    fn with_id(id: u64) -> Arc<Donors> {
        let donor = FakeDonor::new((DONOR_SLABS * SLAB_BYTES_MAX) as usize).expect("memory");
        let (lends, state, lent) = (AtomicBool::new(true), Mutex::default(), Mutex::default());
        Arc::new(Donors { donor, id: DonorId(id), lends, state, lent, replaced: AtomicU64::new(0) })
    }

    /// Lends no more, and asks for all that it has lent.
    pub fn ask_back(&self) {
        self.lends.store(false, Ordering::Relaxed);
        self.lent().iter().for_each(|home| home.ask_to_leave());
    }

    /// Connections that have ended.
    pub fn ended(&self) -> u64 {
        let state = self.state.lock().expect("no panic");
        let has_ended = state.0.as_ref().is_some_and(|link| link.end().is_some());
        self.replaced.load(Ordering::Relaxed) + u64::from(has_ended)
    }

    /// Slabs that it has lent and that were not given back.
    pub fn lent(&self) -> Vec<Arc<Home>> {
        self.lent.lock().expect("no panic").iter().filter_map(Weak::upgrade).collect()
    }
}

impl Slabs for Donors {
    fn find(&self, slab_bytes: u64, avoid: &[DonorId]) -> Option<Arc<Home>> {
        if avoid.contains(&self.id) {
            return None;
        }
        assert!(slab_bytes <= SLAB_BYTES_MAX);
        if !self.lends.load(Ordering::Relaxed) {
            return None;
        }
        let mut state = self.state.lock().expect("no panic");
        let (link, given) = &mut *state;
        let link = match link {
            Some(link) if link.end().is_none() => Arc::clone(link),
            link => {
                self.replaced.fetch_add(u64::from(link.is_some()), Ordering::Relaxed);
                let options = LinkOptions { deadline: Duration::from_millis(100), ..LinkOptions::default() };
                let made = Link::new(&options, |staging| Ok(self.donor.connect(staging))).expect("connect");
                Arc::clone(link.insert(Arc::new(made)))
            }
        };
        *given += 1;
        let place = self.donor.place().at(*given % DONOR_SLABS * SLAB_BYTES_MAX);
        let home = Arc::new(Home::new(link, place, self.id, Box::new(())));
        self.lent.lock().expect("no panic").push(Arc::downgrade(&home));
        Some(home)
    }
}

/// A small mirror.
pub fn options(code: Code, seals: bool) -> FarOptions {
    FarOptions { slab_bytes: SLAB_BYTES, behind_bytes: 16 * PAGE_BYTES, code, seals, outlives: false }
}

/// A mirror of this device.
pub fn mirror(local: Arc<dyn Device>, donors: &Arc<Donors>) -> FarDevice {
    let options = options(Code::FLASH, false);
    FarDevice::new(local, Arc::clone(donors) as Arc<dyn Slabs>, &options).expect("threads")
}

/// A device in memory.
pub fn flash() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(DEVICE_BYTES, PAGE_BYTES))
}

/// Pages of this byte, and where they are.
pub fn filled(byte: u8, pages: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::new(pages * PAGE_BYTES);
    buffer.fill(byte);
    buffer
}

pub fn write(mirror: &FarDevice, page: u64, byte: u8) {
    mirror.write_at(page * PAGE_BYTES as u64, &filled(byte, 1)).expect("write");
}

/// The byte that fills a page.
pub fn read(mirror: &FarDevice, page: u64) -> u8 {
    let mut buffer = AlignedBuffer::new(PAGE_BYTES);
    mirror.read_at(page * PAGE_BYTES as u64, &mut buffer).expect("read");
    assert!(buffer.iter().all(|byte| *byte == buffer[0]), "page {page} is torn");
    buffer[0]
}

/// Waits until `is_so`, for 60 s at most.
pub fn wait_until(mirror: &FarDevice, what: &str, is_so: impl Fn(&FarDevice) -> bool) {
    let began = Instant::now();
    while !is_so(mirror) {
        assert!(began.elapsed() < Duration::from_secs(60), "never {what}: {:?}", mirror.counters());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Several donors, any of which may lend.
pub struct Several(pub Vec<Arc<Donors>>);

impl Several {
    pub fn new(count: u64) -> Arc<Several> {
        Arc::new(Several((0..count).map(Donors::with_id).collect()))
    }
}

impl Slabs for Several {
    fn find(&self, slab_bytes: u64, avoid: &[DonorId]) -> Option<Arc<Home>> {
        self.0.iter().find_map(|donors| donors.find(slab_bytes, avoid))
    }
}

/// A mirror in two slabs of different donors, and in flash what they have no room for.
pub fn mirror_of_two(local: Arc<dyn Device>, donors: &Arc<Several>) -> FarDevice {
    let options = options(Code::COPY, false);
    FarDevice::new(local, Arc::clone(donors) as Arc<dyn Slabs>, &options).expect("threads")
}

/// Writes all pages twice: the second time when all parts have their slabs.
pub fn twice_written(mirror: FarDevice) -> FarDevice {
    let pages = DEVICE_BYTES / PAGE_BYTES as u64;
    (0..pages).for_each(|page| write(&mirror, page, page as u8));
    wait_until(&mirror, "all parts have slabs", |mirror| mirror.placed().1 == mirror.placed().0);
    (0..pages).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
    mirror
}

/// All pages have what [`twice_written`] wrote last.
pub fn is_whole(mirror: &FarDevice) {
    let pages = DEVICE_BYTES / PAGE_BYTES as u64;
    (0..pages).for_each(|page| assert_eq!(read(mirror, page), page as u8 ^ 0x55, "page {page}"));
}
