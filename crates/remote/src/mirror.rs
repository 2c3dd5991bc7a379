//! A device in the RAM of donors, with local flash behind it.
//!
//! Every page is written to a slab first and to flash behind, from a bounded buffer that keeps it until flash has it: whatever donor goes, at whatever moment, some
//! place has the bytes. It is read from the slab if the slab is alive and its checksum agrees, else from the buffer or from flash.
//!
//! Durable is what flash has: [`Device::sync`] waits for the buffer and for flash, and no donor. With two slabs and no flash ([`Mode::Mirror`]) that is what both
//! donors had no room for; the rest lives as long as one of the two.

mod behind;
mod family;
mod home;
mod homes;
mod keeper;
mod story;
mod tags;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use aquifer_device::{Device, DeviceError, Operation};

use behind::Behind;
use family::{Family, Holders};
use homes::Homes;
use keeper::Keeper;
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
        MirrorOptions { slab_bytes: 64 << 20, behind_bytes: 16 << 20, mode: Mode::Disk }
    }
}

/// What a mirror has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MirrorCounters {
    /// Pages read from donors.
    pub remote_reads: u64,
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
    remote_reads: AtomicU64,
    buffer_reads: AtomicU64,
    flash_reads: AtomicU64,
    remote_writes: AtomicU64,
    wrong_pages: AtomicU64,
    lost_slabs: AtomicU64,
    lost_pages: AtomicU64,
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
    homes: Homes,
    counts: Counts,
    events: Arc<SlabEvents>,
    mode: Mode,
    /// Of a forked child: connections and locks are its parent's, so it reads flash alone.
    is_child: AtomicBool,
    /// Whether flash had everything when the process forked.
    is_flash_whole: AtomicBool,
}

