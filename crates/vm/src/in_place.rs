//! Objects that are used where they are in the cache: no fault, no copy.
//!
//! A reference is counted in the entry itself while there is one, by the pinned flag, so that taking and releasing it is
//! one exchange of a word each. Further ones at the same time are counted in a book ([`Holds`](crate::holds::Holds)), and the entry says so. A page that
//! is mapped is pinned at its address, and used there.
//!
//! As long as a page is referenced in its slot, faults on its address wait: there is one copy at any time.

use std::sync::atomic::Ordering;

use aquifer_base::PageId;
use aquifer_cache::SlotId;
use aquifer_map::{Entry, State};
use aquifer_sys::SignalsBlocked;

use crate::engine::Engine;
use crate::error::{FaultError, PinError};
use crate::patience::{Patience, Reason};

/// Whether nobody uses the page in its slot.
pub(crate) fn is_unused(entry: Entry) -> bool {
    entry.state() != State::Cached || !entry.is_pinned()
}

impl Engine {
    /// Where the bytes of `page` can be read, and with `write` written, until [`Engine::end_use`]. Uses nest.
    ///
    /// # Errors
    /// [`PinError`]; nothing is held then.
    ///
    /// # Context
    /// Blocks on the device if the page is not in RAM. A thread that uses a page must not touch its address meanwhile.
    #[inline]
    pub fn begin_use(&self, page: PageId, write: bool) -> Result<*mut u8, PinError> {
        match self.try_first_use(page, write) {
            Some(bytes) => Ok(bytes),
            None => self.begin_use_slowly(page, write),
        }
    }

    /// Uses a page that is in its slot and that nobody uses.
    #[inline]
    fn try_first_use(&self, page: PageId, write: bool) -> Option<*mut u8> {
        let first_use = |entry: Entry| {
            let is_free = entry.state() == State::Cached && !entry.is_pinned();
            is_free.then(|| entry.with_pinned(true).with_dirty(entry.is_dirty() || write))
        };
        self.entries.exchange(page, first_use).map(|(before, after)| self.slot_of(before, after))
    }

    #[inline]
    fn slot_of(&self, before: Entry, after: Entry) -> *mut u8 {
        if after.is_dirty() && !before.is_dirty() {
            self.dirty.fetch_add(1, Ordering::Relaxed);
        }
        let slot = SlotId(before.slot().expect("a cached page has a slot"));
        self.cache.touch(slot);
        self.cache.pointer(slot)
    }

    #[cold]
    fn begin_use_slowly(&self, page: PageId, write: bool) -> Result<*mut u8, PinError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.users_gate.pass_in_fault();
        let mut patience = Patience::of_call();
        loop {
            let state = self.entries.find(page).map(|entry| (entry.state(), entry.is_pinned()));
            match state {
                None => {
                    if let Some(bytes) = self.bring_in(page, write, &mut patience)? {
                        return Ok(bytes);
                    }
                }
                Some((State::Mapped, _)) => {
                    // It may leave its address meanwhile; then it is mapped again, which is slow and right.
                    self.pin_page(page, 1, self.pin_limit(), &mut patience)?;
                    return Ok(self.address_of(page));
                }
                Some((State::Cached, false)) => {
                    if let Some(bytes) = self.try_first_use(page, write) {
                        return Ok(bytes);
                    }
                }
                Some((State::Cached, true)) => {
                    if let Some(pointer) = self.share_use(page, write) {
                        return Ok(pointer);
                    }
                }
                Some((State::Moving, _)) => {}
            }
            patience.wait_in_fault(page, Reason::Moving)?;
        }
    }

    /// One more use of a page that is in use in its slot.
    fn share_use(&self, page: PageId, write: bool) -> Option<*mut u8> {
        let locked = self.entries.try_lock_if(page, |e| e.state() == State::Cached && e.is_pinned())?;
        let before = locked.before()?;
        let _ = self.holds.uses.add(&locked, page, 1, usize::MAX);
        let after = before.with_shared(true).with_dirty(before.is_dirty() || write);
        locked.release(after);
        Some(self.slot_of(before, after))
    }

    /// Brings a page into the cache, not to its address, and uses it there; `None` if another thread was first.
    fn bring_in(
        &self,
        page: PageId,
        write: bool,
        patience: &mut Patience,
    ) -> Result<Option<*mut u8>, FaultError> {
        self.unmap_due_in_fault();
        // Whoever was first may use it by now: then it is shared, not waited for.
        let mut fill = self.hold_in_fault(page, patience)?;
        if fill.before().is_some() {
            return Ok(None);
        }
        fill.place_in_fault(patience)?;
        let mut context = self.contexts.take_in_fault();
        fill.read_in_fault(&mut context)?;
        let slot = fill.publish_cached(&context, Some(write));
        Ok(Some(self.cache.pointer(slot)))
    }

    /// Ends one use of a page.
    ///
    /// # Errors
    /// [`PinError::NotPinned`].
    #[inline]
    pub fn end_use(&self, page: PageId) -> Result<(), PinError> {
        let only_use = |entry: Entry| {
            let is_only = entry.state() == State::Cached && entry.is_pinned() && !entry.is_shared();
            is_only.then(|| entry.with_pinned(false))
        };
        match self.entries.exchange(page, only_use) {
            Some(_) => Ok(()),
            None => self.end_use_slowly(page),
        }
    }

    #[cold]
    fn end_use_slowly(&self, page: PageId) -> Result<(), PinError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.users_gate.pass_in_fault();
        let locked = self.entries.lock_resident(page).ok_or(PinError::NotPinned(page))?;
        let before = locked.before().ok_or(PinError::NotPinned(page))?;
        if before.state() == State::Mapped {
            locked.restore();
            return self.unpin_page(page);
        }
        if !before.is_pinned() {
            locked.restore();
            return Err(PinError::NotPinned(page));
        }
        if !before.is_shared() {
            locked.release(before.with_pinned(false));
            return Ok(());
        }
        let left = self.holds.uses.end(&locked, page, 1);
        locked.release(if left.is_none_or(|left| left <= 1) { before.with_shared(false) } else { before });
        Ok(())
    }
}
