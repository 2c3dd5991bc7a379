//! What a fault on a mapped file does: address, region, entry, flash.

use aquifer_base::Found;

use super::region::Pages;
use super::view::View;
use crate::core::Core;
use crate::error::{Result, VolumeError};
use crate::frame::Content;
use crate::key::{Ino, PageKey};
use crate::word::PAGE_BYTES;

/// Makes a page of a file accessible through a view: for stores, if `is_write`. `ask` is told of pages that will be needed soon: the first, and how many.
///
/// # Errors
/// The page lies behind the end of the file, cannot be read, or there is no room for it.
pub fn resolve(
    core: &Core,
    ino: Ino,
    pages: &Pages,
    view: &View,
    index: u32,
    is_write: bool,
    mut ask: impl FnMut(u32, u32),
) -> Result<Found> {
    let size_bytes = check_within(core, ino, index)?;
    let pages_of_file = u32::try_from(size_bytes.div_ceil(PAGE_BYTES as u64)).unwrap_or(u32::MAX);
    let end = pages_of_file.min(index.saturating_add(view.pages_from(index)));
    let read_ahead = |first: u32, count: u32| {
        let count = count.min(end.saturating_sub(first));
        core.read_ahead(ino, first, count, None, |first, bytes| pages.put(view, first, bytes).map(Some))
    };
    let is_absent = || core.cache.peek(PageKey::data(ino, index)).is_none();
    if let Some(run) = view.walks().follow(index, core.cache.recent_max(), is_absent) {
        // Runs that are on their way already are passed over.
        let runs = (index.saturating_add(run.pages)..end).step_by(run.next.max(1) as usize);
        if run.next > 0 {
            runs.take(run.ahead as usize).for_each(|next| ask(next, run.next.min(end - next)));
        }
        if run.is_absent {
            // All in one read; what this cannot bring is told below.
            read_ahead(index, run.pages)?;
        }
        resolve_one(core, ino, pages, view, index, is_write)?;
        return Ok(if run.is_absent { Found::Flash } else { Found::Ram });
    }
    let found = resolve_one(core, ino, pages, view, index, is_write)?;
    if found == Found::Flash {
        read_ahead(index + 1, view.walks().begin(index))?;
    }
    Ok(found)
}

/// Reads pages that were asked for. The first access to the first of them faults, so that the next ones are asked for then.
pub fn read_asked(core: &Core, ino: Ino, pages: &Pages, view: &View, first: u32, count: u32) {
    // A thread that needs a page that could not be read meets the error again.
    let _ = core.read_ahead(ino, first, count, Some(first), |at, bytes| {
        if at == first { pages.put_unseen(at, bytes) } else { pages.put(view, at, bytes).map(Some) }
    });
}

/// The size of a file that has this page.
fn check_within(core: &Core, ino: Ino, index: u32) -> Result<u64> {
    let size_bytes = core.inode(ino)?.size_bytes;
    if u64::from(index) * PAGE_BYTES as u64 >= size_bytes {
        return Err(VolumeError::Invalid("the file ends before this page"));
    }
    Ok(size_bytes)
}

fn resolve_one(
    core: &Core,
    ino: Ino,
    pages: &Pages,
    view: &View,
    index: u32,
    is_write: bool,
) -> Result<Found> {
    let key = PageKey::data(ino, index);
    loop {
        let mut found = Found::Ram;
        let frame = core.page_placed(key, |page| {
            found = Found::Flash;
            pages.put(view, index, &page[..]).map(Content::Mapped)
        })?;
        if view.is_private() {
            if frame.ready()?.is_some() {
                pages.show_privately(view, index)?;
                return Ok(found);
            }
        } else if is_write {
            let change = core.begin()?;
            let _kept = core.keep_pages(ino);
            // It may have been cut since the fault began.
            check_within(core, ino, index)?;
            if let Some(mut state) = frame.changeable()? {
                let is_first = state.is_new && !state.is_promised;
                change.page(&frame, &mut state)?;
                // The region may be gone by now; the page is dirty all the same.
                let shown = pages.show(view, index, &mut state, true);
                state.is_writable = matches!(state.content, Content::Mapped(_));
                drop(state);
                if is_first {
                    change.update_inode(ino, |inode| inode.pages += 1)?;
                }
                core.note_stored(ino);
                shown?;
                return Ok(found);
            }
        } else if let Some(mut state) = frame.ready()? {
            if found == Found::Ram {
                pages.show(view, index, &mut state, false)?;
            }
            return Ok(found);
        }
    }
}
