//! The one way of a page into RAM.
//!
//! 1. Take the page's entry, and look at the page's size while holding it ([`Engine::begin_fill_in_fault`]). A leaf that is taken back
//!    and given out for pages of another size waits for the entry.
//! 2. Find a slot ([`Fill::place_in_fault`]). Only here a fill waits for others: the writer, and evictions.
//! 3. Locate, read and verify the bytes ([`Fill::read_in_fault`]), with a context: who holds one waits for kernel, device and leaves
//!    only, never for an entry or a slot.
//! 4. Publish the page, mapped or cached, which gives the entry back.
//!
//! A fill that is dropped before leaves the page as it was.

use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{LeafId, PageId};
use aquifer_cache::{Class, SlotId};
use aquifer_map::{Entry, Locked, State};
use aquifer_sys::Errno;

use crate::context::Context;
use crate::engine::Engine;
use crate::error::FaultError;
use crate::in_place::is_unused;
use crate::patience::{Patience, Reason};
use crate::resolve::{Access, Source};
use crate::whole_pages::zeros;

/// Bytes of a leaf's pages, and the class of slots that holds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageSize {
    pub(crate) bytes: usize,
    pub(crate) class: Class,
}

impl PageSize {
    pub(crate) fn is_whole(self) -> bool {
        self.class == Class::WHOLE
    }
}

/// Where the bytes are that a page is mapped with.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Bytes {
    Slot,
    Scratch(Range<usize>),
    Zeros,
}

/// A page whose entry this thread holds, on its way into RAM.
pub(crate) struct Fill<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) page: PageId,
    pub(crate) size: PageSize,
    /// `None` once the entry was given back.
    locked: Option<Locked<'a>>,
    /// A slot that the page did not have before.
    slot: Option<SlotId>,
    bytes: Bytes,
}

impl Engine {
    /// The size of a leaf's pages; `None` if it is not given out. It stays as it is while an entry of the leaf is held.
    pub(crate) fn size_of(&self, leaf: LeafId) -> Option<PageSize> {
        let bytes = self.leaves.page_bytes(leaf);
        Class::for_bytes(bytes).filter(|_| bytes > 0).map(|class| PageSize { bytes, class })
    }

    /// Takes a page, waiting for whoever holds its entry.
    ///
    /// # Errors
    /// [`FaultError::NotAllocated`]; why there is no room in the table; [`FaultError::Again`] after the patience.
    pub(crate) fn hold_in_fault(
        &self,
        page: PageId,
        patience: &mut Patience,
    ) -> Result<Fill<'_>, FaultError> {
        let locked = self.lock_in_fault(page, patience)?;
        Fill::of(self, page, locked).ok_or(FaultError::NotAllocated(page))
    }

    /// As [`Engine::hold_in_fault`], when nobody uses the page in its slot any more.
    ///
    /// # Errors
    /// As [`Engine::hold_in_fault`].
    pub(crate) fn begin_fill_in_fault(
        &self,
        page: PageId,
        patience: &mut Patience,
    ) -> Result<Fill<'_>, FaultError> {
        loop {
            let fill = self.hold_in_fault(page, patience)?;
            if fill.before().is_none_or(is_unused) {
                return Ok(fill);
            }
            drop(fill);
            patience.wait_in_fault(page, Reason::Used)?;
        }
    }

    /// Takes a page that is not in RAM, if that needs no waiting.
    pub(crate) fn try_begin_fill(&self, page: PageId) -> Option<Fill<'_>> {
        Fill::of(self, page, self.entries.try_insert(page)?)
    }

    /// Takes a page that is in its slot and that nobody uses, if that needs no waiting.
    pub(crate) fn try_begin_from_slot(&self, page: PageId) -> Option<Fill<'_>> {
        let at_hand = |entry: Entry| entry.state() == State::Cached && is_unused(entry);
        Fill::of(self, page, self.entries.try_lock_if(page, at_hand)?)
    }
}

impl<'a> Fill<'a> {
    /// `None` if the page's leaf is not given out.
    fn of(engine: &'a Engine, page: PageId, locked: Locked<'a>) -> Option<Self> {
        // Who takes a leaf back changes its size and then looks for entries: either it sees this one or we see the new size.
        fence(Ordering::SeqCst);
        match engine.size_of(page.leaf()) {
            Some(size) => {
                Some(Self { engine, page, size, locked: Some(locked), slot: None, bytes: Bytes::Slot })
            }
            None => {
                locked.restore();
                None
            }
        }
    }

