//! A device in the RAM of donors, with local flash behind it.
//!
//! Every page is written to a slab first and to flash behind, from a bounded buffer that keeps it until flash has it: whatever donor goes, at whatever moment, some
//! place has the bytes. It is read from the slab if the slab is alive and its checksum agrees, else from the buffer or from flash.
//!
//! Durable is what flash has: [`Device::sync`] waits for the buffer and for flash, and no donor. With two slabs and no flash ([`Mode::Mirror`]) pages live as long as
//! one of the two donors, until a sync brings them to flash.

mod batches;
pub(crate) mod behind;
mod copies;
mod family;
mod home;
mod homes;
mod keeper;
mod reads;
pub(crate) mod refusals;
pub(crate) mod seals;
mod story;
mod tags;
pub(crate) mod together;
mod usage;
mod writes;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use aquifer_device::{Device, DeviceError, ReadRequest};

use crate::far::{self, FarDevice};
use behind::Behind;
use homes::Homes;
use keeper::Keeper;
use seals::Seals;
use tags::{Tag, Tags};

pub use home::{DonorId, Home, Slabs};
pub use story::{SlabEvent, SlabEvents, What};

/// What donors and flash keep apart.
pub const PAGE_BYTES: usize = 4096;

/// How a mirror works.
#[derive(Clone, Debug)]
pub struct MirrorOptions {
    /// Part of the device that one slab holds; a multiple of the page.
    pub slab_bytes: u64,
    /// Bytes that may wait for flash; who writes more waits too.
    pub behind_bytes: usize,
    /// Where pages are.
    pub mode: Mode,
    /// Whether donors get nothing but what they can neither read nor change unnoticed.
    pub seals: bool,
    /// Whether flash is there when this process is gone. Of what dies with it, such as an unnamed file, a sync brings nothing to flash that donors have.
    pub outlives: bool,
}

/// Where pages are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In one slab, and on flash (the paper's way).
    Disk,
    /// In slabs of two donors. Flash is for what they have no room for; so what both lose at once is lost, which reads say.
    Mirror,
}

impl Mode {
    /// Slabs that each part of a device should have.
    fn replicas(self) -> usize {
        match self {
            Mode::Disk => 1,
            Mode::Mirror => 2,
        }
    }
}

impl Default for MirrorOptions {
    fn default() -> Self {
        MirrorOptions {
            slab_bytes: 64 << 20,
            behind_bytes: 16 << 20,
            mode: Mode::Disk,
            seals: false,
            outlives: true,
        }
    }
}

/// What a mirror has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MirrorCounters {
    /// Pages read from donors.
    pub remote_reads: u64,
    /// Pages whose donor is gone, made from those of others by their code.
    pub decoded_reads: u64,
    /// Pages read from the buffer.
    pub buffer_reads: u64,
    /// Pages read from flash.
    pub flash_reads: u64,
    /// Pages written to donors.
    pub remote_writes: u64,
    /// Pages whose bytes from a donor were not those that were written there.
    pub wrong_pages: u64,
    /// Slabs that were lost.
    pub lost_slabs: u64,
    /// Reads that found that nobody has a page any more: both of its donors were lost at once.
    pub lost_pages: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub remote_reads: AtomicU64,
    pub decoded_reads: AtomicU64,
    pub buffer_reads: AtomicU64,
    pub flash_reads: AtomicU64,
    pub remote_writes: AtomicU64,
    pub wrong_pages: AtomicU64,
    pub lost_slabs: AtomicU64,
    pub lost_pages: AtomicU64,
}

impl Counts {
    pub fn so_far(&self) -> MirrorCounters {
        MirrorCounters {
            remote_reads: self.remote_reads.load(Relaxed),
            decoded_reads: self.decoded_reads.load(Relaxed),
            buffer_reads: self.buffer_reads.load(Relaxed),
            flash_reads: self.flash_reads.load(Relaxed),
            remote_writes: self.remote_writes.load(Relaxed),
            wrong_pages: self.wrong_pages.load(Relaxed),
            lost_slabs: self.lost_slabs.load(Relaxed),
            lost_pages: self.lost_pages.load(Relaxed),
        }
    }
}

/// The device.
pub struct Mirror {
    parts: Arc<Parts>,
    keeper: Keeper,
}

/// What the mirror and the thread that finds slabs share.
pub(crate) struct Parts {
    local: Arc<dyn Device>,
    behind: Behind,
    tags: Tags,
    /// None if pages lie on donors as they are.
    seals: Option<Seals>,
    homes: Homes,
    counts: Counts,
    events: Arc<SlabEvents>,
    mode: Mode,
    outlives: bool,
    /// Parts of the device that may have pages which donors alone have.
    remote_alone: Box<[AtomicBool]>,
    /// Of a forked child: connections and locks are its parent's, so it reads flash alone.
    is_child: AtomicBool,
    /// Whether flash had everything when the process forked.
    is_flash_whole: AtomicBool,
}

