//! The pages of a mapped file, as several views or processes share them.

use std::sync::{Arc, PoisonError, RwLock};

use aquifer_sys::Errno;
use aquifer_sys::memory::SharedMemory;

use super::view::View;
use crate::error::{Result, VolumeError};
use crate::frame::PageMemory;
use crate::inode::SIZE_BYTES_MAX;
use crate::word::{PAGE_BYTES, PageBytes};

/// Memory as long as the longest file, of which only pages exist that are in RAM; and who sees it.
pub struct SharedPages {
    memory: SharedMemory,
    views: RwLock<Vec<Arc<View>>>,
}

impl SharedPages {
    /// Memory that nobody sees. Accesses to it raise SIGBUS until it is [`SharedPages::open`].
    ///
    /// # Errors
    /// The system's.
    pub fn closed() -> Result<Self> {
        let memory = SharedMemory::without_len().map_err(failed("making shared memory"))?;
        // A process with a descriptor for reading must not open it anew for writing.
        memory.set_mode(0o600).map_err(failed("making shared memory"))?;
        Ok(SharedPages { memory, views: RwLock::default() })
    }

    /// Lets pages come.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&self) -> Result<()> {
        // Fixed: a process that may write the file has a descriptor by which it could make the memory shorter, under everybody.
        self.memory.fix_len(SIZE_BYTES_MAX).map_err(failed("making shared memory"))
    }

    /// The memory.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Makes absent pages present with these bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn fill_run(&self, first: u32, bytes: &[u8]) -> Result<()> {
        self.memory.write_at(offset_of(first), bytes).map_err(failed("filling mapped pages"))
    }

    /// From now on somebody sees it.
    pub fn add(&self, view: Arc<View>) {
        self.views.write().unwrap_or_else(PoisonError::into_inner).push(view);
    }

    /// From now on somebody does not.
    pub fn remove(&self, view: &Arc<View>) {
        self.views.write().unwrap_or_else(PoisonError::into_inner).retain(|known| !Arc::ptr_eq(known, view));
    }
}

fn offset_of(index: u32) -> u64 {
    u64::from(index) * PAGE_BYTES as u64
}

/// What a failed call of the system comes to.
pub fn failed(step: &'static str) -> impl Fn(Errno) -> VolumeError {
    move |errno| VolumeError::System { step, errno: errno.0 }
}

impl PageMemory for SharedPages {
    fn fill(&self, index: u32, bytes: &PageBytes) -> Result<bool> {
        self.fill_run(index, bytes).map(|()| true)
    }

    fn read(&self, index: u32, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.memory.read_at(offset_of(index) + offset as u64, bytes).map_err(failed("reading a mapped page"))
    }

    fn write(&self, index: u32, offset: usize, bytes: &[u8]) -> Result<bool> {
        let written = self.memory.write_at(offset_of(index) + offset as u64, bytes);
        written.map(|()| true).map_err(failed("writing a mapped page"))
    }

    /// A view of another process that cannot be protected is removed, because its addresses are not what that process said. Its stores need not be committed
    /// then; they can only be to this file, which it may write.
    fn protect(&self, pages: &[u32]) -> Result<()> {
        let mut broken = Vec::new();
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
        for view in views.iter() {
            match view.protect(pages, 0) {
                Err(_) if view.is_foreign() => broken.push(Arc::clone(view)),
                outcome => outcome?,
            }
        }
        drop(views);
        broken.iter().for_each(|view| self.remove(view));
        Ok(())
    }

    fn hide(&self, pages: &[u32]) -> Result<bool> {
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
        views.iter().try_for_each(|view| view.hide(pages)).map(|()| true)
    }

    fn drop_pages(&self, pages: &[u32]) -> Result<()> {
        pages.chunk_by(|a, b| a + 1 == *b).try_for_each(|run| {
            let len = (run.len() * PAGE_BYTES) as u64;
            self.memory.punch(offset_of(run[0]), len).map_err(failed("dropping mapped pages"))
        })
    }
}
