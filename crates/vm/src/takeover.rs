//! Memory becomes a heap's that no longer fits in RAM.

use std::collections::VecDeque;

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{LeafId, PageId};
use aquifer_map::{Entry, State};
use aquifer_sys::Errno;
use aquifer_sys::memory::Presence;

use crate::error::FaultError;
use crate::fill::Fill;
use crate::page_set::Run;
use crate::pages::Pages;
use crate::patience::Patience;
use crate::room;

/// Pages that are looked at together.
const CHUNK_PAGES: u64 = 4096;
/// Pages that become native again when a capture ends with an error: others can then be read, which need slots.
const GIVEN_BACK: usize = 128;

/// What a capture knows.
struct Capture {
    presence: Presence,
    /// The pages that were adopted last.
    newest: VecDeque<PageId>,
}

/// Takes over the region from the kernel: from here on its faults are ours, and what is there is native. Other threads may
/// use it meanwhile.
///
/// # Errors
/// The kernel refused; the region is ordinary memory as before, and the engine over it of no use.
pub(crate) fn take_over(pages: &Pages) -> Result<(), Errno> {
    let leaves = (0..pages.mapping.leaves()).map(LeafId);
    pages.natives.begin(leaves.clone());
    for leaf in leaves {
        pages.backing.leaves().set_page_bytes(leaf, OS_PAGE_BYTES);
        pages.mapping.guard_range(leaf);
    }
    pages.mapping.take()
}

/// Makes the native pages the heap's; `more` may be native too. Nobody else does meanwhile. Other threads may use them; their faults
/// wait for nothing but their own pages.
///
/// # Errors
/// [`FaultError`]; the rest of the pages stay native.
pub(crate) fn capture(pages: &Pages, more: Vec<Run>) -> Result<(), FaultError> {
    let mut capture = Capture { presence: Presence::new(), newest: VecDeque::with_capacity(GIVEN_BACK) };
    let mut books = pages.natives.books();
    books.add(more);
    let mut outcome = Ok(());
    while let Some(run) = books.next(CHUNK_PAGES) {
        outcome = capture_run(pages, run, &mut capture);
        if outcome.is_err() {
            let given_back = capture.newest.into_iter().filter(|&page| give_back(pages, page));
            books.add(given_back.map(|page| (page, 1)).chain([run]));
            break;
        }
    }
    pages.mapping.unguard_ranges(pages.natives.settle(&mut books).into_iter());
    outcome
}

fn capture_run(pages: &Pages, (first, count): Run, capture: &mut Capture) -> Result<(), FaultError> {
    let mut present = vec![0; count as usize];
    look(pages, first, &mut present, &capture.presence)?;
    let mut divided = None;
    for (page, _) in (first.0..).zip(present).filter(|(_, has_bytes)| *has_bytes == 1) {
        let page = PageId(page);
        // A huge page is as large as a leaf.
        if divided.replace(page.leaf()) != Some(page.leaf()) {
            pages.mapping.divide_huge(page);
        }
        adopt(pages, page, &capture.presence)?;
        if capture.newest.len() == GIVEN_BACK {
            capture.newest.pop_front();
        }
        capture.newest.push_back(page);
    }
    Ok(())
}

/// Which pages have bytes.
fn look(pages: &Pages, first: PageId, present: &mut [u8], presence: &Presence) -> Result<(), FaultError> {
    pages.mapping.look(first, present, presence).map_err(|errno| FaultError::Map { page: first, errno })
}

/// Gives a native page an entry and a slot.
fn adopt(pages: &Pages, page: PageId, presence: &Presence) -> Result<(), FaultError> {
    room::unmap_due_in_fault(pages);
    let mut patience = Patience::of_call();
    let mut fill = match Fill::hold_in_fault(pages, page, &mut patience) {
        // The thread that has closed the page empties it.
        Err(FaultError::NotAllocated(_)) if pages.closed.has(page) => return Ok(()),
        held => held?,
    };
    // A fault may have brought the page in and another may have evicted it since it was seen. While its entry is held
    // neither happens.
    let mut present = [0];
    if fill.before().is_none() {
        look(pages, page, &mut present, presence)?;
    }
    if present[0] == 0 {
        return Ok(());
    }
    fill.place_in_fault(&mut patience)?;
    fill.publish_native()
}

/// Makes a page native that was adopted; one that has left its address since, because room was wanted, comes back to it.
fn give_back(pages: &Pages, page: PageId) -> bool {
    let is_whole = |entry: Entry| match entry.state() {
        State::Mapped => entry.is_writable() && !entry.is_pinned(),
        State::Cached => entry.is_dirty() && !entry.is_pinned(),
        State::Moving => false,
    };
    let Some(held) = pages.residence.try_hold(page, is_whole) else { return false };
    if held.before().is_some_and(|before| before.state() == State::Mapped) {
        // The range is guarded: it does not lose its last page.
        pages.mapping.leave_range_in_fault(page.leaf());
    } else {
        let mut plain = [0; OS_PAGE_BYTES];
        // SAFETY: native pages are whole ones, and the slot is the page's, if it is not compressed.
        let bytes = unsafe { held.bytes(OS_PAGE_BYTES, &mut plain) }.as_ptr();
        // SAFETY: the page is absent, its range is guarded, and its bytes stay as they are while its entry is held.
        if unsafe { pages.mapping.appear_uncounted_in_fault(page, bytes, true) }.is_err() {
            return false;
        }
    }
    held.forget();
    true
}

/// Empties those of the pages that are native.
///
/// # Errors
/// [`FaultError`].
pub(crate) fn forget_natives(pages: &Pages, first: PageId, count: u64) -> Result<(), FaultError> {
    if !pages.natives.any() {
        return Ok(());
    }
    for (first, count) in pages.natives.books().cut((first, count)) {
        for page in (first.0..first.0 + count).map(PageId) {
            let held = room::hold_in_fault(pages, page, &mut Patience::of_call())?;
            if held.before().is_none() {
                // SAFETY: the page's bytes are given up. While its entry is held nobody brings it in.
                unsafe { pages.mapping.empty(page, 1) }.map_err(|errno| FaultError::Map { page, errno })?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
