//! Pages that must stay mapped, so that system calls can use them.

use aquifer_base::PageId;
use aquifer_cache::Class;
use aquifer_map::State;
use aquifer_sys::SignalsBlocked;

use crate::engine::Engine;
use crate::error::{FaultError, PinError};
use crate::in_place::is_unused;
use crate::patience::{Patience, Reason};
use crate::resolve::Access;

impl Engine {
    /// Most pages that may be pinned at a time.
    pub fn pin_limit(&self) -> usize {
        (self.page_buffer_units + self.cache.slots(Class::WHOLE)) / 4
    }

    /// Maps `count` pages from `first` writable and keeps them so until [`Engine::unpin`]. Pins nest.
    ///
    /// # Errors
    /// [`PinError`]; no page of the call is pinned then.
    pub fn pin(&self, first: PageId, count: u64) -> Result<(), PinError> {
        self.pin_up_to(first, count, self.pin_limit())
    }

    /// As [`Engine::pin`], with at most `limit` pages pinned.
    pub(crate) fn pin_up_to(&self, first: PageId, count: u64, limit: usize) -> Result<(), PinError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.users_gate.pass_in_fault();
        let mut patience = Patience::of_call();
        for done in 0..count {
            let pinned = self.pin_page(PageId(first.0 + done), (count - done) as usize, limit, &mut patience);
            if let Err(error) = pinned {
                for page in first.0..first.0 + done {
                    let _ = self.unpin_page(PageId(page));
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Pins one page, of `wanted` that are to be. Inside of the gate, with signals blocked.
    pub(crate) fn pin_page(
        &self,
        page: PageId,
        wanted: usize,
        limit: usize,
        patience: &mut Patience,
    ) -> Result<(), PinError> {
        // Some of the others may be pinned already; then there is room for more.
        let room = limit.saturating_sub(wanted - 1);
        loop {
            if let Some(locked) = self.entries.lock_resident(page) {
                let before = locked.before().filter(|e| e.state() == State::Mapped && e.is_writable());
                if let Some(before) = before {
                    let added = self.holds.pins.add(&locked, page, 0, room);
                    locked.release(if added.is_ok() { before.with_pinned(true) } else { before });
                    return added.map_err(|pinned| PinError::TooMany { wanted, pinned, limit });
                }
                locked.restore();
            }
            match self.resolve_for_in_fault(page, Access::MayWrite) {
                Ok(_) => {}
                Err(FaultError::Again { reason: Reason::Room, .. }) => {
                    self.wait_for_room_in_fault(page, patience)?;
                }
                Err(FaultError::Again { reason, .. }) => patience.wait_in_fault(page, reason)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends one pin of each of `count` pages from `first`.
    ///
    /// # Errors
    /// [`PinError::NotPinned`] with the first page that is not; earlier ones are unpinned.
    pub fn unpin(&self, first: PageId, count: u64) -> Result<(), PinError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.users_gate.pass_in_fault();
        (first.0..first.0 + count).try_for_each(|page| self.unpin_page(PageId(page)))
    }

    pub(crate) fn unpin_page(&self, page: PageId) -> Result<(), PinError> {
        // Pinned pages are resident.
        let locked = self.entries.lock_resident(page).ok_or(PinError::NotPinned(page))?;
        let is_mapped = locked.before().is_some_and(|before| before.state() == State::Mapped);
        let left = if is_mapped { self.holds.pins.end(&locked, page, 0) } else { None };
        if left != Some(0) {
            locked.restore();
            return left.map(drop).ok_or(PinError::NotPinned(page));
        }
        let before = locked.before().expect("a resident page has an entry");
        // Whole pages are found by their slots.
        let queued = self.is_whole(page) || self.page_buffer.push_in_fault(page);
        locked.release(before.with_pinned(false));
        if !queued {
            self.evict_page_in_fault(page);
        }
        Ok(())
    }

    /// Whether any page of the range is pinned.
    pub fn is_pinned(&self, first: PageId, count: u64) -> bool {
        if self.holds.pins.has_any(first, count) || self.holds.uses.has_any(first, count) {
            return true;
        }
        // A single use in a slot stands in the entry only; objects of several pages are not used so.
        count == 1 && self.entries.find(first).is_some_and(|entry| !is_unused(entry))
    }
}