impl Mirror {
    /// A mirror of `local`, which nobody else uses from now on. What it holds already is read from it.
    ///
    /// # Errors
    /// No threads, no memory, or no random bytes for a key.
    pub fn new(
        local: Arc<dyn Device>,
        slabs: Arc<dyn Slabs>,
        options: &MirrorOptions,
    ) -> std::io::Result<Mirror> {
        assert!(
            options.slab_bytes > 0 && options.slab_bytes.is_multiple_of(PAGE_BYTES as u64),
            "slabs are pages"
        );
        let device_bytes = local.len_bytes() / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let tags = Tags::new(device_bytes);
        let parts = Arc::new(Parts {
            behind: Behind::new(Arc::clone(&local), options.behind_bytes)?,
            seals: options.seals.then(|| Seals::new(tags.len())).transpose()?,
            tags,
            homes: Homes::new(device_bytes, options.slab_bytes, options.mode.replicas()),
            counts: Counts::default(),
            events: slabs.events(),
            mode: options.mode,
            outlives: options.outlives,
            remote_alone: (0..device_bytes.div_ceil(options.slab_bytes))
                .map(|_| AtomicBool::new(false))
                .collect(),
            is_child: AtomicBool::new(false),
            is_flash_whole: AtomicBool::new(true),
            local,
        });
        let keeper = Keeper::start(Arc::clone(&parts), slabs)?;
        Ok(Mirror { parts, keeper })
    }
}

impl FarDevice for Mirror {
    fn counters(&self) -> MirrorCounters {
        self.parts.counts.so_far()
    }

    fn events(&self) -> &SlabEvents {
        &self.parts.events
    }

    fn ram_bytes(&self) -> u64 {
        let parts = &self.parts;
        let seals = parts.seals.as_ref().map_or(0, Seals::ram_bytes);
        (parts.tags.ram_bytes() + seals + parts.behind.ram_bytes() + parts.events.ram_bytes()) as u64
    }

    fn placed(&self) -> (usize, usize) {
        self.parts.homes.counts()
    }
}

impl Device for Mirror {
    fn len_bytes(&self) -> u64 {
        self.parts.tags.len() as u64 * PAGE_BYTES as u64
    }

    fn block_bytes(&self) -> usize {
        PAGE_BYTES
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        far::check(self, offset, buf)?;
        if self.parts.is_child.load(Relaxed) {
            return self.parts.read_in_child(offset, buf);
        }
        self.parts.read_pieces(offset, buf)
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        let mut sound = far::sound(self, requests);
        if self.parts.is_child.load(Relaxed) {
            for request in sound {
                request.result = self.parts.read_in_child(request.offset, request.buf);
            }
        } else {
            self.parts.read_batch(&mut sound);
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        far::check(self, offset, buf)?;
        self.parts.homes.cut(offset, buf.len()).try_for_each(|piece| {
            let at = offset + piece.start as u64;
            if self.parts.homes.want(at) {
                self.keeper.wake();
            }
            self.parts.write(at, &buf[piece.start..piece.start + piece.len])
        })
    }

    fn sync(&self) -> Result<(), DeviceError> {
        let saved = if self.parts.outlives { self.parts.save_all() } else { Ok(()) };
        self.parts.behind.flush()?;
        self.parts.local.sync()?;
        saved
    }

    fn before_fork(&self) {
        // What flash could not take stays in the buffer, which a child does not have; it is told by errors.
        let is_whole = self.parts.behind.flush().is_ok();
        self.parts.is_flash_whole.store(is_whole, Relaxed);
    }

    fn in_child(&self) {
        self.parts.is_child.store(true, Relaxed);
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        far::check_range(self, offset, len_bytes)?;
        // A page that is on its way to flash would come back.
        self.parts.behind.flush()?;
        self.parts.tags.lock(pages(offset, len_bytes as usize), Tag::LOCAL).are_local();
        self.parts.local.discard(offset, len_bytes)
    }
}

impl Parts {
    /// Pages of a part of the device.
    fn pages_of(&self, nth: usize) -> Range<usize> {
        let slab_pages = (self.homes.slab_bytes() / PAGE_BYTES as u64) as usize;
        nth * slab_pages..((nth + 1) * slab_pages).min(self.tags.len())
    }

    /// Whether a part of the device has pages that flash has not.
    fn has_remote_only(&self, nth: usize) -> bool {
        self.pages_of(nth).any(|page| !self.tags.get(page).is_local())
    }

    /// The slab is of no use any more.
    fn lose(&self, home: &Home) {
        home.note_lost();
        if self.homes.forget(home) {
            self.counts.lost_slabs.fetch_add(1, Relaxed);
        }
    }
}

fn page_of(offset: u64) -> usize {
    (offset / PAGE_BYTES as u64) as usize
}

fn pages(offset: u64, len: usize) -> Range<usize> {
    page_of(offset)..page_of(offset) + len / PAGE_BYTES
}
