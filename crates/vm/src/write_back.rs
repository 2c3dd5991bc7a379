//! Pages of one leaf, written side by side: the leaf changes once for all of them. Shared by the log's two ends.

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{LeafId, PageId};
use aquifer_log::record::{lone_record_bytes, records_in};
use aquifer_log::{AppendError, Head, Kind, RecordId};
use aquifer_map::Place;
use aquifer_map::leaves::LEAF_RECORD_BYTES_MAX;

use crate::pages::Pages;
use crate::residence::{Held, may_be_written};

pub(crate) const ROOM: &str = "room was made for the leaf";

/// Makes room for pages of `page_bytes` of one leaf, and for the leaf; returns how many the block takes, at least one.
///
/// # Errors
/// The log has stopped, or is full.
pub(crate) fn make_room(head: &mut Head, page_bytes: usize) -> Result<usize, AppendError> {
    head.make_room(Kind::Leaf, LEAF_RECORD_BYTES_MAX)?;
    let kind = Kind::of_page(page_bytes);
    head.make_room(kind, lone_record_bytes(page_bytes))?;
    Ok(records_in(head.room_bytes(kind), page_bytes))
}

/// Takes a page if it may be written now.
pub(crate) fn try_hold(pages: &Pages, page: PageId) -> Option<Held<'_>> {
    pages.residence.try_hold(page, may_be_written)
}

/// Adds up to `limit` dirty cold pages of `leaf` that may be written now to `dirty`.
pub(crate) fn collect(pages: &Pages, leaf: LeafId, limit: usize, dirty: &mut Vec<PageId>) {
    let mut left = limit;
    pages.residence.for_each_of_leaf(leaf, &mut |page, entry| {
        let slot = entry.slot().filter(|_| may_be_written(entry));
        if left > 0 && slot.is_some_and(|slot| pages.residence.is_cold(aquifer_cache::SlotId(slot))) {
            dirty.push(page);
            left -= 1;
        }
    });
}

/// Appends the bytes of a cached page, for which `head` has room; where they are then. A page of zeros needs no record.
pub(crate) fn append(held: &Held<'_>, page_bytes: usize, head: &mut Head) -> Place {
    let mut plain = [0; OS_PAGE_BYTES];
    // SAFETY: the slot has room for the page's bytes, if they are not compressed.
    let bytes = unsafe { held.bytes(page_bytes, &mut plain) };
    if bytes.iter().all(|&byte| byte == 0) {
        return Place::ZERO;
    }
    Place::exact(head.append(RecordId::of_page(held.page().0, page_bytes), bytes))
}

/// Gives back a page whose bytes were appended, as clean.
pub(crate) fn release_written(pages: &Pages, held: Held<'_>, page_bytes: usize) {
    held.release_clean();
    pages.counters.objects_written.add(1);
    pages.counters.objects_written_bytes.add(page_bytes as u64);
}
