//! The one way of a page into RAM.
//!
//! 1. Take the page's entry, and look at the page's size while holding it ([`Fill::begin_in_fault`]). A leaf that is taken back
//!    and given out for pages of another size waits for the entry.
//! 2. Find a slot ([`Fill::place_in_fault`]). Only here a fill waits for others: the writer, and evictions.
//! 3. Locate, read and verify the bytes ([`Fill::read_in_fault`]), with a context: who holds one waits for kernel, device and leaves
//!    only, never for an entry or a slot.
//! 4. Publish the page, mapped or cached, which gives the entry back.
//!
//! A fill that is dropped before leaves the page as it was.

mod fresh;

use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{Found, PageId};
use aquifer_cache::SlotId;
use aquifer_map::{Entry, State};
use aquifer_sys::Errno;

use crate::backing::PageSize;
use crate::context::{Context, zeros};
use crate::error::{FaultError, Reason};
use crate::leave::{leave_one_in_fault, note_stale_in_fault};
use crate::pages::Pages;
use crate::patience::Patience;
use crate::residence::{Held, is_unused};
use crate::room;

pub(crate) use fresh::FreshRun;

/// Where the bytes of a page came from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Compressed,
    Log,
    Zero,
}

impl From<Source> for Found {
    fn from(source: Source) -> Self {
        match source {
            Source::Compressed => Self::Ram,
            Source::Log => Self::Flash,
            Source::Zero => Self::Zeros,
        }
    }
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

/// Where the bytes are that a page is mapped with.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Bytes {
    Slot,
    Scratch(Range<usize>),
    Zeros,
}

/// A page whose entry this thread holds, on its way into RAM.
pub(crate) struct Fill<'a> {
    pages: &'a Pages,
    page: PageId,
    size: PageSize,
    /// `None` once the entry was given back.
    held: Option<Held<'a>>,
    /// A slot that the page did not have before.
    slot: Option<SlotId>,
    bytes: Bytes,
}

impl<'a> Fill<'a> {
    /// Takes a page, and waits while another thread holds its entry.
    ///
    /// # Errors
    /// [`FaultError::NotAllocated`]; why there is no room in the table; [`FaultError::Again`] after the patience.
    pub(crate) fn hold_in_fault(
        pages: &'a Pages,
        page: PageId,
        patience: &mut Patience,
    ) -> Result<Self, FaultError> {
        let held = room::hold_in_fault(pages, page, patience)?;
        Self::of(pages, held).ok_or(FaultError::NotAllocated(page))
    }

    /// As [`Fill::hold_in_fault`], when nobody uses the page in its slot any more.
    ///
    /// # Errors
    /// As [`Fill::hold_in_fault`].
    pub(crate) fn begin_in_fault(
        pages: &'a Pages,
        page: PageId,
        patience: &mut Patience,
    ) -> Result<Self, FaultError> {
        loop {
            let fill = Self::hold_in_fault(pages, page, patience)?;
            if fill.before().is_none_or(is_unused) {
                return Ok(fill);
            }
            drop(fill);
            patience.wait_in_fault(page, Reason::Used)?;
        }
    }

    /// Takes a page that is not in RAM, if that needs no waiting.
    pub(crate) fn try_begin(pages: &'a Pages, page: PageId) -> Option<Self> {
        Self::of(pages, pages.residence.try_hold_absent(page)?)
    }

    /// Takes a page that is in its slot and that nobody uses, if that needs no waiting.
    pub(crate) fn try_begin_from_slot(pages: &'a Pages, page: PageId) -> Option<Self> {
        let at_hand = |entry: Entry| entry.state() == State::Cached && is_unused(entry);
        Self::of(pages, pages.residence.try_hold(page, at_hand)?)
    }

    /// `None` if the page's leaf is not given out, or the program may not touch it.
    fn of(pages: &'a Pages, held: Held<'a>) -> Option<Self> {
        // A thread that takes a leaf back or closes pages does so before it looks for entries: it finds this
        // entry, or this thread sees the change.
        fence(Ordering::SeqCst);
        let page = held.page();
        let size = pages.backing.size_of(page.leaf()).filter(|_| !pages.closed.has(page))?;
        Some(Self { pages, page, size, held: Some(held), slot: None, bytes: Bytes::Slot })
    }

    /// Which page.
    pub(crate) fn page(&self) -> PageId {
        self.page
    }

    /// Its size.
    pub(crate) fn size(&self) -> PageSize {
        self.size
    }

