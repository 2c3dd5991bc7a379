//! Reading: from a slab that is alive and has the page, else from the buffer or from flash.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use aquifer_device::{DeviceError, Operation};

use super::family::{Family, Holders};
use super::home::Home;
use super::{PAGE_BYTES, Parts, page_of, pages};

/// Of slabs with the same bytes, one is read for so long before it is the next one's turn.
const READS_BYTES: u64 = 128 << 10;

impl Parts {
    /// Reads pages, those of each slab for themselves.
    pub(super) fn read_pieces(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.homes.cut(offset, buf.len()).try_for_each(|piece| {
            let part = &mut buf[piece.start..piece.start + piece.len];
            self.read(offset + piece.start as u64, part)
        })
    }

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
        Parts::in_turn(family, held_by, offset).any(|home| self.read_from(family, held_by, home, offset, buf))
    }

    /// The slabs that have pages at an offset, the one first whose turn it is: each of them has its share of the reads.
    pub(super) fn in_turn(
        family: &Family,
        held_by: Holders,
        offset: u64,
    ) -> impl Iterator<Item = &Arc<Home>> {
        let holders = move || {
            let alive =
                family.homes().enumerate().filter(move |(nth, home)| held_by.has(*nth) && home.is_alive());
            alive.map(|(_, home)| home)
        };
        let first = (offset / READS_BYTES) as usize % holders().count().max(1);
        holders().skip(first).chain(holders().take(first))
    }

    /// Whether a slab gave a run of pages as it was written there.
    fn read_from(&self, family: &Family, held_by: Holders, home: &Home, offset: u64, buf: &mut [u8]) -> bool {
        /// Each further attempt means that a page was written in the time of one read.
        const ATTEMPTS: usize = 10;
        let all = pages(offset, buf.len());
        for _ in 0..ATTEMPTS {
            let before = self.fingerprint(all.clone());
            if !all.clone().all(|page| family.holders(self.tags.get(page)) == held_by) {
                return false;
            }
            if home.read(self.homes.within(offset), buf).is_err() {
                self.lose(home);
                return false;
            }
            if self.is_right(family, held_by, offset, buf) {
                return true;
            }
            if self.fingerprint(all.clone()) == before {
                // Nobody wrote meanwhile: the donor has other bytes than it was given.
                self.counts.wrong_pages.fetch_add(1, Relaxed);
                self.lose(home);
                return false;
            }
        }
        false
    }

    /// Opens pages that came from a slab, and says whether they are what was written there last.
    pub(super) fn is_right(&self, family: &Family, held_by: Holders, offset: u64, buf: &mut [u8]) -> bool {
        let mut all = pages(offset, buf.len()).zip(buf.chunks_exact_mut(PAGE_BYTES));
        let is_right = all.all(|(page, bytes)| {
            let is_open = self.seals.as_ref().is_none_or(|seals| seals.open(page, bytes));
            let tag = self.tags.get(page);
            is_open && family.holders(tag) == held_by && tag.is_of(bytes)
        });
        if is_right {
            self.counts.remote_reads.fetch_add((buf.len() / PAGE_BYTES) as u64, Relaxed);
        }
        is_right
    }

    /// A number that changes when one of the pages is written.
    fn fingerprint(&self, pages: Range<usize>) -> u64 {
        let seals = self.seals.as_ref().map_or(0, |seals| seals.fingerprint(pages.clone()));
        self.tags.fingerprint(pages).wrapping_add(seals)
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
    pub(super) fn read_known_locally(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.behind.read(offset, buf, &self.counts)
    }

    /// Reads pages of which some were in slabs alone when they were looked at, one by one.
    fn read_again(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        /// Each further attempt means that a page was written, or moved to other slabs, in the time of one read.
        const ATTEMPTS: usize = 1000;
        for (page, bytes) in pages(offset, buf.len()).zip(buf.chunks_exact_mut(PAGE_BYTES)) {
            let at = (page * PAGE_BYTES) as u64;
            let mut is_read = false;
            for _ in 0..ATTEMPTS {
                let tag = self.tags.get_unlocked(page);
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
                if held_by == Holders::NOBODY && self.tags.get(page) == tag {
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

    pub(super) fn read_in_child(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let is_on_flash = |page: usize| self.tags.get(page).is_local();
        if self.is_flash_whole.load(Relaxed) && pages(offset, buf.len()).all(is_on_flash) {
            return self.local.read_at(offset, buf);
        }
        Err(DeviceError::Io { operation: Operation::Read, offset, len_bytes: buf.len(), errno: libc::EIO })
    }
}