impl Mirror {
    /// A mirror of `local`, which nobody else uses from now on. What it holds already is read from it.
    ///
    /// # Errors
    /// No threads, or no memory.
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
        let parts = Arc::new(Parts {
            behind: Behind::new(Arc::clone(&local), options.behind_bytes)?,
            tags: Tags::new(device_bytes),
            homes: Homes::new(device_bytes, options.slab_bytes, options.mode.replicas()),
            counts: Counts::default(),
            events: slabs.events(),
            mode: options.mode,
            is_child: AtomicBool::new(false),
            is_flash_whole: AtomicBool::new(true),
            local,
        });
        let keeper = Keeper::start(Arc::clone(&parts), slabs)?;
        Ok(Mirror { parts, keeper })
    }

    /// What it has done.
    #[must_use]
    pub fn counters(&self) -> MirrorCounters {
        let counts = &self.parts.counts;
        MirrorCounters {
            remote_reads: counts.remote_reads.load(Relaxed),
            buffer_reads: counts.buffer_reads.load(Relaxed),
            flash_reads: counts.flash_reads.load(Relaxed),
            remote_writes: counts.remote_writes.load(Relaxed),
            wrong_pages: counts.wrong_pages.load(Relaxed),
            lost_slabs: counts.lost_slabs.load(Relaxed),
            lost_pages: counts.lost_pages.load(Relaxed),
        }
    }

    /// What became of slabs and donors of late.
    #[must_use]
    pub fn events(&self) -> &SlabEvents {
        &self.parts.events
    }

    /// RAM of this process that it takes: tags, the buffer and events.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        let parts = &self.parts;
        (parts.tags.ram_bytes() + parts.behind.ram_bytes() + parts.events.ram_bytes()) as u64
    }

    /// Parts of the device that were used, and how many of them have a slab.
    #[must_use]
    pub fn placed(&self) -> (usize, usize) {
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
        self.check(offset, buf)?;
        if self.parts.is_child.load(Relaxed) {
            return self.parts.read_in_child(offset, buf);
        }
        self.parts.homes.cut(offset, buf.len()).try_for_each(|piece| {
            let part = &mut buf[piece.start..piece.start + piece.len];
            self.parts.read(offset + piece.start as u64, part)
        })
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.check(offset, buf)?;
        self.parts.homes.cut(offset, buf.len()).try_for_each(|piece| {
            let at = offset + piece.start as u64;
            if self.parts.homes.want(at) {
                self.keeper.wake();
            }
            self.parts.write(at, &buf[piece.start..piece.start + piece.len])
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
        self.check_range(offset, len_bytes)?;
        // A page that is on its way to flash would come back.
        self.parts.behind.flush()?;
        self.parts.tags.lock(pages(offset, len_bytes as usize), Tag::LOCAL).are_local();
        self.parts.local.discard(offset, len_bytes)
    }
}

impl Mirror {
    fn check(&self, offset: u64, memory: &[u8]) -> Result<(), DeviceError> {
        self.check_range(offset, memory.len() as u64)?;
        if memory.is_empty() || memory.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
            return Ok(());
        }
        Err(DeviceError::Misaligned { offset, len_bytes: memory.len() as u64, block_bytes: PAGE_BYTES })
    }

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

impl Parts {
    /// Reads pages of one slab: runs of those that the same slabs have.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let Some(family) = self.homes.of(offset) else { return self.read_locally(offset, buf) };
        let (first, count) = (page_of(offset), buf.len() / PAGE_BYTES);
        let holders = |page: usize| family.holders(self.tags.get(page));
        let mut done = 0;
        while done < count {
            let held_by = holders(first + done);
            let run = (done..count).take_while(|page| holders(first + page) == held_by).count().max(1);
            let at = offset + (done * PAGE_BYTES) as u64;
            let part = &mut buf[done * PAGE_BYTES..(done + run) * PAGE_BYTES];
            if !self.read_remotely(&family, held_by, at, part) {
                self.read_locally(at, part)?;
            }
            done += run;
        }
        Ok(())
    }

    /// Whether one of the slabs that have a run of pages gave it as it was written there.
    fn read_remotely(&self, family: &Family, held_by: Holders, offset: u64, buf: &mut [u8]) -> bool {
        let mut holders =
            family.homes().enumerate().filter(|(nth, home)| held_by.has(*nth) && home.is_alive());
        holders.any(|(_, home)| self.read_from(family, held_by, home, offset, buf))
    }

    /// Whether a slab gave a run of pages as it was written there.
    fn read_from(&self, family: &Family, held_by: Holders, home: &Home, offset: u64, buf: &mut [u8]) -> bool {
        /// Each further attempt means that a page was written in the time of one read.
        const ATTEMPTS: usize = 10;
        let all = pages(offset, buf.len());
        for _ in 0..ATTEMPTS {
            let before = self.tags.fingerprint(all.clone());
            if !all.clone().all(|page| family.holders(self.tags.get(page)) == held_by) {
                return false;
            }
            if home.read(self.homes.within(offset), buf).is_err() {
                self.lose(home);
                return false;
            }
            let is_right = all.clone().zip(buf.chunks_exact(PAGE_BYTES)).all(|(page, bytes)| {
                let tag = self.tags.get(page);
                family.holders(tag) == held_by && tag.is_of(bytes)
            });
            if is_right {
                self.counts.remote_reads.fetch_add((buf.len() / PAGE_BYTES) as u64, Relaxed);
                return true;
            }
            if self.tags.fingerprint(all.clone()) == before {
                // Nobody wrote meanwhile: the donor has other bytes than it was given.
                self.counts.wrong_pages.fetch_add(1, Relaxed);
                self.lose(home);
                return false;
            }
        }
        false
    }

    /// Reads what no donor has: each page from the buffer, or else from flash, which has it if the buffer has not.
    fn read_locally(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let is_remote_only = |page: usize| !self.tags.get(page).is_local();
        if pages(offset, buf.len()).any(is_remote_only) {
            return self.read_again(offset, buf);
        }
        self.read_known_locally(offset, buf)
    }

    /// As [`Parts::read_locally`], of pages that buffer or flash have.
    fn read_known_locally(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let mut missing = 0..0;
        for at in (0..buf.len()).step_by(PAGE_BYTES) {
            let page = page_of(offset) + at / PAGE_BYTES;
            if self.behind.get(page, &mut buf[at..at + PAGE_BYTES]) {
                self.counts.buffer_reads.fetch_add(1, Relaxed);
                self.read_flash(offset + missing.start as u64, &mut buf[missing])?;
                missing = at + PAGE_BYTES..at + PAGE_BYTES;
            } else {
                missing.end = at + PAGE_BYTES;
            }
        }
        self.read_flash(offset + missing.start as u64, &mut buf[missing])
    }

    /// Reads pages of which some were in slabs alone when they were looked at, one by one.
    fn read_again(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        /// Each further attempt means that a page was written, or moved to other slabs, in the time of one read.
        const ATTEMPTS: usize = 1000;
        for (page, bytes) in pages(offset, buf.len()).zip(buf.chunks_exact_mut(PAGE_BYTES)) {
            let at = (page * PAGE_BYTES) as u64;
            let mut is_read = false;
            for _ in 0..ATTEMPTS {
                let tag = self.tags.get(page);
                if tag.is_local() {
                    self.read_known_locally(at, bytes)?;
                    is_read = true;
                    break;
                }
                let family = self.homes.of(at);
                let held_by = family.as_ref().map_or(Holders::NOBODY, |family| family.holders(tag));
                if family.is_some_and(|family| self.read_remotely(&family, held_by, at, bytes)) {
                    is_read = true;
                    break;
                }
                if held_by == Holders::NOBODY && self.tags.get(page) == tag && !tag.is_locked() {
                    break;
                }
                std::thread::yield_now();
            }
            if !is_read {
                self.counts.lost_pages.fetch_add(1, Relaxed);
                return Err(DeviceError::Io {
                    operation: Operation::Read,
                    offset: at,
                    len_bytes: PAGE_BYTES,
                    errno: libc::EIO,
                });
            }
        }
        Ok(())
    }

    fn read_in_child(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let is_on_flash = |page: usize| self.tags.get(page).is_local();
        if self.is_flash_whole.load(Relaxed) && pages(offset, buf.len()).all(is_on_flash) {
            return self.local.read_at(offset, buf);
        }
        Err(DeviceError::Io { operation: Operation::Read, offset, len_bytes: buf.len(), errno: libc::EIO })
    }

    fn read_flash(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.counts.flash_reads.fetch_add((buf.len() / PAGE_BYTES) as u64, Relaxed);
        self.local.read_at(offset, buf)
    }

    /// Writes pages of one slab.
    fn write(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let unless = if self.mode == Mode::Disk { Tag::LOCAL } else { Tag::LOST };
        let held = self.tags.lock(pages(offset, buf.len()), unless);
        if self.mode == Mode::Disk {
            self.put_behind(offset, buf)?;
        }
        let family = self.homes.of(offset);
        let copies =
            family.as_ref().map_or(Copies::default(), |family| self.write_remotely(family, offset, buf));
        let is_short = self.mode != Mode::Disk && copies.staying < self.homes.replicas();
        let outcome = if is_short { self.put_behind(offset, buf) } else { Ok(()) };
        let is_local = self.mode == Mode::Disk || (is_short && outcome.is_ok());
        match family {
            Some(family) if copies.all > 0 => held.are_in(family.epoch(), buf, is_local),
            _ if is_local => held.are_local(),
            // Nobody has it.
            _ => drop(held),
        }
        outcome
    }

    fn put_behind(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let mut all = pages(offset, buf.len()).zip(buf.chunks_exact(PAGE_BYTES));
        all.try_for_each(|(page, bytes)| self.behind.put(page, bytes))
    }

    /// Writes pages to all slabs of a family. Those that do not take them are lost.
    fn write_remotely(&self, family: &Family, offset: u64, buf: &[u8]) -> Copies {
        let mut copies = Copies::default();
        for home in family.homes() {
            let is_staying = home.is_good();
            if home.write(buf, self.homes.within(offset)).is_ok() {
                copies.all += 1;
                copies.staying += usize::from(is_staying);
            } else {
                self.lose(home);
            }
        }
        self.counts.remote_writes.fetch_add((copies.all * buf.len() / PAGE_BYTES) as u64, Relaxed);
        copies
    }

    /// Pages of a part of the device.
    fn pages_of(&self, nth: usize) -> std::ops::Range<usize> {
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

/// Slabs that have what was written.
#[derive(Clone, Copy, Default)]
struct Copies {
    all: usize,
    /// Those that no donor asks back.
    staying: usize,
}

fn page_of(offset: u64) -> usize {
    (offset / PAGE_BYTES as u64) as usize
}

fn pages(offset: u64, len: usize) -> std::ops::Range<usize> {
    page_of(offset)..page_of(offset) + len / PAGE_BYTES
}
