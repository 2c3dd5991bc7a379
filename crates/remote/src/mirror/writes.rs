//! Writing: to slabs, and to flash behind, or where slabs are too few.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use aquifer_device::DeviceError;

use super::family::Family;
use super::home::Home;
use super::seals::{SEALED_PAGES, Seals};
use super::tags::Tag;
use super::{Mode, PAGE_BYTES, Parts, page_of, pages};

/// Slabs that have what was written.
#[derive(Clone, Copy, Default)]
struct Copies {
    all: usize,
    /// Slabs among them that no donor asks back.
    staying: usize,
}

impl Copies {
    const MAX: Copies = Copies { all: usize::MAX, staying: usize::MAX };

    fn min(self, other: Copies) -> Copies {
        Copies { all: self.all.min(other.all), staying: self.staying.min(other.staying) }
    }
}

/// Pages that are locked and written together.
const RUN_PAGES: usize = 256;

/// What is done while donors take a run of pages: the buffer before flash gets them, and their checksums are computed.
struct Beside<'a> {
    parts: &'a Parts,
    first: usize,
    buf: &'a [u8],
    /// Whether the buffer shall have them.
    is_for_flash: bool,
    /// Pages that it has, from the first one on.
    taken: usize,
    sums: [u32; RUN_PAGES],
    is_done: bool,
    outcome: Result<(), DeviceError>,
}

impl Beside<'_> {
    /// Waits for nobody: donors have a deadline.
    fn run(&mut self) {
        if std::mem::replace(&mut self.is_done, true) {
            return;
        }
        if self.is_for_flash {
            match self.parts.behind.try_put(self.first, self.buf) {
                Ok(taken) => self.taken = taken,
                Err(error) => self.outcome = Err(error),
            }
        }
        for (sum, bytes) in self.sums.iter_mut().zip(self.buf.chunks_exact(PAGE_BYTES)) {
            *sum = Tag::sum(bytes);
        }
    }

    /// Waits until the buffer has all that it shall have.
    fn finish(&mut self, is_for_flash: bool) -> Result<(), DeviceError> {
        self.outcome?;
        if !is_for_flash {
            return Ok(());
        }
        let taken = std::mem::replace(&mut self.taken, self.buf.len() / PAGE_BYTES);
        self.parts.behind.put(self.first + taken, &self.buf[taken * PAGE_BYTES..])
    }
}

impl Parts {
    /// Writes pages of one slab.
    pub(super) fn write(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let mut runs = (offset..).step_by(RUN_PAGES * PAGE_BYTES).zip(buf.chunks(RUN_PAGES * PAGE_BYTES));
        runs.try_for_each(|(offset, buf)| self.write_run(offset, buf))
    }

    fn write_run(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let is_disk = self.mode == Mode::Disk;
        let held = self.tags.lock(pages(offset, buf.len()), if is_disk { Tag::LOCAL } else { Tag::LOST });
        let family = self.homes.of(offset);
        let mut beside = Beside {
            parts: self,
            first: page_of(offset),
            buf,
            is_for_flash: is_disk,
            taken: 0,
            sums: [0; RUN_PAGES],
            is_done: false,
            outcome: Ok(()),
        };
        let copies = family
            .as_ref()
            .map_or(Copies::default(), |family| self.write_remotely(family, offset, buf, &mut beside));
        beside.run();
        if is_disk {
            beside.finish(true)?;
        }
        let is_short = !is_disk && copies.staying < self.homes.replicas();
        let outcome = beside.finish(is_short);
        let is_local = is_disk || (is_short && outcome.is_ok());
        if !is_local && copies.all > 0 {
            // Before the tags say so: who brings these pages to flash looks at it first.
            self.remote_alone[self.homes.nth(offset)].store(true, SeqCst);
        }
        match family {
            Some(family) if copies.all > 0 => held.are_in(family.epoch(), &beside.sums, is_local),
            _ if is_local => held.are_local(),
            // Nobody has it.
            _ => drop(held),
        }
        outcome
    }

    /// Writes pages to all slabs of a family at once, and does what is beside. Slabs that do not take them are lost.
    fn write_remotely(&self, family: &Family, offset: u64, buf: &[u8], beside: &mut Beside<'_>) -> Copies {
        let copies = match &self.seals {
            None => self.write_to(&mut family.homes(), offset, buf, beside),
            Some(seals) => self.write_sealed(seals, family, offset, buf, beside),
        };
        self.counts.remote_writes.fetch_add((copies.all * buf.len() / PAGE_BYTES) as u64, Relaxed);
        copies
    }

    fn write_sealed(
        &self,
        seals: &Seals,
        family: &Family,
        offset: u64,
        buf: &[u8],
        beside: &mut Beside<'_>,
    ) -> Copies {
        let mut buffer = seals.buffer();
        let mut copies = Copies::MAX;
        for (nth, bytes) in buf.chunks(SEALED_PAGES * PAGE_BYTES).enumerate() {
            let at = offset + (nth * SEALED_PAGES * PAGE_BYTES) as u64;
            let sealed = &mut buffer[..bytes.len()];
            sealed.copy_from_slice(bytes);
            pages(at, bytes.len())
                .zip(sealed.chunks_exact_mut(PAGE_BYTES))
                .for_each(|(page, sealed)| seals.seal(page, sealed));
            // A slab that does not take one run takes no later one.
            copies = copies.min(self.write_to(&mut family.homes(), at, sealed, beside));
        }
        copies
    }

    fn write_to<'a>(
        &self,
        homes: &mut impl Iterator<Item = &'a Arc<Home>>,
        offset: u64,
        buf: &[u8],
        beside: &mut Beside<'_>,
    ) -> Copies {
        let Some(home) = homes.next() else {
            beside.run();
            return Copies::default();
        };
        let is_staying = home.is_good();
        let writing = home.begin_write(buf, self.homes.within(offset));
        let others = self.write_to(homes, offset, buf, beside);
        if writing.finish().is_err() {
            self.lose(home);
            return others;
        }
        Copies { all: others.all + 1, staying: others.staying + usize::from(is_staying) }
    }
}
