//! Objects that are used where they are in the cache: no fault, no copy.
//!
//! A reference is counted in the entry itself while there is one, by the pinned flag, so that taking and releasing it is
//! one exchange of a word each. Further ones at the same time are counted in a book ([`Holds`](crate::holds::Holds)), and the entry says so. A page that
//! is mapped is pinned at its address, and used there.
//!
//! As long as a page is referenced in its slot, faults on its address wait: there is one copy at any time.

use aquifer_base::PageId;
use aquifer_map::State;
use aquifer_sys::SignalsBlocked;

use crate::error::{FaultError, PinError, Reason};
use crate::fill::Fill;
use crate::gate::Gates;
use crate::pages::Pages;
use crate::patience::Patience;
use crate::{pin, room};

/// Where the bytes of `page` can be read, and with `write` written, until [`end`].
///
/// # Errors
/// [`PinError`]; nothing is held then.
#[inline]
pub(crate) fn begin(pages: &Pages, gates: &Gates, page: PageId, write: bool) -> Result<*mut u8, PinError> {
    match pages.residence.try_use(page, write) {
        Some(bytes) => Ok(bytes),
        None => begin_slowly(pages, gates, page, write),
    }
}

/// Ends one use of a page.
///
/// # Errors
/// [`PinError::NotPinned`].
#[inline]
pub(crate) fn end(pages: &Pages, gates: &Gates, page: PageId) -> Result<(), PinError> {
    if pages.residence.try_end_use(page) { Ok(()) } else { end_slowly(pages, gates, page) }
}

#[cold]
fn begin_slowly(pages: &Pages, gates: &Gates, page: PageId, write: bool) -> Result<*mut u8, PinError> {
    let _signals = SignalsBlocked::new();
    let _pass = gates.pass_in_fault();
    begin_use(pages, page, write)
}

#[cold]
fn end_slowly(pages: &Pages, gates: &Gates, page: PageId) -> Result<(), PinError> {
    let _signals = SignalsBlocked::new();
    let _pass = gates.pass_in_fault();
    end_use(pages, page)
}

/// Begins the use of a page that cannot be used by a mere exchange of its entry.
fn begin_use(pages: &Pages, page: PageId, write: bool) -> Result<*mut u8, PinError> {
    let mut patience = Patience::of_call();
    loop {
        let entry = pages.residence.find(page).filter(|entry| !entry.is_compressed());
        match entry.map(|entry| (entry.state(), entry.is_pinned())) {
            None => {
                if let Some(bytes) = bring_in(pages, page, write, &mut patience)? {
                    return Ok(bytes);
                }
            }
            Some((State::Mapped, _)) => {
                // It may leave its address meanwhile; then it is mapped again, which is slow and right.
                pin::pin_page(pages, page, 1, pages.residence.pin_limit(), &mut patience)?;
                return Ok(pages.mapping.address_of(page));
            }
            Some((State::Cached, false)) => {
                if let Some(bytes) = pages.residence.try_use(page, write) {
                    return Ok(bytes);
                }
            }
            Some((State::Cached, true)) => {
                if let Some(pointer) = share_use(pages, page, write) {
                    return Ok(pointer);
                }
            }
            Some((State::Moving, _)) => {}
        }
        patience.wait_in_fault(page, Reason::Moving)?;
    }
}

/// One more use of a page that is in use in its slot.
fn share_use(pages: &Pages, page: PageId, write: bool) -> Option<*mut u8> {
    let held = pages.residence.try_hold(page, |e| e.state() == State::Cached && e.is_pinned())?;
    let before = held.before()?;
    let slot = held.slot();
    let _ = pages.holds.uses.add(held.locked(), page, 1, usize::MAX);
    held.release(before.with_shared(true).with_dirty(before.is_dirty() || write));
    pages.residence.touch(slot);
    Some(pages.residence.pointer(slot))
}

/// Brings a page that is not in RAM, or compressed, into the cache, not to its address, and uses it there; `None` if another thread was first.
fn bring_in(
    pages: &Pages,
    page: PageId,
    write: bool,
    patience: &mut Patience,
) -> Result<Option<*mut u8>, FaultError> {
    room::unmap_due_in_fault(pages);
    // Another thread may have brought the page in and use it: then the use is shared, not waited for.
    let mut fill = Fill::hold_in_fault(pages, page, patience)?;
    if !fill.lacks_slot() {
        return Ok(None);
    }
    fill.place_in_fault(patience)?;
    let mut context = pages.contexts.take_in_fault();
    fill.read_in_fault(&mut context)?;
    let slot = fill.publish_cached(&context, Some(write));
    Ok(Some(pages.residence.pointer(slot)))
}

/// Ends one use of a page, which may be one of several or a pin at its address.
fn end_use(pages: &Pages, page: PageId) -> Result<(), PinError> {
    let held = pages.residence.hold_resident(page).ok_or(PinError::NotPinned(page))?;
    let before = held.before().ok_or(PinError::NotPinned(page))?;
    if before.state() == State::Mapped {
        drop(held);
        return pin::unpin_page(pages, page);
    }
    if !before.is_pinned() {
        return Err(PinError::NotPinned(page));
    }
    if !before.is_shared() {
        held.release(before.with_pinned(false));
        return Ok(());
    }
    let left = pages.holds.uses.end(held.locked(), page, 1);
    held.release(if left.is_none_or(|left| left <= 1) { before.with_shared(false) } else { before });
    Ok(())
}
