//! A device in the RAM of donors, with local flash behind it: `k` slabs of data and `m` of parity for each part of it, each of another donor.
//!
//! | [`Code`] | where a page is | what a lost slab takes with it |
//! |---|---|---|
//! | `1+0` | in one slab, and on flash (the paper's way) | nothing: flash has it |
//! | `1+1` | in two slabs | nothing, while the other one is there |
//! | `k+m` | in one of `k` slabs, and in what `m` others say of all of them | nothing, while `k` of them are there |
//!
//! Pages are striped over the slabs of data in small units, so what is written in long runs, as a log is, fills whole rows: nothing has to be read for their parity.
//! Every page that comes from a donor is compared with its checksum, which stays here. While a group of slabs is not whole, what is written to it goes to flash as
//! well: behind, from a bounded buffer that keeps it until flash has it. Whatever donor goes, at whatever moment, some place has the bytes.
//!
//! Durable is what flash has: [`Device::sync`] waits for the buffer and for flash, and brings there what donors alone have.

mod batches;
mod behind;
mod cells;
mod code;
mod columns;
mod gather;
mod geometry;
mod home;
mod keeper;
mod reads;
mod rows;
mod seals;
mod slab_events;
mod usage;
mod workplace;
mod writes;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use aquifer_device::{Device, DeviceError, Operation, ReadRequest};
use serde::Serialize;

use batches::BATCH;
use behind::Behind;
use cells::Cells;
use code::Codec;
use columns::Group;
use geometry::Geometry;
use keeper::Keeper;
use rows::RowLocks;
use seals::Seals;
use workplace::Workplaces;

pub use code::Code;
pub use home::{DonorId, Home, Slabs};
pub use slab_events::{SlabEvent, SlabEvents, What};

/// What donors and flash keep apart.
pub const PAGE_BYTES: usize = 4096;

/// How a device works.
#[derive(Clone, Debug)]
pub struct FarOptions {
    /// Bytes of a slab; a multiple of the page.
    pub slab_bytes: u64,
    /// Bytes that may wait for flash; who writes more waits too.
    pub behind_bytes: usize,
    /// How many slabs of which kind.
    pub code: Code,
    /// Whether donors get nothing but what they can neither read nor change unnoticed.
    pub seals: bool,
    /// Whether flash is there when this process is gone. Of what dies with it, such as an unnamed file, a sync brings nothing to flash that donors have.
    pub outlives: bool,
}

impl Default for FarOptions {
    fn default() -> Self {
        FarOptions {
            slab_bytes: 64 << 20,
            behind_bytes: 16 << 20,
            code: Code::FLASH,
            seals: false,
            outlives: true,
        }
    }
}

/// What a device has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FarCounters {
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
    /// Times that a page was looked for which nobody has any more: too many of its donors were lost at once.
    pub lost_pages: u64,
}

#[derive(Debug, Default)]
struct Counts {
    remote_reads: AtomicU64,
    decoded_reads: AtomicU64,
    buffer_reads: AtomicU64,
    flash_reads: AtomicU64,
    remote_writes: AtomicU64,
    wrong_pages: AtomicU64,
    lost_pages: AtomicU64,
}

/// The device.
pub struct FarDevice {
    parts: Arc<Parts>,
    keeper: Keeper,
}

/// What the device and the thread that finds slabs share.
struct Parts {
    local: Arc<dyn Device>,
    behind: Behind,
    geometry: Geometry,
    cells: Cells,
    /// None if pages lie on donors as they are.
    seals: Option<Seals>,
    codec: Codec,
    groups: Box<[Group]>,
    locks: RowLocks,
    workplaces: Workplaces,
    counts: Counts,
    events: Arc<SlabEvents>,
    outlives: bool,
    /// Of a forked child: connections and locks are its parent's, so it reads flash alone.
    is_child: AtomicBool,
    /// Whether flash had everything that it should when the process forked.
    is_flash_whole: AtomicBool,
}

impl FarDevice {
    /// A device before `local`, which nobody else uses from now on. What it holds already is read from it.
    ///
    /// # Errors
    /// No threads, no memory, or no random bytes for a key.
    pub fn new(
        local: Arc<dyn Device>,
        slabs: Arc<dyn Slabs>,
        options: &FarOptions,
    ) -> std::io::Result<FarDevice> {
        let (code, page_bytes) = (options.code, PAGE_BYTES as u64);
        assert!(options.slab_bytes > 0 && options.slab_bytes.is_multiple_of(page_bytes), "slabs are pages");
        let pages = (local.len_bytes() / page_bytes) as usize;
        let geometry = Geometry::new(code, pages, (options.slab_bytes / page_bytes) as usize);
        let parts = Arc::new(Parts {
            behind: Behind::new(Arc::clone(&local), options.behind_bytes)?,
            seals: options.seals.then(|| Seals::new(pages)).transpose()?,
            cells: Cells::new(geometry.cells()),
            codec: Codec::new(code),
            groups: (0..geometry.groups()).map(|_| Group::new(code.slabs())).collect(),
            locks: RowLocks::new(),
            workplaces: Workplaces::new(&geometry),
            counts: Counts::default(),
            events: slabs.events(),
            outlives: options.outlives,
            is_child: AtomicBool::new(false),
            is_flash_whole: AtomicBool::new(true),
            local,
            geometry,
        });
        let keeper = Keeper::start(Arc::clone(&parts), slabs)?;
        Ok(FarDevice { parts, keeper })
    }

