//! A device in the RAM of donors, with local flash behind it.
//!
//! Every page is written to a slab first and to flash behind, from a bounded buffer that keeps it until flash has it: whatever donor goes, at whatever moment, some
//! place has the bytes. It is read from the slab if the slab is alive and its checksum agrees, else from the buffer or from flash.
//!
//! Durable is what flash has: [`Device::sync`] waits for the buffer and for flash, and no donor.

mod behind;
mod home;
mod keeper;
mod tags;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aquifer_device::{Device, DeviceError, ReadRequest, WriteRequest};

use behind::Behind;
use home::Homes;
use keeper::Keeper;
use tags::{Tag, Tags};

pub use home::{Home, Slabs};

use crate::transport::{Read, Write};

/// What donors and flash keep apart.
pub const PAGE_BYTES: usize = 4096;

/// How a mirror works.
#[derive(Clone, Debug)]
pub struct MirrorOptions {
    /// Part of the device that one slab holds; a multiple of the page.
    pub slab_bytes: u64,
    /// Bytes that may wait for flash; who writes more waits too.
    pub behind_bytes: usize,
}

impl Default for MirrorOptions {
    fn default() -> Self {
        MirrorOptions { slab_bytes: 64 << 20, behind_bytes: 16 << 20 }
    }
}

/// What a mirror has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    remote_reads: AtomicU64,
    buffer_reads: AtomicU64,
    flash_reads: AtomicU64,
    remote_writes: AtomicU64,
    wrong_pages: AtomicU64,
    lost_slabs: AtomicU64,
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
            homes: Homes::new(device_bytes, options.slab_bytes),
            counts: Counts::default(),
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
        }
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

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        for request in requests {
            request.result = self.read_at(request.offset, request.buf);
        }
    }

    fn write_batch(&self, requests: &mut [WriteRequest<'_>]) {
        for request in requests {
            request.result = self.write_at(request.offset, request.buf);
        }
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.parts.behind.flush()?;
        self.parts.local.sync()
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.check_range(offset, len_bytes)?;
        // A page that is on its way to flash would come back.
        self.parts.behind.flush()?;
        drop(self.parts.tags.lock(pages(offset, len_bytes as usize)));
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
    /// Reads pages of one slab.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let Some(home) = self.homes.of(offset) else { return self.read_locally(offset, buf) };
        let first = page_of(offset);
        let mut done = 0;
        while done < buf.len() {
            let page = first + done / PAGE_BYTES;
            let tag = self.tags.get(page);
            let run = (page..first + buf.len() / PAGE_BYTES)
                .take_while(|page| self.tags.get(*page).is_in(home.epoch()) == tag.is_in(home.epoch()))
                .count()
                .max(1);
            let at = offset + done as u64;
            let part = &mut buf[done..done + run * PAGE_BYTES];
            if !tag.is_in(home.epoch()) || !self.read_remotely(&home, at, part) {
                self.read_locally(at, part)?;
            }
            done += run * PAGE_BYTES;
        }
        Ok(())
    }

    /// Whether a run of pages came from the donor as it was written there.
    fn read_remotely(&self, home: &Home, offset: u64, buf: &mut [u8]) -> bool {
        /// Each further attempt means that a page was written in the time of one read.
        const ATTEMPTS: usize = 10;
        let place = home.place_of(self.homes.within(offset));
        for _ in 0..ATTEMPTS {
            let before = self.tags.fingerprint(pages(offset, buf.len()));
            if !pages(offset, buf.len()).all(|page| self.tags.get(page).is_in(home.epoch())) {
                return false;
            }
            if home.link().read_many(&mut [Read { from: place, to: buf }]).is_err() {
                self.lose(home);
                return false;
            }
            let is_right = pages(offset, buf.len())
                .zip(buf.chunks_exact(PAGE_BYTES))
                .all(|(page, bytes)| self.tags.get(page) == Tag::of(bytes, home.epoch()));
            if is_right {
                home.note_use();
                self.counts.remote_reads.fetch_add((buf.len() / PAGE_BYTES) as u64, Relaxed);
                return true;
            }
            if self.tags.fingerprint(pages(offset, buf.len())) == before {
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

    fn read_flash(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.counts.flash_reads.fetch_add((buf.len() / PAGE_BYTES) as u64, Relaxed);
        self.local.read_at(offset, buf)
    }

    /// Writes pages of one slab.
    fn write(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let held = self.tags.lock(pages(offset, buf.len()));
        for (page, bytes) in pages(offset, buf.len()).zip(buf.chunks_exact(PAGE_BYTES)) {
            self.behind.put(page, bytes)?;
        }
        let Some(home) = self.homes.of(offset) else { return Ok(()) };
        let to = home.place_of(self.homes.within(offset));
        if home.link().write_many(&[Write { from: buf, to }]).is_err() {
            self.lose(&home);
            return Ok(());
        }
        home.note_use();
        self.counts.remote_writes.fetch_add((buf.len() / PAGE_BYTES) as u64, Relaxed);
        held.are_in(home.epoch(), buf);
        Ok(())
    }

    /// The slab is of no use any more.
    fn lose(&self, home: &Home) {
        if self.homes.forget(home) {
            self.counts.lost_slabs.fetch_add(1, Relaxed);
        }
    }
}

fn page_of(offset: u64) -> usize {
    (offset / PAGE_BYTES as u64) as usize
}

fn pages(offset: u64, len: usize) -> std::ops::Range<usize> {
    page_of(offset)..page_of(offset) + len / PAGE_BYTES
}
