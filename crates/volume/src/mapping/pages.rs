//! The pages of a mapped file, as processes share them.

use std::sync::{Arc, PoisonError, RwLock};

use aquifer_sys::Errno;
use aquifer_sys::memory::SharedMemory;

use super::view::View;
use crate::error::{Result, VolumeError};
use crate::frame::PageMemory;
use crate::inode::SIZE_BYTES_MAX;
use crate::word::{PAGE_BYTES, PageBytes};

/// Memory as long as the longest file, of which only pages exist that are in RAM; and who sees it.
pub struct MappedPages {
    memory: SharedMemory,
    views: RwLock<Vec<Arc<View>>>,
}

impl MappedPages {
    /// Memory without pages, which nobody sees.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> Result<Self> {
        let memory = SharedMemory::new(SIZE_BYTES_MAX).map_err(failed("making shared memory"))?;
        // Whoever has a descriptor for reading alone must not open it anew for writing.
        memory.set_mode(0o600).map_err(failed("making shared memory"))?;
        Ok(MappedPages { memory, views: RwLock::default() })
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

impl PageMemory for MappedPages {
    fn fill(&self, index: u32, bytes: &PageBytes) -> Result<()> {
        self.memory.write_at(offset_of(index), bytes).map_err(failed("filling a mapped page"))
    }

    fn read(&self, index: u32, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.memory.read_at(offset_of(index) + offset as u64, bytes).map_err(failed("reading a mapped page"))
    }

    fn write(&self, index: u32, offset: usize, bytes: &[u8]) -> Result<()> {
        self.memory.write_at(offset_of(index) + offset as u64, bytes).map_err(failed("writing a mapped page"))
    }

    fn protect(&self, index: u32) -> Result<()> {
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
        views.iter().try_for_each(|view| view.protect(index))
    }

    fn hide(&self, pages: &[u32]) -> Result<()> {
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
        views.iter().try_for_each(|view| view.hide(pages))
    }

    fn drop_pages(&self, first: u32, count: u32) -> Result<()> {
        let len = u64::from(count) * PAGE_BYTES as u64;
        self.memory.punch(offset_of(first), len).map_err(failed("dropping mapped pages"))
    }
}
