//! What a fault does: find the bytes, map the page.

use aquifer_base::{Found, PageId};
use aquifer_map::{Place, State};

use crate::backing::PageSize;
use crate::context::Context;
use crate::error::FaultError;
use crate::fill::{Access, Fill, FreshRun};
use crate::pages::Pages;
use crate::patience::Patience;
use crate::residence::may_leave;
use crate::room;

/// Small pages that one fault maps along are one part in `ALONG_SHARE` of the page buffer at most.
const ALONG_SHARE: usize = 16;

impl Access {
    pub(crate) fn of(write: bool) -> Self {
        if write { Self::Write } else { Self::Read }
    }

    /// That of the pages behind, which nobody asked for yet.
    fn ahead(self) -> Self {
        if self == Self::Read { self } else { Self::MayWrite }
    }
}

/// Makes `page` accessible.
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
pub(crate) fn resolve_in_fault(pages: &Pages, page: PageId, access: Access) -> Result<Found, FaultError> {
    pages.counters.faults.add(1);
    // For decisions only: the fill looks at it again.
    let size = pages.backing.size_of(page.leaf()).filter(|_| !pages.closed.has(page));
    let size = size.ok_or(FaultError::NotAllocated(page))?;
    let is_likely =
        access == Access::Read && pages.foresight.is_write_likely_in_fault(page.leaf(), size.is_whole());
    let access = if is_likely { Access::MayWrite } else { access };
    let mut along = pages.foresight.note_in_fault(page, size.is_whole());
    if size.is_whole() {
        room::unmap_due_in_fault(pages);
    } else {
        // The page buffer may have room for few.
        along = along.min(pages.residence.page_buffer_units() / ALONG_SHARE);
        room::make_for_small_in_fault(pages, 1 + along);
    }
    let mut patience = Patience::of_fault();
    let mut fill = Fill::begin_in_fault(pages, page, &mut patience)?;
    let size = fill.size();
    if fill.before().is_some_and(|entry| entry.state() == State::Mapped) {
        let found = fill.upgrade_in_fault(access)?;
        if along > 0 {
            let mut context = pages.contexts.take_in_fault();
            map_along_in_fault(pages, page, along, size, access.ahead(), &mut context);
        }
        return Ok(found);
    }
    let lacks_slot = fill.lacks_slot();
    if lacks_slot {
        fill.place_in_fault(&mut patience)?;
    }
    let mut context = pages.contexts.take_in_fault();
    let found = if lacks_slot {
        fill.read_in_fault(&mut context)?.into()
    } else {
        pages.counters.hits.add(1);
        if pages.residence.touch(fill.slot()) {
            pages.foresight.note_ahead_used_in_fault(page);
        }
        Found::Ram
    };
    fill.publish_mapped_in_fault(access, &mut context)?;
    map_along_in_fault(pages, page, along, size, access.ahead(), &mut context);
    Ok(found)
}

/// Maps up to `count` pages behind `page` that are at hand: in the cache, or never written. Stops at the
/// first that is neither, nor mapped. A page that turns out not to be written is clean when it leaves.
fn map_along_in_fault(
    pages: &Pages,
    page: PageId,
    count: usize,
    size: PageSize,
    access: Access,
    context: &mut Context,
) {
    let mut fresh = FreshRun::new(access);
    let mut map_in_fault = |next: PageId| match pages.residence.find(next) {
        Some(entry) if may_leave(entry) => true,
        Some(_) => {
            // One page is held at a time, but for those that are fresh.
            fresh.publish_in_fault();
            let fill = take_from_slot_in_fault(pages, next, context).filter(|fill| fill.size() == size);
            fill.is_some_and(|fill| fill.publish_mapped_in_fault(access, context).is_ok())
        }
        None => {
            let fill = take_unwritten_in_fault(pages, next, context).filter(|fill| fill.size() == size);
            fill.map(|fill| fresh.push_in_fault(fill)).is_some()
        }
    };
    let behind = (page.0 + 1..=page.0 + count as u64).map(PageId);
    let along = behind.take_while(|&next| map_in_fault(next)).count();
    fresh.publish_in_fault();
    if along > 0 {
        pages.foresight.note_along_in_fault(page, along);
    }
}

fn take_from_slot_in_fault<'a>(pages: &'a Pages, page: PageId, context: &mut Context) -> Option<Fill<'a>> {
    let mut fill = Fill::try_begin_from_slot(pages, page)?;
    if fill.lacks_slot() {
        return (fill.try_place() && fill.read_in_fault(context).is_ok()).then_some(fill);
    }
    // A whole page on trial is not used by this: it only needs no fault of its own.
    if !fill.size().is_whole() {
        pages.residence.touch(fill.slot());
    }
    Some(fill)
}

/// Takes a page that was never written.
fn take_unwritten_in_fault<'a>(pages: &'a Pages, page: PageId, context: &mut Context) -> Option<Fill<'a>> {
    // A native page has its bytes already, and would take a slot.
    if pages.natives.any() || !pages.backing.leaves().is_at_hand(page.leaf()) {
        return None;
    }
    // The page may belong to no object, and its leaf may be taken back just now.
    let mut fill = Fill::try_begin(pages, page)?;
    let place = pages.backing.locate_in_fault(page, &mut context.scratch);
    if place != Ok(Place::ZERO) || !fill.try_place() {
        return None;
    }
    fill.clear();
    Some(fill)
}

#[cfg(test)]
mod tests;
