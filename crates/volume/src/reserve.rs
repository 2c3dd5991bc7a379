//! Room for bytes that come later.
//!
//! A page that is reserved is a page of zeros on flash: what replaces it takes its room. Such pages may lie behind the end of a file, as far as its inode says.

use std::ops::Range;
use std::sync::Arc;

use crate::core::Change;
use crate::error::{Result, VolumeError};
use crate::files::touch;
use crate::frame::PageMemory;
use crate::inode::SIZE_BYTES_MAX;
use crate::key::{Ino, PageKey};
use crate::volume::Volume;
use crate::word::{PAGE_BYTES, PAGE_UNITS};

/// Pages that are reserved between two looks whether a commit is due.
const PAGES_AT_ONCE: u64 = 64;

impl Volume {
    /// Gives room to all pages of `bytes`, so that writing there needs no more of it. The file grows to their end, unless it `keeps_size`. All of it is atomic
    /// within 64 pages.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`] and the size is as it was: if it was clear before, nothing is reserved. [`VolumeError::TooLarge`],
    /// [`VolumeError::IsAFolder`].
    ///
    /// # Context
    /// Writes as much as it reserves.
    pub fn reserve(&self, ino: Ino, bytes: Range<u64>, keeps_size: bool) -> Result<()> {
        self.provide(ino, bytes, keeps_size, false)
    }

    /// As [`Volume::reserve`], and makes all of `bytes` zeros.
    ///
    /// # Errors
    /// As [`Volume::reserve`]; after [`VolumeError::NoSpace`] the first of `bytes` may be zeros.
    pub fn zero_and_reserve(&self, ino: Ino, bytes: Range<u64>, keeps_size: bool) -> Result<()> {
        self.provide(ino, bytes, keeps_size, true)
    }

    fn provide(&self, ino: Ino, bytes: Range<u64>, keeps_size: bool, is_zeroed: bool) -> Result<()> {
        // Of the last page of the largest file no inode could say that it is reserved.
        if bytes.end > SIZE_BYTES_MAX - PAGE_BYTES as u64 {
            return Err(VolumeError::TooLarge);
        }
        let cell = self.cell(ino);
        let _alone = cell.write();
        let memory = cell.memory();
        self.check_room(ino, &bytes)?;
        let page = PAGE_BYTES as u64;
        let pages = bytes.start / page..bytes.end.div_ceil(page);
        for first in pages.clone().step_by(PAGES_AT_ONCE as usize) {
            let some = first..pages.end.min(first + PAGES_AT_ONCE);
            let change = self.core().begin()?;
            let (new, outcome) =
                self.provide_some(&change, ino, memory.as_ref(), &some, is_zeroed.then_some(&bytes));
            let inode = change.update_inode(ino, |inode| {
                inode.pages += new;
                inode.note_reserved(some.end);
            })?;
            outcome?;
            if some.end < pages.end {
                continue;
            }
            if !keeps_size {
                self.clear_tail(&change, ino, &inode, memory.as_ref(), bytes.end)?;
            }
            change.update_inode(ino, |inode| {
                if !keeps_size {
                    inode.size_bytes = inode.size_bytes.max(bytes.end);
                }
                touch(inode);
            })?;
        }
        Ok(())
    }

    /// Gives room to `pages`, and zeros what `zeroed` has of them. Returns how many had none before, also if it fails at one of them.
    fn provide_some(
        &self,
        change: &Change<'_>,
        ino: Ino,
        memory: Option<&Arc<dyn PageMemory>>,
        pages: &Range<u64>,
        zeroed: Option<&Range<u64>>,
    ) -> (u64, Result<()>) {
        let mut new = 0;
        for index in pages.clone() {
            let key = PageKey::data(ino, index as u32);
            let start = index * PAGE_BYTES as u64;
            let within = |at: u64| at.saturating_sub(start).min(PAGE_BYTES as u64) as usize;
            let provided = self.needs_room(key).and_then(|needs_room| {
                let range = match zeroed {
                    _ if needs_room => 0..PAGE_BYTES,
                    Some(zeroed) => within(zeroed.start)..within(zeroed.end),
                    None => return Ok(false),
                };
                change.write_page(key, range.start, &[0; PAGE_BYTES][range], memory)
            });
            match provided {
                Ok(is_first) => new += u64::from(is_first),
                Err(error) => return (new, Err(error)),
            }
        }
        (new, Ok(()))
    }

    /// Fails if there is clearly no room for `bytes`, before anything is reserved.
    fn check_room(&self, ino: Ino, bytes: &Range<u64>) -> Result<()> {
        let core = self.core();
        let page = PAGE_BYTES as u64;
        let pages = (bytes.end.div_ceil(page)).saturating_sub(bytes.start / page);
        let stored = self.file(ino)?.pages;
        let has_room = || {
            let needed = pages.saturating_sub(stored) * u64::from(PAGE_UNITS);
            core.used_units() + core.kept_units() + needed <= core.capacity_units()
        };
        if !has_room() && !core.trims.are_applied() {
            core.commit()?;
        }
        if has_room() { Ok(()) } else { Err(VolumeError::NoSpace) }
    }
}
