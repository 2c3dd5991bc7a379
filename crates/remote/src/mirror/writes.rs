//! Writing: to slabs, and to flash behind, or where slabs are too few.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use aquifer_device::DeviceError;

use super::family::Family;
use super::home::Home;
use super::seals::{SEALED_PAGES, Seals};
use super::tags::Tag;
use super::{Mode, PAGE_BYTES, Parts, pages};

/// Slabs that have what was written.
#[derive(Clone, Copy, Default)]
struct Copies {
    all: usize,
    /// Those that no donor asks back.
    staying: usize,
}

impl Copies {
    const MAX: Copies = Copies { all: usize::MAX, staying: usize::MAX };

    fn min(self, other: Copies) -> Copies {
        Copies { all: self.all.min(other.all), staying: self.staying.min(other.staying) }
    }
}

impl Parts {
    /// Writes pages of one slab.
    pub(super) fn write(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
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

    /// Writes pages to all slabs of a family at once. Those that do not take them are lost.
    fn write_remotely(&self, family: &Family, offset: u64, buf: &[u8]) -> Copies {
        let copies = match &self.seals {
            None => self.write_to(&mut family.homes(), offset, buf),
            Some(seals) => self.write_sealed(seals, family, offset, buf),
        };
        self.counts.remote_writes.fetch_add((copies.all * buf.len() / PAGE_BYTES) as u64, Relaxed);
        copies
    }

    fn write_sealed(&self, seals: &Seals, family: &Family, offset: u64, buf: &[u8]) -> Copies {
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
            copies = copies.min(self.write_to(&mut family.homes(), at, sealed));
        }
        copies
    }

    fn write_to<'a>(
        &self,
        homes: &mut impl Iterator<Item = &'a Arc<Home>>,
        offset: u64,
        buf: &[u8],
    ) -> Copies {
        let Some(home) = homes.next() else { return Copies::default() };
        let is_staying = home.is_good();
        let writing = home.begin_write(buf, self.homes.within(offset));
        let others = self.write_to(homes, offset, buf);
        if writing.finish().is_err() {
            self.lose(home);
            return others;
        }
        Copies { all: others.all + 1, staying: others.staying + usize::from(is_staying) }
    }
}
