//! Other processes' use of a file's shared memory.

use std::sync::Arc;

use super::KEPT_AFTER;
use super::shared::SharedPages;
use crate::error::Result;
use crate::frame::PageMemory;
use crate::inodes::Cell;
use crate::key::Ino;
use crate::volume::Volume;

/// A use, until it is dropped. The memory goes with the last one: it takes a descriptor, and RAM for whatever processes have put there.
pub struct SharedUse {
    volume: Arc<Volume>,
    ino: Ino,
    pages: Arc<SharedPages>,
}

impl SharedUse {
    /// The memory of a file's pages, for another process: for stores too, if it may write the file.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(volume: &Arc<Volume>, ino: Ino, may_write: bool) -> Result<Self> {
        volume.core().cache.sums().need();
        let cell = volume.cell(ino);
        let _alone = cell.write();
        let pages = volume.share(ino, &cell)?;
        if may_write {
            pages.hand_out();
        }
        pages.begin_use();
        Ok(SharedUse { volume: Arc::clone(volume), ino, pages })
    }

    /// The memory.
    pub fn pages(&self) -> &Arc<SharedPages> {
        &self.pages
    }
}

impl Drop for SharedUse {
    fn drop(&mut self) {
        let cell = self.volume.cell(self.ino);
        let _alone = cell.write();
        if self.pages.end_use() {
            self.volume.unshare(self.ino, &cell, &self.pages);
        } else {
            // What cannot be given back now is given back after the next use.
            let _ = self.pages.give_back_strays(&self.volume.core().cache, self.ino);
        }
    }
}

impl Volume {
    /// Gives up shared memory that nobody sees. The caller has the cell alone.
    fn unshare(&self, ino: Ino, cell: &Cell, pages: &Arc<SharedPages>) {
        if !cell.shared_pages().is_some_and(|known| Arc::ptr_eq(&known, pages)) {
            return;
        }
        let memory: Arc<dyn PageMemory> = Arc::clone(pages) as _;
        let taken = self.core().cache.take_all_out(ino, &memory, KEPT_AFTER);
        // What is lost must not look as if it had been committed.
        taken.unwrap_or_else(|error| self.core().stop(&error));
        cell.set_alone();
    }
}
