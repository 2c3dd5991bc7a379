//! Copies of pages whose tags somebody holds.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use aquifer_device::{AlignedBuffer, DeviceError, Operation};

use super::family::{Family, Holders};
use super::home::Home;
use super::tags::{Locked, Tag};
use super::{PAGE_BYTES, Parts};

/// Pages copied at once.
pub const COPY_PAGES: usize = 32;

impl Parts {
    /// Copies pages to where they belong in `buffer`, which begins with page `start`: from slabs, or from flash those that no slab has. Says which of them match their
    /// tags.
    pub(super) fn copy(
        &self,
        family: &Family,
        held: &[(usize, Locked<'_>)],
        start: usize,
        buffer: &mut [u8],
    ) -> [bool; COPY_PAGES] {
        let mut copied = self.copy_together(family, held, start, buffer);
        for (page, held) in held.iter().filter(|(page, _)| !copied[*page - start]).collect::<Vec<_>>() {
            let bytes = &mut buffer[(page - start) * PAGE_BYTES..][..PAGE_BYTES];
            let tag = held.before();
            let holders = family.holders(tag);
            let mut having = family.homes().enumerate().filter(|(nth, _)| holders.has(*nth));
            copied[*page - start] = having.any(|(_, home)| self.copy_of(home, tag, *page, bytes))
                || (tag.is_local() && self.read_known_locally((*page * PAGE_BYTES) as u64, bytes).is_ok());
        }
        copied
    }

    /// Brings to the buffer before flash what donors alone have.
    ///
    /// # Errors
    /// Flash fails, or nobody has a page any more; later calls speak of other pages then.
    pub(super) fn save_all(&self) -> Result<(), DeviceError> {
        let mut outcome = Ok(());
        let mut buffer = None;
        for nth in 0..self.remote_alone.len() {
            if !self.remote_alone[nth].swap(false, SeqCst) {
                continue;
            }
            let buffer = buffer.get_or_insert_with(|| AlignedBuffer::new(COPY_PAGES * PAGE_BYTES));
            let saved = self.save(nth, buffer);
            if saved.is_err() {
                self.remote_alone[nth].store(true, SeqCst);
            }
            outcome = outcome.and(saved);
        }
        outcome
    }

    /// As [`Parts::save_all`], of one part of the device.
    fn save(&self, nth: usize, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let all = self.pages_of(nth);
        let mut outcome = Ok(());
        for start in all.clone().step_by(COPY_PAGES) {
            let mut held: Vec<_> = (start..all.end.min(start + COPY_PAGES))
                .filter_map(|page| Some((page, self.tags.lock_remote_alone(page)?)))
                .collect();
            // Locked pages stay where they are: a family that takes another's place waits for them before it is all there is.
            let family = if held.is_empty() { continue } else { self.homes.of((start * PAGE_BYTES) as u64) };
            let copied =
                family.map_or([false; COPY_PAGES], |family| self.copy(&family, &held, start, buffer));
            for (page, held) in held.drain(..) {
                let bytes = &buffer[(page - start) * PAGE_BYTES..][..PAGE_BYTES];
                if copied[page - start] {
                    self.behind.put(page, bytes)?;
                    held.stay_and_are_local();
                } else {
                    self.counts.lost_pages.fetch_add(1, Relaxed);
                    let (operation, offset) = (Operation::Sync, (page * PAGE_BYTES) as u64);
                    outcome =
                        Err(DeviceError::Io { operation, offset, len_bytes: PAGE_BYTES, errno: libc::EIO });
                    held.are_lost();
                }
            }
        }
        outcome
    }

    /// Whether a slab gave a page as its tag says.
    fn copy_of(&self, home: &Home, tag: Tag, page: usize, bytes: &mut [u8]) -> bool {
        let within = self.homes.within((page * PAGE_BYTES) as u64);
        home.is_alive()
            && home.read(within, bytes).is_ok()
            && self.seals.as_ref().is_none_or(|seals| seals.open(page, bytes))
            && tag.is_of(bytes)
    }

    /// From each slab all that it has at once, and from flash those that no slab has.
    fn copy_together(
        &self,
        family: &Family,
        held: &[(usize, Locked<'_>)],
        start: usize,
        buffer: &mut [u8],
    ) -> [bool; COPY_PAGES] {
        let (parts, mut copied) = (self, [false; COPY_PAGES]);
        let holders = |held: &Locked<'_>| family.holders(held.before());
        for (nth, home) in family.homes().enumerate().filter(|(_, home)| home.is_alive()) {
            let is_wanted = |page: usize, held: &Locked<'_>| !copied[page - start] && holders(held).has(nth);
            let wanted: Vec<_> = held.iter().filter(|(page, held)| is_wanted(*page, held)).collect();
            let mut places: Vec<_> = buffer.chunks_exact_mut(PAGE_BYTES).map(Some).collect();
            let mut reads: Vec<_> = wanted
                .iter()
                .filter_map(|(page, _)| Some((page, places[page - start].take()?)))
                .map(|(page, to)| home.to_read(parts.homes.within((page * PAGE_BYTES) as u64), to))
                .collect();
            if home.link().read_many(&mut reads).is_err() {
                continue;
            }
            drop(reads);
            for (page, held) in wanted {
                let bytes = &mut buffer[(page - start) * PAGE_BYTES..][..PAGE_BYTES];
                let is_open = parts.seals.as_ref().is_none_or(|seals| seals.open(*page, bytes));
                copied[page - start] = is_open && held.before().is_of(bytes);
            }
        }
        let on_flash: Vec<_> = held
            .iter()
            .filter(|(_, held)| holders(held) == Holders::NOBODY && held.before().is_local())
            .map(|(page, _)| *page)
            .collect();
        for run in on_flash.chunk_by(|before, after| before + 1 == *after) {
            let within = run[0] - start..run[0] - start + run.len();
            let bytes = &mut buffer[within.start * PAGE_BYTES..within.end * PAGE_BYTES];
            if parts.read_known_locally((run[0] * PAGE_BYTES) as u64, bytes).is_ok() {
                copied[within].fill(true);
            }
        }
        copied
    }
}
