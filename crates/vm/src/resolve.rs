//! What a fault does: find the bytes, map the page.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{Found, PageId};
use aquifer_cache::{Class, SlotId};
use aquifer_log::{ReadError, RecordId};
use aquifer_map::entries::TableFull;
use aquifer_map::{Entry, Locked, Place, State};

use crate::engine::Engine;
use crate::error::FaultError;
use crate::fill::Fill;
use crate::patience::{Patience, Reason};
use crate::trouble::WriterWait;
use crate::writer::LOOKS_PER_SLOT;

/// Pages that one page meets in the entry table.
const RIVALS: usize = 16;
/// Slots that one try to evict looks at, at least, and tries beyond those that look at all.
const SLOTS_PER_TRY: usize = 32;
const TRIES_SPARE: usize = 16;

/// Where the bytes of a page came from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Log,
    Zero,
}

/// What a page is made accessible for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    /// It must not fault if it is written; that it will be is not known.
    MayWrite,
    /// It is being written.
    Write,
}

impl Access {
    pub(crate) fn of(write: bool) -> Self {
        if write { Self::Write } else { Self::Read }
    }

    /// That of the pages behind, which nobody asked for yet.
    fn ahead(self) -> Self {
        if self == Self::Read { self } else { Self::MayWrite }
    }
}

impl From<Source> for Found {
    fn from(source: Source) -> Self {
        match source {
            Source::Log => Self::Flash,
            Source::Zero => Self::Zeros,
        }
    }
}

impl Engine {
    /// Resolves a fault that was delivered, as [`Engine::resolve_in_fault`] does.
    pub(crate) fn fault(&self, page: PageId, write: bool) -> Result<Found, FaultError> {
        let _pass = self.users_gate.pass_in_fault();
        if self.is_snapshot() {
            self.resolve_in_snapshot(page, write)
        } else {
            self.resolve_in_fault(page, write)
        }
    }

    /// Makes `page` accessible for reading, or with `write` for writing.
    ///
    /// A read maps the page write-protected, so that it is known to be clean; the first write faults once
    /// more. A write maps it writable, and so does a read where a write is likely to follow; whether one did is seen
    /// when the page leaves. When faults walk through memory in order, the pages that come next and
    /// are in RAM or were never written are mapped along.
    ///
    /// # Errors
    /// [`FaultError`]; the page is as it was.
    ///
    /// # Context
    /// Runs in fault handlers. Blocks on the device for a page that is not in RAM.
    pub fn resolve_in_fault(&self, page: PageId, write: bool) -> Result<Found, FaultError> {
        self.resolve_for_in_fault(page, Access::of(write))
    }

    /// As [`Engine::resolve_in_fault`].
    pub(crate) fn resolve_for_in_fault(&self, page: PageId, access: Access) -> Result<Found, FaultError> {
        self.counters.faults.add(1);
        // For decisions only: the fill looks at it again.
        let size = self.size_of(page.leaf()).ok_or(FaultError::NotAllocated(page))?;
        let is_likely =
            access == Access::Read && self.first_writes.is_likely_in_fault(page.leaf(), size.is_whole());
        let access = if is_likely { Access::MayWrite } else { access };
        let ahead = self.streams.note_in_fault(page);
        if size.is_whole() {
            self.ahead.note_in_fault(page, ahead, self.orders.get(page.leaf()));
            self.unmap_due_in_fault();
        } else {
            self.make_page_room_in_fault(1 + ahead);
        }
        let mut patience = Patience::of_fault();
        let mut fill = self.begin_fill_in_fault(page, &mut patience)?;
        let size = fill.size;
        if fill.before().is_some_and(|entry| entry.state() == State::Mapped) {
            let found = fill.upgrade_in_fault(access)?;
            if ahead > 0 {
                let mut context = self.contexts.take_in_fault();
                self.map_ahead_in_fault(page, ahead, size, access.ahead(), &mut context);
            }
            return Ok(found);
        }
        if fill.before().is_none() {
            fill.place_in_fault(&mut patience)?;
        }
        let mut context = self.contexts.take_in_fault();
        let found = if fill.before().is_some() {
            self.counters.hits.add(1);
            self.cache.touch(fill.slot());
            Found::Ram
        } else {
            fill.read_in_fault(&mut context)?.into()
        };
        fill.publish_mapped_in_fault(access, &mut context)?;
        self.map_ahead_in_fault(page, ahead, size, access.ahead(), &mut context);
        Ok(found)
    }

