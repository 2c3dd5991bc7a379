//! Pages that the program may not touch (`PROT_NONE`): reserved for later, given back, or protected with what is in them.
//!
//! None of them is at its address, so whoever touches one has the program's own fault. Their bytes, if they have any, are in slots or on flash, and
//! need not be held in RAM.

use std::sync::atomic::{Ordering, fence};

use aquifer_base::PageId;
use aquifer_map::State;
use aquifer_sys::{Backoff, Errno};

use crate::error::FaultError;
use crate::leave::leave_one_in_fault;
use crate::page_set::Run;
use crate::pages::Pages;
use crate::release::release;

fn refused(page: PageId) -> impl Fn(Errno) -> FaultError {
    move |errno| FaultError::Map { page, errno }
}

/// Empties pages and closes them.
///
/// # Errors
/// A leaf could not be read or changed, or the kernel has too many mappings; the pages are open.
pub(crate) fn close(pages: &Pages, (first, count): Run) -> Result<(), FaultError> {
    pages.closed.insert((first, count));
    // Whoever holds an entry looks here afterwards: either it sees this or we see the entry.
    fence(Ordering::SeqCst);
    let closed = release(pages, first, count).and_then(|()| {
        // SAFETY: nobody brings in pages that are closed, and their bytes are given up.
        let emptied = unsafe { pages.mapping.empty(first, count as usize) };
        emptied.and_then(|()| pages.mapping.forbid(first, count as usize)).map_err(refused(first))
    });
    if closed.is_err() {
        pages.closed.remove((first, count));
    }
    closed
}

/// Closes pages, which keep their bytes. False if one of them must stay at its address, or the kernel has too many mappings: they are open then.
pub(crate) fn hide(pages: &Pages, (first, count): Run) -> bool {
    if pages.natives.any() {
        return false;
    }
    pages.closed.insert((first, count));
    fence(Ordering::SeqCst);
    let are_hidden = (first.0..first.0 + count).all(|page| leave(pages, PageId(page)))
        && pages.mapping.forbid(first, count as usize).is_ok();
    if !are_hidden {
        pages.closed.remove((first, count));
    }
    are_hidden
}

/// Has a page leave its address; false if it is pinned there.
fn leave(pages: &Pages, page: PageId) -> bool {
    let mut backoff = Backoff::new();
    while let Some(held) = pages.residence.hold_resident(page) {
        match held.before() {
            Some(entry) if entry.state() == State::Mapped => {
                if entry.is_pinned() {
                    return false;
                }
            }
            _ => break,
        }
        drop(held);
        leave_one_in_fault(pages, page);
        backoff.wait();
    }
    true
}

/// Opens pages, closed or not.
///
/// # Errors
/// The kernel has too many mappings; they are closed.
pub(crate) fn open(pages: &Pages, (first, count): Run) -> Result<(), FaultError> {
    pages.mapping.permit(first, count as usize).map_err(refused(first))?;
    pages.closed.remove((first, count));
    Ok(())
}