    fn held(&self) -> &Held<'a> {
        self.held.as_ref().expect("a fill holds its entry until it is published")
    }

    /// The page's entry as it was.
    pub(crate) fn before(&self) -> Option<Entry> {
        self.held().before()
    }

    /// Whether the page has no slot that its bytes could be used in: it is not in RAM, or compressed.
    pub(crate) fn lacks_slot(&self) -> bool {
        self.before().is_none_or(Entry::is_compressed)
    }

    /// The slot that the page is compressed in.
    fn compressed_slot(&self) -> Option<SlotId> {
        self.before().filter(|before| before.is_compressed()).and_then(Entry::slot).map(SlotId)
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
        self.pages.residence.pointer(self.slot())
    }

    /// Finds a slot for a page that [lacks one](Fill::lacks_slot).
    ///
    /// # Errors
    /// Nothing can leave RAM any more; [`FaultError::Again`] after the patience.
    pub(crate) fn place_in_fault(&mut self, patience: &mut Patience) -> Result<(), FaultError> {
        self.slot = Some(room::allocate_slot_in_fault(self.pages, self.size.class, self.page, patience)?);
        Ok(())
    }

    /// As [`Fill::place_in_fault`], without waiting; false if there is none.
    pub(crate) fn try_place(&mut self) -> bool {
        self.slot = self.pages.residence.allocate_slot(self.size.class, self.page);
        self.slot.is_some()
    }

    /// Finds the newest bytes of a page that lacked a slot.
    ///
    /// # Errors
    /// They cannot be read, or are damaged.
    pub(crate) fn read_in_fault(&mut self, context: &mut Context) -> Result<Source, FaultError> {
        let counters = &self.pages.counters;
        if let Some(compressed) = self.compressed_slot() {
            let (plain, _) = context.scratch.split_first_chunk_mut().expect("there is room for a page");
            self.pages.residence.decompress_in_fault(compressed, plain);
            self.pages.residence.note_decompressed(self.page);
            counters.decompressed.add(1);
            self.bytes = Bytes::Scratch(0..OS_PAGE_BYTES);
            return Ok(Source::Compressed);
        }
        // Neighbours are read while this page is.
        let on_flash = || {
            if self.size.is_whole() {
                self.pages.foresight.note_miss_in_fault(self.page);
            }
        };
        let backing = &self.pages.backing;
        match backing.read_in_fault(self.page, self.size.bytes, &mut context.scratch, on_flash)? {
            Some(range) => {
                counters.misses.add(1);
                self.pages.residence.note_back(self.page);
                // A whole page is at its address or in its slot, never in both.
                if self.size.is_whole() {
                    self.bytes = Bytes::Scratch(range);
                } else {
                    self.write_slot(&context.scratch[range]);
                }
                Ok(Source::Log)
            }
            None => {
                counters.zero_fills.add(1);
                self.clear();
                Ok(Source::Zero)
            }
        }
    }

    /// Puts the page's bytes, all of them, into its slot.
    pub(crate) fn write_slot(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.size.bytes);
        // SAFETY: the slot is the page's, whose entry is held, and has room.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.slot_bytes(), bytes.len()) };
        self.pages.residence.set_has_memory(self.slot(), true);
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
    fn publish(&mut self, entry: impl FnOnce(&Held<'a>) -> Entry) -> Entry {
        let compressed = self.compressed_slot();
        let held = self.held.take().expect("a fill is published once");
        if let Some(compressed) = compressed {
            self.pages.residence.free_slot(compressed);
        }
        let entry = entry(&held);
        held.release(entry)
    }

    /// Publishes the page in its slot; with `used` somebody uses it there from this moment on, to write it if that is true.
    pub(crate) fn publish_cached(mut self, context: &Context, used: Option<bool>) -> SlotId {
        match std::mem::replace(&mut self.bytes, Bytes::Slot) {
            Bytes::Slot => {}
            Bytes::Scratch(range) => self.write_slot(&context.scratch[range]),
            Bytes::Zeros => self.write_slot(zeros()),
        }
        let slot = self.slot();
        self.pages.residence.set_has_memory(slot, true);
        self.publish(|held| {
            let entry = held.entry().cached(slot.0).with_pinned(used.is_some());
            entry.with_dirty(entry.is_dirty() || used == Some(true))
        });
        slot
    }

    /// Publishes a page whose bytes are at its address already: a native one.
    ///
    /// # Errors
    /// The kernel does not bring it in.
    pub(crate) fn publish_native(mut self) -> Result<(), FaultError> {
        let (pages, page) = (self.pages, self.page);
        match pages.mapping.own(page, 1) {
            // A page that the program has protected stays as it is. The thread that protects pages pins them,
            // and makes them the region's own when they are accessible again.
            Ok(()) | Err(Errno::EINVAL) => {}
            Err(errno) => return Err(FaultError::Map { page, errno }),
        }
        pages.mapping.enter_in_fault(page.leaf());
        let slot = self.slot();
        pages.residence.note_digest_in_fault(slot, None);
        self.publish(|held| held.entry().mapped(slot.0, true));
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
        let (pages, page, slot) = (self.pages, self.page, self.slot());
        let write = access != Access::Read;
        // SAFETY: the page is absent, as its entry says; the source is a whole page.
        if let Err(errno) = unsafe { pages.mapping.appear_in_fault(page, context.page.as_ptr(), write) } {
            // It is read already, and its next fault needs no device.
            self.publish(|held| held.entry().cached(slot.0));
            return Err(FaultError::Map { page, errno });
        }
        // Queued before the entry is released, so that it is in the queue whenever it is mapped.
        let queued = pages.residence.push_mapped_in_fault(page);
        self.publish(|held| held.entry().mapped(slot.0, write));
        if !queued {
            leave_one_in_fault(pages, page);
        }
        Ok(())
    }

    fn publish_whole_in_fault(mut self, access: Access, context: &Context) -> Result<(), FaultError> {
        let (pages, page, slot) = (self.pages, self.page, self.slot());
        let bytes = match &self.bytes {
            Bytes::Slot => self.slot_bytes().cast_const(),
            Bytes::Scratch(range) => context.scratch[range.clone()].as_ptr(),
            Bytes::Zeros => zeros().as_ptr(),
        };
        // What is dirty will be written to flash whatever becomes of it at its address.
        let is_dirty = self.before().is_some_and(Entry::is_dirty);
        let write = access != Access::Read || is_dirty;
        let digested = (access == Access::MayWrite && !is_dirty).then(|| {
            // SAFETY: the source is a whole page, and stays as it is while the entry is held.
            unsafe { std::slice::from_raw_parts(bytes, OS_PAGE_BYTES) }
        });
        pages.residence.note_digest_in_fault(slot, digested);
        // SAFETY: the page is absent, as its entry says, or native; the source is a whole page.
        match unsafe { pages.mapping.appear_in_fault(page, bytes, write) } {
            Ok(()) => {}
            // A native page has its bytes at its address.
            Err(Errno::EEXIST) if self.before().is_none() => return self.publish_native(),
            Err(errno) => return Err(FaultError::Map { page, errno }),
        }
        let has_memory = pages.residence.has_memory(slot);
        self.publish(|held| held.entry().mapped(slot.0, write));
        if has_memory {
            note_stale_in_fault(pages, page);
        }
        Ok(())
    }

    /// A page that is mapped already: another thread was first, or it is the first write to a clean page.
    ///
    /// # Errors
    /// The kernel refused.
    pub(crate) fn upgrade_in_fault(mut self, access: Access) -> Result<Found, FaultError> {
        let (pages, page, slot) = (self.pages, self.page, self.slot());
        let refused = |errno| FaultError::Map { page, errno };
        if access == Access::Read || self.before().is_some_and(Entry::is_writable) {
            drop(self);
            pages.mapping.wake_in_fault(page).map_err(refused)?;
            return Ok(Found::Mapped);
        }
        pages.counters.faults_write_upgrade.add(1);
        if access == Access::Write {
            pages.foresight.note_write_in_fault(page.leaf(), self.size.is_whole());
        } else if self.size.is_whole() {
            // SAFETY: the page is present and write-protected, so it cannot change.
            let bytes = unsafe { std::slice::from_raw_parts(pages.mapping.address_of(page), OS_PAGE_BYTES) };
            pages.residence.note_digest_in_fault(slot, Some(bytes));
        }
        // SAFETY: the page is mapped and its entry is held, so it stays so.
        unsafe { pages.mapping.allow_writes_in_fault(page) }.map_err(refused)?;
        self.publish(|held| held.entry().mapped(slot.0, true));
        Ok(Found::FirstWrite)
    }
}

impl Drop for Fill<'_> {
    fn drop(&mut self) {
        if self.held.is_some()
            && let Some(slot) = self.slot
        {
            self.pages.residence.free_slot(slot);
        }
    }
}
