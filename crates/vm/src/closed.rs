//! Pages that the program may not touch (`PROT_NONE`): reserved for later, given back, or protected with what is in them.
//!
//! A closed page is never at its address, so an access to it raises the program's own fault. Bytes of closed
//! pages are in slots or on flash, and need not be held in RAM.

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

/// Has pages be closed; those that were not.
fn insert(pages: &Pages, run: Run) -> Vec<Run> {
    let mut open = Vec::new();
    pages.closed.for_each_run(run, &mut |run, is_closed| {
        if !is_closed {
            open.push(run);
        }
    });
    pages.closed.insert(run);
    // A thread that has taken an entry reads this set afterwards: it sees the new pages, or this thread sees
    // its entry.
    fence(Ordering::SeqCst);
    open
}

/// Undoes [`insert`].
fn reopen(pages: &Pages, opened: Vec<Run>) {
    for (first, count) in opened {
        // The kernel, which may have protected some of them, needs fewer mappings afterwards.
        let _ = pages.mapping.permit(first, count as usize);
        pages.closed.remove((first, count));
    }
}

/// Empties pages and closes them.
///
/// # Errors
/// A leaf could not be read or changed, or the kernel has too many mappings; those that were open are open.
pub(crate) fn close(pages: &Pages, (first, count): Run) -> Result<(), FaultError> {
    let opened = insert(pages, (first, count));
    let closed = release(pages, first, count).and_then(|()| {
        // SAFETY: nobody brings in pages that are closed, and their bytes are given up.
        let emptied = unsafe { pages.mapping.empty(first, count as usize) };
        emptied.and_then(|()| pages.mapping.forbid(first, count as usize)).map_err(refused(first))
    });
    if closed.is_err() {
        reopen(pages, opened);
    }
    closed
}

/// Closes pages, which keep their bytes. False if one of them must stay at its address, or the kernel has too many mappings: those that were open are then.
pub(crate) fn hide(pages: &Pages, (first, count): Run) -> bool {
    if pages.natives.any() {
        return false;
    }
    let opened = insert(pages, (first, count));
    let are_hidden = (first.0..first.0 + count).all(|page| leave(pages, PageId(page)))
        && pages.mapping.forbid(first, count as usize).is_ok();
    if !are_hidden {
        reopen(pages, opened);
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
