//! Pages that are freed: gone from RAM and garbage on flash at once.

use std::sync::atomic::{Ordering, fence};

use aquifer_base::limits::LEAF_PAGES;
use aquifer_base::{LeafId, PageId};
use aquifer_device::AlignedBuffer;
use aquifer_map::leaves::{NoRoom, SCRATCH_BYTES};
use aquifer_map::{Place, State};
use aquifer_sys::Backoff;

use crate::backing::WriterWait;
use crate::error::FaultError;
use crate::leaf_pages::LeafPages;
use crate::pages::Pages;
use crate::residence::Held;
use crate::{room, takeover};

/// Frees `count` pages from `first`: they read as zeros when they are given out again.
///
/// # Errors
/// A leaf could not be read or changed; pages of earlier leaves are freed, those of that leaf and later
/// ones are as before.
pub(crate) fn release(pages: &Pages, first: PageId, count: u64) -> Result<(), FaultError> {
    takeover::forget_natives(pages, first, count)?;
    let end = first.0 + count;
    let mut page = first;
    while page.0 < end {
        let leaf_end = page.leaf().page(0).0 + LEAF_PAGES as u64;
        let part = leaf_end.min(end) - page.0;
        release_in_leaf(pages, page.leaf(), &(page.index()..page.index() + part as usize).collect())?;
        page = PageId(page.0 + part);
    }
    Ok(())
}

/// Takes a leaf back of which no page is in use. Walks map pages along that belong to no object; they
/// go too, before the leaf is given out for pages of another size. So do records of what a program wrote to
/// objects after it had freed them: later pages of another size would be looked for there.
///
/// # Errors
/// There are such records and the leaf cannot be read or changed; then it must not be given out again.
pub(crate) fn take_back_leaf(pages: &Pages, leaf: LeafId) -> Result<(), FaultError> {
    let leaves = pages.backing.leaves();
    let all = (0..LEAF_PAGES).collect();
    if !leaves.is_empty(leaf) {
        release_in_leaf(pages, leaf, &all)?;
    }
    pages.backing.take_back(leaf);
    // A thread that has inserted an entry reads the size again: it sees the new size, or this thread sees its
    // entry.
    fence(Ordering::SeqCst);
    forget_pages(pages, leaf, &all);
    Ok(())
}

/// Has pages leave RAM without keeping their bytes; what flash has of them stays until they are released.
///
/// # Errors
/// As [`release`].
pub(crate) fn forget_in_ram(pages: &Pages, first: PageId, count: u64) -> Result<(), FaultError> {
    takeover::forget_natives(pages, first, count)?;
    let resident = (first.0..first.0 + count).filter_map(|page| pages.residence.hold_resident(PageId(page)));
    resident.for_each(|held| forget(pages, held));
    Ok(())
}

fn forget_pages(pages: &Pages, leaf: LeafId, indices: &LeafPages) {
    for held in hold_residents(pages, leaf, indices) {
        forget(pages, held);
    }
}

/// Takes the entries of those of the pages that are in RAM.
fn hold_residents<'a>(pages: &'a Pages, leaf: LeafId, indices: &LeafPages) -> Vec<Held<'a>> {
    let mut resident = Vec::new();
    if indices.count() == 1 {
        resident.extend(indices.iter().map(|index| leaf.page(index)));
    } else {
        pages.residence.for_each_of_leaf(leaf, &mut |page, _| {
            if indices.contains(page.index()) {
                resident.push(page);
            }
        });
    }
    resident.into_iter().filter_map(|page| pages.residence.hold_resident(page)).collect()
}

/// Frees some pages of a leaf: they read as zeros when they are given out again.
///
/// # Errors
/// The leaf could not be read or changed; the pages are as before.
pub(crate) fn release_in_leaf(pages: &Pages, leaf: LeafId, indices: &LeafPages) -> Result<(), FaultError> {
    let resident = hold_residents(pages, leaf, indices);
    // The leaf first: if it cannot be read, the newest bytes are still in RAM, and the entries are given back as they were.
    if !pages.backing.leaves().is_empty(leaf) {
        empty_in_leaf(pages, leaf, indices)?;
    }
    for held in resident {
        forget(pages, held);
    }
    if pages.is_whole(leaf.page(0)) {
        // A read ahead may have found a page's place before it was freed, and have put its old bytes in RAM
        // since.
        forget_pages(pages, leaf, indices);
    }
    Ok(())
}

/// Ends a page's stay in RAM, whatever its state, without keeping its bytes.
fn forget(pages: &Pages, held: Held<'_>) {
    if held.before().is_some_and(|before| before.state() == State::Mapped) {
        // SAFETY: we hold its entry, and its bytes are given up.
        unsafe { pages.mapping.drop_page(held.page()) };
    }
    held.forget();
}

/// Makes pages zero in their leaf, from a thread that owns no end of the log: waits for the writer if there is no room.
fn empty_in_leaf(pages: &Pages, leaf: LeafId, indices: &LeafPages) -> Result<(), FaultError> {
    let page = leaf.page(0);
    let mut scratch = AlignedBuffer::new(SCRATCH_BYTES);
    let (mut backoff, mut wait) = (Backoff::new(), WriterWait::default());
    loop {
        let held = pages.backing.leaves().hold(leaf, &mut scratch);
        let mut held = held.map_err(|error| FaultError::from_read(page, error))?;
        indices.iter().for_each(|index| held.set_place(index, Place::ZERO));
        match held.store(None) {
            Ok(()) => return Ok(()),
            Err(NoRoom) => {
                room::wait_for_writer_in_fault(pages, page, &mut wait)?;
                backoff.wait();
            }
        }
    }
}