    fn locked(&self) -> &Locked<'a> {
        self.locked.as_ref().expect("a fill holds its entry until it is published")
    }

    /// The page's entry as it was.
    pub(crate) fn before(&self) -> Option<Entry> {
        self.locked().before()
    }

    /// The page's slot.
    ///
    /// # Panics
    /// If it has none yet.
    pub(crate) fn slot(&self) -> SlotId {
        let before = || self.before().and_then(Entry::slot).map(SlotId);
        self.slot.or_else(before).expect("a page in RAM has a slot, and others get one before they are read")
    }

    fn slot_bytes(&self) -> *mut u8 {
        self.engine.cache.pointer(self.slot())
    }

    /// Finds a slot for a page that is not in RAM.
    ///
    /// # Errors
    /// Nothing can leave RAM any more; [`FaultError::Again`] after the patience.
    pub(crate) fn place_in_fault(&mut self, patience: &mut Patience) -> Result<(), FaultError> {
        self.slot = Some(self.engine.allocate_slot_in_fault(self.size.class, self.page, patience)?);
        Ok(())
    }

    /// As [`Fill::place_in_fault`], without waiting; false if there is none.
    pub(crate) fn try_place(&mut self) -> bool {
        self.slot = self.engine.cache.allocate(self.size.class, self.page, &self.engine.entries);
        self.slot.is_some()
    }

    /// Finds the newest bytes of a page that is not in RAM.
    ///
    /// # Errors
    /// They cannot be read, or are damaged.
    pub(crate) fn read_in_fault(&mut self, context: &mut Context) -> Result<Source, FaultError> {
        let read = self.engine.read_record_in_fault(self.page, self.size.bytes, &mut context.scratch)?;
        let source = if read.is_some() { Source::Log } else { Source::Zero };
        self.engine.count_source(source);
        match read {
            // A whole page is at its address or in its slot, never in both.
            Some(range) if self.size.is_whole() => self.bytes = Bytes::Scratch(range),
            Some(range) => self.write_slot(&context.scratch[range]),
            None => self.clear(),
        }
        Ok(source)
    }

    /// Puts the page's bytes, all of them, into its slot.
    pub(crate) fn write_slot(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.size.bytes);
        // SAFETY: the slot is the page's, whose entry is held, and has room.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.slot_bytes(), bytes.len()) };
        self.engine.cache.set_has_memory(self.slot(), true);
        self.bytes = Bytes::Slot;
    }

    /// The page's bytes are zeros.
    pub(crate) fn clear(&mut self) {
        if self.size.is_whole() {
            self.bytes = Bytes::Zeros;
            return;
        }
        // SAFETY: the slot is the page's, whose entry is held, and has room.
        unsafe { std::ptr::write_bytes(self.slot_bytes(), 0, self.size.bytes) };
    }

    /// Gives the entry back.
    pub(crate) fn publish(&mut self, entry: impl FnOnce(&Locked<'a>) -> Entry) -> Entry {
        let locked = self.locked.take().expect("a fill is published once");
        let entry = entry(&locked);
        locked.release(entry);
        entry
    }

    /// Publishes the page in its slot; with `used` somebody uses it there from this moment on, to write it if that is true.
    pub(crate) fn publish_cached(mut self, context: &Context, used: Option<bool>) -> SlotId {
        match std::mem::replace(&mut self.bytes, Bytes::Slot) {
            Bytes::Slot => {}
            Bytes::Scratch(range) => self.write_slot(&context.scratch[range]),
            Bytes::Zeros => {
                // SAFETY: a page of zeros.
                self.write_slot(unsafe { std::slice::from_raw_parts(zeros(), OS_PAGE_BYTES) });
            }
        }
        let slot = self.slot();
        self.engine.cache.set_has_memory(slot, true);
        let is_written = used == Some(true);
        let entry = self.publish(|locked| {
            let entry = locked.entry().cached(slot.0).with_pinned(used.is_some());
            entry.with_dirty(entry.is_dirty() || is_written)
        });
        if is_written && entry.is_dirty() {
            self.engine.dirty.fetch_add(1, Ordering::Relaxed);
        }
        slot
    }

    /// Publishes a page whose bytes are at its address already: a native one.
    ///
    /// # Errors
    /// The kernel does not bring it in.
    pub(crate) fn publish_native(mut self) -> Result<(), FaultError> {
        self.engine.own_page(self.page)?;
        self.engine.ranges.enter_in_fault(self.page.leaf());
        let slot = self.slot();
        self.engine.note_digest_in_fault(slot, None);
        self.publish(|locked| locked.entry().mapped(slot.0, true));
        Ok(())
    }

    /// Publishes the page at its address.
    ///
    /// # Errors
    /// The kernel refused; the page is in its slot, if it has its bytes there.
    pub(crate) fn publish_mapped_in_fault(
        self,
        access: Access,
        context: &mut Context,
    ) -> Result<(), FaultError> {
        if self.size.is_whole() {
            return self.publish_whole_in_fault(access, context);
        }
        // SAFETY: the slot is the page's, whose entry is held, and holds that many bytes.
        context.set_page(unsafe { std::slice::from_raw_parts(self.slot_bytes(), self.size.bytes) });
        self.publish_small_in_fault(access, context)
    }

    fn publish_small_in_fault(mut self, access: Access, context: &Context) -> Result<(), FaultError> {
        let (engine, page, slot) = (self.engine, self.page, self.slot());
        let write = access != Access::Read;
        if let Err(errno) = self.map_in_fault(context.page.as_ptr(), write) {
            // It is read already, and its next fault needs no device.
            self.publish(|locked| locked.entry().cached(slot.0));
            return Err(FaultError::Map { page, errno });
        }
        // Queued before the entry is released, so that it is in the queue whenever it is mapped.
        let queued = engine.page_buffer.push_in_fault(page);
        self.publish(|locked| locked.entry().mapped(slot.0, write));
        if !queued {
            engine.evict_page_in_fault(page);
        }
        Ok(())
    }

    fn publish_whole_in_fault(mut self, access: Access, context: &Context) -> Result<(), FaultError> {
        let (engine, page, slot) = (self.engine, self.page, self.slot());
        let bytes = match &self.bytes {
            Bytes::Slot => self.slot_bytes().cast_const(),
            Bytes::Scratch(range) => context.scratch[range.clone()].as_ptr(),
            Bytes::Zeros => zeros(),
        };
        // What is dirty will be written to flash whatever becomes of it at its address.
        let is_dirty = self.before().is_some_and(Entry::is_dirty);
        let write = access != Access::Read || is_dirty;
        let digested = (access == Access::MayWrite && !is_dirty).then(|| {
            // SAFETY: the source is a whole page, and stays as it is while the entry is held.
            unsafe { std::slice::from_raw_parts(bytes, OS_PAGE_BYTES) }
        });
        engine.note_digest_in_fault(slot, digested);
        match self.map_in_fault(bytes, write) {
            Ok(()) => {}
            // A native page has its bytes at its address.
            Err(Errno::EEXIST) if self.before().is_none() => return self.publish_native(),
            Err(errno) => return Err(FaultError::Map { page, errno }),
        }
        let has_memory = engine.cache.has_memory(slot);
        self.publish(|locked| locked.entry().mapped(slot.0, write));
        if has_memory {
            engine.note_stale_in_fault(page);
        }
        Ok(())
    }

    /// Has the kernel map a copy of a whole page.
    fn map_in_fault(&self, bytes: *const u8, write: bool) -> Result<(), Errno> {
        let leaf = self.page.leaf();
        self.engine.ranges.enter_in_fault(leaf);
        let address = self.engine.address_of(self.page);
        // SAFETY: the page is the region's and absent, and its range is not being dropped; the source is a whole page.
        let copied = unsafe { self.engine.uffd.copy(address, bytes, OS_PAGE_BYTES, !write) };
        copied.inspect_err(|_| self.engine.leave_range_in_fault(leaf))
    }
}

impl Drop for Fill<'_> {
    fn drop(&mut self) {
        if let Some(locked) = self.locked.take() {
            if let Some(slot) = self.slot {
                self.engine.cache.free(slot);
            }
            locked.restore();
        }
    }
}
