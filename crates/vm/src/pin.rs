//! Pages that must stay mapped, so that system calls can use them.

use std::sync::PoisonError;

use aquifer_base::PageId;
use aquifer_cache::Class;
use aquifer_map::State;
use aquifer_sys::SignalsBlocked;

use crate::engine::Engine;
use crate::error::PinError;
use crate::in_place::is_unused;
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
        let mut done = 0;
        while done < count {
            if let Err(error) = self.pin_page(PageId(first.0 + done), (count - done) as usize, limit) {
                for page in first.0..first.0 + done {
                    let _ = self.unpin_page(PageId(page));
                }
                return Err(error);
            }
            done += 1;
        }
        Ok(())
    }

    fn pin_page(&self, page: PageId, wanted: usize, limit: usize) -> Result<(), PinError> {
        {
            let mut pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
            let pinned = pins.len();
            match pins.get_mut(&page.0) {
                Some(count) => {
                    *count += 1;
                    return Ok(());
                }
                None if pinned + wanted > limit => return Err(PinError::TooMany { wanted, pinned, limit }),
                None => {}
            }
        }
        loop {
            self.resolve_for_in_fault(page, Access::MayWrite)?;
            let Some(locked) = self.entries.lock_resident(page) else { continue };
            let before = locked.before().filter(|e| e.state() == State::Mapped && e.is_writable());
            let Some(before) = before else {
                locked.restore();
                continue;
            };
            // The mark and the first count change together, while the entry is held.
            *self.pins.lock().unwrap_or_else(PoisonError::into_inner).entry(page.0).or_insert(0) += 1;
            locked.release(before.with_pinned(true));
            return Ok(());
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

    fn unpin_page(&self, page: PageId) -> Result<(), PinError> {
        // Pinned pages are resident.
        let locked = self.entries.lock_resident(page).ok_or(PinError::NotPinned(page))?;
        let left = self.lower_pin_count(page);
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

    /// Takes one from the pins of a page and returns how many are left; `None` if there were none.
    fn lower_pin_count(&self, page: PageId) -> Option<u32> {
        let mut pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        let count = pins.get_mut(&page.0)?;
        *count -= 1;
        let left = *count;
        if left == 0 {
            pins.remove(&page.0);
        }
        Some(left)
    }

    /// Whether any page of the range is pinned.
    pub fn is_pinned(&self, first: PageId, count: u64) -> bool {
        {
            let pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
            if !pins.is_empty() && (first.0..first.0 + count).any(|page| pins.contains_key(&page)) {
                return true;
            }
        }
        // A single use in a slot stands in the entry only; objects of several pages are not used so.
        count == 1 && self.entries.find(first).is_some_and(|entry| !is_unused(entry))
    }
}
