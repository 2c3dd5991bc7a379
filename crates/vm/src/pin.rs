//! Pages that must stay mapped, so that system calls can use them.

use aquifer_base::PageId;
use aquifer_map::State;

use crate::error::{FaultError, PinError, Reason};
use crate::fill::Access;
use crate::leave::leave_one_in_fault;
use crate::pages::Pages;
use crate::patience::Patience;
use crate::residence::is_unused;
use crate::{room, touch};

/// Maps `count` pages from `first` writable and keeps them so, with at most `limit` pages pinned.
///
/// # Errors
/// [`PinError`]; no page of the call is pinned then.
pub(crate) fn pin(pages: &Pages, first: PageId, count: u64, limit: usize) -> Result<(), PinError> {
    let mut patience = Patience::of_call();
    for done in 0..count {
        let wanted = (count - done) as usize;
        if let Err(error) = pin_page(pages, PageId(first.0 + done), wanted, limit, &mut patience) {
            for page in first.0..first.0 + done {
                let _ = unpin_page(pages, PageId(page));
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Pins one page, of `wanted` that are to be.
///
/// # Errors
/// [`PinError`].
pub(crate) fn pin_page(
    pages: &Pages,
    page: PageId,
    wanted: usize,
    limit: usize,
    patience: &mut Patience,
) -> Result<(), PinError> {
    // Some of the others may be pinned already; then there is room for more.
    let room = limit.saturating_sub(wanted - 1);
    loop {
        if let Some(held) = pages.residence.hold_resident(page) {
            let before = held.before().filter(|e| e.state() == State::Mapped && e.is_writable());
            if let Some(before) = before {
                let added = pages.holds.pins.add(held.locked(), page, 0, room);
                held.release(if added.is_ok() { before.with_pinned(true) } else { before });
                return added.map_err(|pinned| PinError::TooMany { wanted, pinned, limit });
            }
        }
        match touch::resolve_in_fault(pages, page, Access::MayWrite) {
            Ok(_) => {}
            Err(FaultError::Again { reason: Reason::Room, .. }) => {
                room::wait_in_fault(pages, page, patience)?
            }
            Err(FaultError::Again { reason, .. }) => patience.wait_in_fault(page, reason)?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends one pin of a page.
///
/// # Errors
/// [`PinError::NotPinned`].
pub(crate) fn unpin_page(pages: &Pages, page: PageId) -> Result<(), PinError> {
    // Pinned pages are resident.
    let held = pages.residence.hold_resident(page).ok_or(PinError::NotPinned(page))?;
    let mapped = held.before().filter(|before| before.state() == State::Mapped);
    let before = mapped.ok_or(PinError::NotPinned(page))?;
    let left = pages.holds.pins.end(held.locked(), page, 0);
    if left != Some(0) {
        return left.map(drop).ok_or(PinError::NotPinned(page));
    }
    // Whole pages are found by their slots.
    let queued = pages.is_whole(page) || pages.residence.push_mapped_in_fault(page);
    held.release(before.with_pinned(false));
    if !queued {
        leave_one_in_fault(pages, page);
    }
    Ok(())
}

/// Whether any page of the range is pinned, or in use in its slot.
pub(crate) fn is_pinned(pages: &Pages, first: PageId, count: u64) -> bool {
    if pages.holds.pins.has_any(first, count) || pages.holds.uses.has_any(first, count) {
        return true;
    }
    // A single use in a slot stands in the entry only; objects of several pages are not used so.
    count == 1 && pages.residence.find(first).is_some_and(|entry| !is_unused(entry))
}
