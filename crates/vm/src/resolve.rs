//! What a fault does: find the bytes, map the page.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{Found, PageId};
use aquifer_cache::{Class, SlotId};
use aquifer_log::{ReadError, RecordId};
use aquifer_map::entries::TableFull;
use aquifer_map::{Locked, Place, State};
use aquifer_sys::Backoff;

use crate::context::Context;
use crate::engine::Engine;
use crate::error::FaultError;
use crate::in_place::is_unused;
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
        let page_bytes = self.leaves.page_bytes(page.leaf());
        let class = Class::for_bytes(page_bytes).filter(|_| page_bytes > 0);
        let class = class.ok_or(FaultError::NotAllocated(page))?;
        let is_whole = class == Class::WHOLE;
        let is_likely = access == Access::Read && self.first_writes.is_likely_in_fault(page.leaf(), is_whole);
        let access = if is_likely { Access::MayWrite } else { access };
        let ahead = self.streams.note_in_fault(page);
        if class == Class::WHOLE {
            self.ahead.note_in_fault(page, ahead, self.orders.get(page.leaf()));
            self.unmap_due_in_fault();
        } else {
            self.make_page_room_in_fault(1 + ahead);
        }
        let mut context = self.contexts.take_in_fault();
        let found = self.resolve_page_in_fault(page, page_bytes, class, access, &mut context)?;
        self.map_ahead_in_fault(page, ahead, page_bytes, class, access.ahead(), &mut context);
        Ok(found)
    }

    fn resolve_page_in_fault(
        &self,
        page: PageId,
        page_bytes: usize,
        class: Class,
        access: Access,
        context: &mut Context,
    ) -> Result<Found, FaultError> {
        let locked = self.lock_unused_in_fault(page)?;
        match locked.before() {
            Some(entry) if entry.state() == State::Mapped => self.upgrade_in_fault(page, locked, access),
            Some(entry) => {
                let slot = SlotId(entry.slot().expect("a cached page has a slot"));
                self.counters.hits.add(1);
                self.cache.touch(slot);
                if class == Class::WHOLE {
                    let bytes = self.cache.pointer(slot);
                    self.map_whole_in_fault(page, locked, slot, bytes, access)?;
                } else {
                    self.map_in_fault(page, page_bytes, locked, slot, access, context)?;
                }
                Ok(Found::Ram)
            }
            None if class == Class::WHOLE => self.fill_whole_in_fault(page, locked, access, context),
            None => match self.fill_in_fault(page, page_bytes, class, context) {
                Ok((slot, source)) => {
                    self.count_source(source);
                    self.map_in_fault(page, page_bytes, locked, slot, access, context)?;
                    Ok(source.into())
                }
                Err(error) => {
                    locked.restore();
                    Err(error)
                }
            },
        }
    }

    pub(crate) fn count_source(&self, source: Source) {
        let counter = match source {
            Source::Log => &self.counters.misses,
            Source::Zero => &self.counters.zero_fills,
        };
        counter.add(1);
    }

    /// Takes the page's entry. If the table has no room, one of its rivals leaves first.
    pub(crate) fn lock_in_fault(&self, page: PageId) -> Result<Locked<'_>, FaultError> {
        let (mut backoff, mut wait) = (Backoff::new(), WriterWait::default());
        loop {
            match self.entries.lock(page) {
                Ok(locked) => return Ok(locked),
                Err(TableFull) => self.evict_rival_in_fault(page, &mut wait)?,
            }
            backoff.wait();
        }
    }

    /// As [`Engine::lock_in_fault`], when nobody uses the page in its slot any more.
    fn lock_unused_in_fault(&self, page: PageId) -> Result<Locked<'_>, FaultError> {
        let mut backoff = Backoff::new();
        loop {
            let locked = self.lock_in_fault(page)?;
            if locked.before().is_none_or(is_unused) {
                return Ok(locked);
            }
            locked.restore();
            backoff.wait();
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

    /// A page that is mapped already: another thread was first, or it is the first write to a clean page.
    fn upgrade_in_fault(
        &self,
        page: PageId,
        locked: Locked<'_>,
        access: Access,
    ) -> Result<Found, FaultError> {
        let before = locked.before().expect("the page is mapped");
        if access == Access::Read || before.is_writable() {
            locked.restore();
            self.wake_in_fault(page)?;
            return Ok(Found::Mapped);
        }
        self.counters.faults_write_upgrade.add(1);
        let slot = SlotId(before.slot().expect("a mapped page has a slot"));
        if access == Access::Write {
            self.first_writes.note_write_in_fault(page.leaf(), self.is_whole(page));
        } else if self.is_whole(page) {
            // SAFETY: the page is present and write-protected, so it cannot change.
            let bytes = unsafe { std::slice::from_raw_parts(self.address_of(page), OS_PAGE_BYTES) };
            self.note_digest_in_fault(slot, Some(bytes));
        }
        // SAFETY: the page is mapped and its entry is held, so it stays so.
        let allowed = unsafe { self.uffd.write_protect(self.address_of(page), OS_PAGE_BYTES, false) };
        if let Err(errno) = allowed {
            locked.restore();
            return Err(FaultError::Map { page, errno });
        }
        let entry = locked.entry().mapped(slot.0, true);
        locked.release(entry);
        Ok(Found::FirstWrite)
    }

    /// A thread that sleeps in the kernel for a page that is there already must be told.
    fn wake_in_fault(&self, page: PageId) -> Result<(), FaultError> {
        if self.signal_faults {
            return Ok(());
        }
        self.uffd.wake(self.address_of(page), OS_PAGE_BYTES).map_err(|errno| FaultError::Map { page, errno })
    }

    /// A slot with the bytes of a page that is not in RAM. The caller holds the page's entry.
    pub(crate) fn fill_in_fault(
        &self,
        page: PageId,
        page_bytes: usize,
        class: Class,
        context: &mut Context,
    ) -> Result<(SlotId, Source), FaultError> {
        // The slot comes first: the read may be long, and other faults should find clean slots meanwhile.
        let slot = self.allocate_slot_in_fault(class, page)?;
        // SAFETY: the slot belongs to the page whose entry the caller holds.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.cache.pointer(slot), page_bytes) };
        match self.read_page_in_fault(page, bytes, &mut context.scratch) {
            Ok(source) => Ok((slot, source)),
            Err(error) => {
                self.cache.free(slot);
                Err(error)
            }
        }
    }

    pub(crate) fn allocate_slot_in_fault(&self, class: Class, page: PageId) -> Result<SlotId, FaultError> {
        let (mut backoff, mut wait) = (Backoff::new(), WriterWait::default());
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
            match self.wait_for_writer_in_fault(page, &mut wait) {
                Err(FaultError::Stopped { .. }) if tries_left > 0 => tries_left -= 1,
                waited => waited?,
            }
            backoff.wait();
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

    /// The newest logged version of `page`, or zeros.
    fn read_page_in_fault(
        &self,
        page: PageId,
        out: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<Source, FaultError> {
        match self.read_record_in_fault(page, out.len(), scratch)? {
            Some(range) => {
                out.copy_from_slice(&scratch[range]);
                Ok(Source::Log)
            }
            None => {
                out.fill(0);
                Ok(Source::Zero)
            }
        }
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

    pub(crate) fn map_in_fault(
        &self,
        page: PageId,
        page_bytes: usize,
        locked: Locked<'_>,
        slot: SlotId,
        access: Access,
        context: &mut Context,
    ) -> Result<(), FaultError> {
        let write = access != Access::Read;
        // SAFETY: the slot belongs to the page whose entry we hold, and holds that many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(self.cache.pointer(slot), page_bytes) };
        context.set_page(bytes);
        self.ranges.enter_in_fault(page.leaf());
        let (address, source) = (self.address_of(page), context.page.as_ptr());
        // SAFETY: the page is ours, absent, and its range is not being dropped; the source is a whole page.
        let copied = unsafe { self.uffd.copy(address, source, OS_PAGE_BYTES, !write) };
        if let Err(errno) = copied {
            self.leave_range_in_fault(page.leaf());
            let entry = locked.entry().cached(slot.0);
            locked.release(entry);
            return Err(FaultError::Map { page, errno });
        }
        let entry = locked.entry().mapped(slot.0, write);
        // Queued before the entry is released, so that it is in the queue whenever it is mapped.
        let queued = self.page_buffer.push_in_fault(page);
        locked.release(entry);
        if !queued {
            self.evict_page_in_fault(page);
        }
        Ok(())
    }
}