    pub(crate) fn count_source(&self, source: Source) {
        let counter = match source {
            Source::Log => &self.counters.misses,
            Source::Zero => &self.counters.zero_fills,
        };
        counter.add(1);
    }

    /// Takes the page's entry, waiting for whoever holds it. If the table has no room, one of its rivals leaves first.
    ///
    /// # Errors
    /// [`FaultError::Again`] after the patience; nothing can leave.
    pub(crate) fn lock_in_fault(
        &self,
        page: PageId,
        patience: &mut Patience,
    ) -> Result<Locked<'_>, FaultError> {
        loop {
            match self.entries.try_lock(page) {
                Ok(Some(locked)) => return Ok(locked),
                Ok(None) => patience.wait_in_fault(page, Reason::Moving)?,
                Err(TableFull) => {
                    self.evict_rival_in_fault(page, &mut patience.writer)?;
                    self.wait_for_room_in_fault(page, patience)?;
                }
            }
        }
    }

    pub(crate) fn evict_rival_in_fault(&self, page: PageId, wait: &mut WriterWait) -> Result<(), FaultError> {
        let mut rivals = [page; RIVALS];
        let mut count = 0;
        let mut dirty = None;
        let (mut mapped_whole, mut mapped) = ([page; RIVALS], 0);
        self.entries.for_each_rival(page, &mut |rival, entry| {
            if entry.state() == State::Mapped && !entry.is_pinned() && self.is_whole(rival) {
                mapped_whole[mapped % RIVALS] = rival;
                mapped += 1;
            }
            if entry.state() == State::Cached && count < RIVALS {
                rivals[count] = rival;
                count += 1;
                dirty = dirty.or_else(|| entry.is_dirty().then_some(rival));
            }
        });
        // Each time from another one on, or the newest of them would always be the one to leave.
        rivals[..count].rotate_left(self.cache.evicted() as usize % count.max(1));
        if rivals[..count].iter().any(|&rival| self.cache.evict_page(rival, &self.entries)) {
            return Ok(());
        }
        match dirty {
            Some(rival) => {
                self.urgent.store(rival.0, Ordering::Release);
                self.wait_for_writer_in_fault(page, wait)
            }
            None => {
                // Each time another one, or two neighbours that one instruction needs would evict each other for ever.
                match mapped.min(RIVALS) {
                    0 => self.evict_pages_in_fault(),
                    mapped => {
                        let turn = self.counters.faults.sum() as usize % mapped;
                        self.evict_page_in_fault(mapped_whole[turn]);
                    }
                }
                Ok(())
            }
        }
    }

    /// A thread that sleeps in the kernel for a page that is there already must be told.
    pub(crate) fn wake_in_fault(&self, page: PageId) -> Result<(), FaultError> {
        if self.signal_faults {
            return Ok(());
        }
        self.uffd.wake(self.address_of(page), OS_PAGE_BYTES).map_err(|errno| FaultError::Map { page, errno })
    }

    /// A slot for a page that is not in RAM, whose entry the caller holds.
    ///
    /// # Errors
    /// Nothing can leave RAM any more; [`FaultError::Again`] after the patience.
    pub(crate) fn allocate_slot_in_fault(
        &self,
        class: Class,
        page: PageId,
        patience: &mut Patience,
    ) -> Result<SlotId, FaultError> {
        // Each try looks at some of the slots. When nothing is written any more, few have clean pages: all are looked at.
        let mut tries_left = self.cache.slots(class) / SLOTS_PER_TRY + TRIES_SPARE;
        loop {
            let evicted = self.cache.evicted();
            if let Some(slot) = self.cache.allocate(class, page, &self.entries) {
                let period = (self.slots_ahead(class) / LOOKS_PER_SLOT) as u64;
                if evicted.is_multiple_of(period) && self.dirty.load(Ordering::Relaxed) > 0 {
                    self.want_writer();
                }
                return Ok(slot);
            }
            self.unmap_wanted_in_fault(class);
            self.unmap_due_in_fault();
            match self.wait_for_writer_in_fault(page, &mut patience.writer) {
                Err(FaultError::Stopped { .. }) if tries_left > 0 => tries_left -= 1,
                waited => waited?,
            }
            self.wait_for_room_in_fault(page, patience)?;
        }
    }

    /// Evicts the mapped pages of the slab that `class` waits for.
    fn unmap_wanted_in_fault(&self, class: Class) {
        self.cache.for_each_wanted(class, &mut |page| {
            if self
                .entries
                .find(page)
                .is_some_and(|entry| entry.state() == State::Mapped && !entry.is_pinned())
            {
                self.evict_page_in_fault(page);
            }
        });
    }

    /// Where in `scratch` the `len` bytes of the newest logged version of `page` are now; `None` if they are zeros.
    pub(crate) fn read_record_in_fault(
        &self,
        page: PageId,
        len: usize,
        scratch: &mut [u8],
    ) -> Result<Option<Range<usize>>, FaultError> {
        let id = RecordId::of_page(page.0, len);
        let mut tried = None;
        loop {
            let place =
                self.leaves.locate_in_fault(page, scratch).map_err(|e| FaultError::from_read(page, e))?;
            let Some(address) = place.address() else { return Ok(None) };
            let began = Instant::now();
            let read = self.log.read_in_fault(address, place.span_bytes(len), id, scratch);
            self.read_durations.add(began.elapsed());
            match read {
                Ok(range) if range.len() == len => return Ok(Some(range)),
                // The cleaner may have moved the record between the two looks; the same place twice is damage.
                Ok(_) | Err(ReadError::Mismatch { .. }) if tried != Some(place) => {
                    tried = Some::<Place>(place)
                }
                Ok(_) => return Err(FaultError::Damaged { page, address }),
                Err(error) => return Err(FaultError::from_read(page, error)),
            }
        }
    }
}

