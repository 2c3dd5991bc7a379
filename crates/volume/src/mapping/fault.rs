//! What a fault on a mapped file does: address, region, entry, flash.

use std::sync::Arc;

use aquifer_base::Found;
use aquifer_sys::memory::Protection;

use super::pages::MappedPages;
use super::view::View;
use crate::core::Core;
use crate::error::{Result, VolumeError};
use crate::frame::{Content, PageMemory};
use crate::inode::Time;
use crate::key::{Ino, PageKey};
use crate::word::PAGE_BYTES;

/// Makes a page of a file accessible through a view: for stores, if `is_write`.
///
/// # Errors
/// The page lies behind the end of the file, cannot be read, or there is no room for it.
pub fn resolve(
    core: &Core,
    ino: Ino,
    pages: &Arc<MappedPages>,
    view: &View,
    index: u32,
    is_write: bool,
) -> Result<Found> {
    let size_bytes = core.inode(ino)?.size_bytes;
    if u64::from(index) * PAGE_BYTES as u64 >= size_bytes {
        return Err(VolumeError::Invalid("the file ends before this page"));
    }
    let found = resolve_one(core, ino, pages, view, index, is_write)?;
    let pages_of_file = size_bytes.div_ceil(PAGE_BYTES as u64);
    let left = u32::try_from(pages_of_file - u64::from(index) - 1).unwrap_or(u32::MAX);
    let ahead = if found == Found::Flash { view.note_fault(index).min(left) } else { 0 };
    if ahead > 0 {
        let is_private = is_private(view);
        core.read_ahead(ino, index + 1, ahead, |first, bytes| {
            let shown = if is_private { Err(NOT_SHOWN) } else { view.fill(first, bytes) };
            shown.or_else(|_| pages.fill_run(first, bytes))?;
            let memory: Arc<dyn PageMemory> = Arc::clone(pages) as _;
            Ok(Some(memory))
        })?;
    }
    Ok(found)
}

/// A private view sees what is present without being shown it.
const NOT_SHOWN: VolumeError = VolumeError::Invalid("the view is private");

fn is_private(view: &View) -> bool {
    matches!(view.access(), Protection::CopyOnWrite | Protection::ReadPrivately)
}

fn resolve_one(
    core: &Core,
    ino: Ino,
    pages: &Arc<MappedPages>,
    view: &View,
    index: u32,
    is_write: bool,
) -> Result<Found> {
    let key = PageKey::data(ino, index);
    let is_private = is_private(view);
    loop {
        let mut found = Found::Ram;
        let frame = core.page_placed(key, |bytes| {
            found = Found::Flash;
            // A private view is filled by the kernel from what is present, so that its stores make a copy.
            // Others may wait for the page, also if whoever asked is gone.
            let shown = if is_private { Err(NOT_SHOWN) } else { view.fill(index, bytes) };
            shown.or_else(|_| pages.fill(index, bytes))?;
            let memory: Arc<dyn PageMemory> = Arc::clone(pages) as _;
            Ok(Content::Mapped(memory))
        })?;
        if is_private {
            if frame.ready()?.is_some() {
                view.wake(index)?;
                return Ok(found);
            }
        } else if is_write {
            let change = core.begin()?;
            if let Some(mut state) = frame.changeable()? {
                let is_first = state.is_new && !state.is_promised;
                change.page(&frame, &mut state)?;
                // Whoever asked may be gone by now; the page is dirty all the same.
                let shown = view.show(index, true);
                state.is_writable = true;
                drop(state);
                change.update_inode(ino, |inode| {
                    inode.pages += u64::from(is_first);
                    inode.written_at = Time::now();
                    inode.changed_at = inode.written_at;
                })?;
                shown?;
                return Ok(found);
            }
        } else if let Some(state) = frame.ready()? {
            if found == Found::Ram {
                view.show(index, false)?;
            }
            drop(state);
            return Ok(found);
        }
    }
}
