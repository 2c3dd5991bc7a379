//! A device in the RAM of donors that survives the loss of some of them without a second copy: `k` slabs of data and `m` of parity, each of another donor.
//!
//! Pages are striped over the slabs in small units, so what is written in long runs, as a log is, fills whole rows: nothing has to be read for their parity. Any `k` slabs of the `k + m`
//! give back all pages. What there are too few donors for is on flash too, as in [`mirror`](crate::mirror): while a group of slabs is not whole, what is written to it goes there as well.
//!
//! Durable is what flash has: nothing that only donors have.

mod batches;
mod cells;
mod columns;
mod gather;
mod geometry;
mod keeper;
mod reads;
mod rows;
mod workplace;
mod writes;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use aquifer_device::{Device, DeviceError, Operation, ReadRequest};
use reed_solomon_erasure::galois_8::ReedSolomon;

use cells::Cells;
use columns::Group;
use geometry::Geometry;
use keeper::Keeper;
use rows::RowLocks;
use workplace::Workplaces;

use crate::far::FarDevice;
use crate::mirror::behind::Behind;
use crate::mirror::seals::Seals;
use crate::mirror::{Counts, Home, MirrorCounters, PAGE_BYTES, SlabEvents, Slabs};

/// How many slabs hold data and how many parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// Slabs of data (k).
    pub data: usize,
    /// Slabs of parity (m): the number of slabs that may be lost at once.
    pub parity: usize,
}

impl Code {
    /// The most of each.
    pub const DATA_MAX: usize = 16;
    /// The most of each.
    pub const PARITY_MAX: usize = 4;

    /// A code of 2 to 16 slabs of data and 1 to 4 of parity.
    #[must_use]
    pub fn new(data: usize, parity: usize) -> Option<Code> {
        let is_good = (2..=Code::DATA_MAX).contains(&data) && (1..=Code::PARITY_MAX).contains(&parity);
        is_good.then_some(Code { data, parity })
    }

    /// Reads `K+M`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Code> {
        let (data, parity) = text.split_once('+')?;
        Code::new(data.parse().ok()?, parity.parse().ok()?)
    }

    /// Slabs of a group.
    #[must_use]
    pub fn slabs(self) -> usize {
        self.data + self.parity
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}+{}", self.data, self.parity)
    }
}

/// How a stripe works.
#[derive(Clone, Debug)]
pub struct StripeOptions {
    /// Bytes of a slab; a multiple of the page.
    pub slab_bytes: u64,
    /// Bytes that may wait for flash; who writes more waits too.
    pub behind_bytes: usize,
    /// How many slabs of which kind.
    pub code: Code,
    /// Whether donors get nothing but what they can neither read nor change unnoticed.
    pub seals: bool,
}

/// The device.
pub struct Stripe {
    parts: Arc<Parts>,
    keeper: Keeper,
}

/// What the stripe and the thread that finds slabs share.
struct Parts {
    local: Arc<dyn Device>,
    behind: Behind,
    geometry: Geometry,
    cells: Cells,
    /// None if pages lie on donors as they are.
    seals: Option<Seals>,
    codec: ReedSolomon,
    groups: Box<[Group]>,
    locks: RowLocks,
    workplaces: Workplaces,
    counts: Counts,
    events: Arc<SlabEvents>,
    /// Of a forked child: connections and locks are its parent's, so it reads flash alone.
    is_child: AtomicBool,
    /// Whether flash had everything that it should when the process forked.
    is_flash_whole: AtomicBool,
}

impl Stripe {
    /// A stripe before `local`, which nobody else uses from now on. What it holds already is read from it.
    ///
    /// # Errors
    /// No threads, no memory, or no random bytes for a key.
    pub fn new(
        local: Arc<dyn Device>,
        slabs: Arc<dyn Slabs>,
        options: &StripeOptions,
    ) -> std::io::Result<Stripe> {
        let page_bytes = PAGE_BYTES as u64;
        assert!(options.slab_bytes > 0 && options.slab_bytes.is_multiple_of(page_bytes), "slabs are pages");
        let pages = (local.len_bytes() / page_bytes) as usize;
        let geometry = Geometry::new(options.code, pages, (options.slab_bytes / page_bytes) as usize);
        let codec = ReedSolomon::new(options.code.data, options.code.parity).expect("a code within limits");
        let parts = Arc::new(Parts {
            behind: Behind::new(Arc::clone(&local), options.behind_bytes)?,
            seals: options.seals.then(|| Seals::new(pages)).transpose()?,
            cells: Cells::new(geometry.cells()),
            codec,
            groups: (0..geometry.groups()).map(|_| Group::new(options.code.slabs())).collect(),
            locks: RowLocks::new(),
            workplaces: Workplaces::new(&geometry),
            counts: Counts::default(),
            events: slabs.events(),
            is_child: AtomicBool::new(false),
            is_flash_whole: AtomicBool::new(true),
            local,
            geometry,
        });
        let keeper = Keeper::start(Arc::clone(&parts), slabs)?;
        Ok(Stripe { parts, keeper })
    }
}

impl FarDevice for Stripe {
    fn counters(&self) -> MirrorCounters {
        self.parts.counts.so_far()
    }

    fn events(&self) -> &SlabEvents {
        &self.parts.events
    }

    fn ram_bytes(&self) -> u64 {
        let parts = &self.parts;
        let seals = parts.seals.as_ref().map_or(0, Seals::ram_bytes);
        let cells = parts.cells.ram_bytes() + parts.workplaces.ram_bytes();
        (cells + seals + parts.behind.ram_bytes() + parts.events.ram_bytes()) as u64
    }

    fn placed(&self) -> (usize, usize) {
        let wanted = || self.parts.groups.iter().filter(|group| group.is_wanted());
        (wanted().count(), wanted().filter(|group| group.is_whole()).count())
    }
}

impl Device for Stripe {
    fn len_bytes(&self) -> u64 {
        self.parts.geometry.pages() as u64 * PAGE_BYTES as u64
    }

    fn block_bytes(&self) -> usize {
        PAGE_BYTES
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        crate::far::check(self, offset, buf)?;
        if self.parts.is_child.load(Relaxed) {
            return self.parts.read_in_child(offset, buf);
        }
        self.parts.read_rows(offset, buf)
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        let mut sound = crate::far::sound(self, requests);
        if self.parts.is_child.load(Relaxed) {
            for request in sound {
                request.result = self.parts.read_in_child(request.offset, request.buf);
            }
        } else {
            self.parts.read_batch(&mut sound);
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        crate::far::check(self, offset, buf)?;
        self.parts.geometry.cut(pages(offset, buf.len())).try_for_each(|piece| {
            if self.parts.groups[piece.row.group].want() {
                self.keeper.wake();
            }
            self.parts.write_row(&piece, &buf[piece.bytes.clone()])
        })
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.parts.behind.flush()?;
        self.parts.local.sync()
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
        crate::far::check_range(self, offset, len_bytes)?;
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
        home.note_lost();
        if self.groups[group].forget(home) {
            self.counts.lost_slabs.fetch_add(1, Relaxed);
        }
    }

    fn lost_page(&self, page: usize) -> DeviceError {
        self.counts.lost_pages.fetch_add(1, Relaxed);
        let offset = (page * PAGE_BYTES) as u64;
        DeviceError::Io { operation: Operation::Read, offset, len_bytes: PAGE_BYTES, errno: libc::EIO }
    }
}

fn pages(offset: u64, len: usize) -> Range<usize> {
    let first = (offset / PAGE_BYTES as u64) as usize;
    first..first + len / PAGE_BYTES
}