impl Fill<'_> {
    /// A page that is mapped already: another thread was first, or it is the first write to a clean page.
    fn upgrade_in_fault(mut self, access: Access) -> Result<Found, FaultError> {
        let (engine, page, slot) = (self.engine, self.page, self.slot());
        if access == Access::Read || self.before().is_some_and(Entry::is_writable) {
            drop(self);
            engine.wake_in_fault(page)?;
            return Ok(Found::Mapped);
        }
        engine.counters.faults_write_upgrade.add(1);
        if access == Access::Write {
            engine.first_writes.note_write_in_fault(page.leaf(), self.size.is_whole());
        } else if self.size.is_whole() {
            // SAFETY: the page is present and write-protected, so it cannot change.
            let bytes = unsafe { std::slice::from_raw_parts(engine.address_of(page), OS_PAGE_BYTES) };
            engine.note_digest_in_fault(slot, Some(bytes));
        }
        // SAFETY: the page is mapped and its entry is held, so it stays so.
        unsafe { engine.uffd.write_protect(engine.address_of(page), OS_PAGE_BYTES, false) }
            .map_err(|errno| FaultError::Map { page, errno })?;
        self.publish(|locked| locked.entry().mapped(slot.0, true));
        Ok(Found::FirstWrite)
    }
}