    /// What it has done.
    #[must_use]
    pub fn counters(&self) -> FarCounters {
        let counts = &self.parts.counts;
        FarCounters {
            remote_reads: counts.remote_reads.load(Relaxed),
            decoded_reads: counts.decoded_reads.load(Relaxed),
            buffer_reads: counts.buffer_reads.load(Relaxed),
            flash_reads: counts.flash_reads.load(Relaxed),
            remote_writes: counts.remote_writes.load(Relaxed),
            wrong_pages: counts.wrong_pages.load(Relaxed),
            lost_slabs: self.parts.groups.iter().map(Group::lost_slabs).sum(),
            lost_pages: counts.lost_pages.load(Relaxed),
        }
    }

    /// What became of slabs and donors of late.
    #[must_use]
    pub fn events(&self) -> &SlabEvents {
        &self.parts.events
    }

    /// RAM of this process that it takes.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        let parts = &self.parts;
        let seals = parts.seals.as_ref().map_or(0, Seals::ram_bytes);
        let cells = parts.cells.ram_bytes() + parts.workplaces.ram_bytes();
        (cells + seals + parts.behind.ram_bytes() + parts.events.ram_bytes()) as u64
    }

    /// Parts of the device that were used, and how many of them have all the slabs that they should.
    #[must_use]
    pub fn placed(&self) -> (usize, usize) {
        let wanted = || self.parts.groups.iter().filter(|group| group.is_wanted());
        (wanted().count(), wanted().filter(|group| group.is_whole()).count())
    }

    /// Whether bytes of it can be transferred to or from this memory.
    fn check(&self, offset: u64, memory: &[u8]) -> Result<(), DeviceError> {
        self.check_range(offset, memory.len() as u64)?;
        if memory.is_empty() || memory.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
            return Ok(());
        }
        Err(DeviceError::Misaligned { offset, len_bytes: memory.len() as u64, block_bytes: PAGE_BYTES })
    }

    /// Whether they are pages of it.
    fn check_range(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let page_bytes = PAGE_BYTES as u64;
        if !offset.is_multiple_of(page_bytes) || !len_bytes.is_multiple_of(page_bytes) {
            return Err(DeviceError::Misaligned { offset, len_bytes, block_bytes: PAGE_BYTES });
        }
        match offset.checked_add(len_bytes) {
            Some(end) if end <= self.len_bytes() => Ok(()),
            _ => Err(DeviceError::OutOfRange { offset, len_bytes, device_bytes: self.len_bytes() }),
        }
    }
}

impl Device for FarDevice {
    fn len_bytes(&self) -> u64 {
        self.parts.geometry.pages() as u64 * PAGE_BYTES as u64
    }

    fn block_bytes(&self) -> usize {
        PAGE_BYTES
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check(offset, buf)?;
        if self.parts.is_child.load(Relaxed) {
            return self.parts.read_in_child(offset, buf);
        }
        self.parts.read_rows(offset, buf)
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        for request in &mut *requests {
            request.result = self.check(request.offset, request.buf);
        }
        let is_child = self.parts.is_child.load(Relaxed);
        for requests in requests.chunks_mut(BATCH) {
            let sound = requests.iter_mut().filter(|request| request.result.is_ok());
            if is_child {
                sound.for_each(|request| {
                    request.result = self.parts.read_in_child(request.offset, request.buf)
                });
            } else {
                self.parts.read_batch(&mut sound.collect());
            }
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.check(offset, buf)?;
        let mut runs = self.parts.geometry.cut_runs(pages(offset, buf.len()), self.parts.run_rows_max());
        runs.try_for_each(|piece| {
            if self.parts.groups[piece.row.group].want() {
                self.keeper.wake();
            }
            self.parts.write_run(&piece, &buf[piece.bytes.clone()])
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
        self.check_range(offset, len_bytes)?;
        let pages = pages(offset, len_bytes as usize);
        // A page that is on its way to flash would come back.
        self.parts.behind.flush()?;
        for piece in self.parts.geometry.cut(pages) {
            let _row = self.parts.locks.write(piece.row);
            piece.pages.clone().for_each(|page| self.parts.cell(page).is_local_alone());
            let len = piece.pages.len() * PAGE_BYTES;
            self.parts.local.discard((piece.pages.start * PAGE_BYTES) as u64, len as u64)?;
        }
        Ok(())
    }
}

impl Parts {
    /// What is known of a page of the device.
    fn cell(&self, page: usize) -> cells::Cell<'_> {
        self.cells.get(self.geometry.cell_of_page(page))
    }

    /// The slab is of no use any more.
    fn lose(&self, group: usize, home: &Home) {
        self.groups[group].lose(home);
    }

    fn lost_page(&self, operation: Operation, page: usize) -> DeviceError {
        self.counts.lost_pages.fetch_add(1, Relaxed);
        let offset = (page * PAGE_BYTES) as u64;
        DeviceError::Io { operation, offset, len_bytes: PAGE_BYTES, errno: libc::EIO }
    }
}

fn page_of(offset: u64) -> usize {
    (offset / PAGE_BYTES as u64) as usize
}

fn pages(offset: u64, len: usize) -> Range<usize> {
    page_of(offset)..page_of(offset) + len / PAGE_BYTES
}
