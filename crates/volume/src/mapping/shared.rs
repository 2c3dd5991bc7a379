//! The pages of a mapped file, as several views or processes share them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use aquifer_sys::Errno;
use aquifer_sys::memory::SharedMemory;

use super::view::View;
use crate::cache::Cache;
use crate::error::{Result, VolumeError};
use crate::frame::PageMemory;
use crate::inode::SIZE_BYTES_MAX;
use crate::key::{Ino, PageKey};
use crate::word::{PAGE_BYTES, PageBytes};

/// Memory as long as the longest file, of which only pages exist that are in RAM; and who sees it.
pub struct SharedPages {
    memory: SharedMemory,
    views: RwLock<Vec<Arc<View>>>,
    /// Uses by other processes: open files whose memory they have, and views.
    uses: AtomicUsize,
    /// Whether another process has ever had a descriptor that can write.
    is_handed_out: AtomicBool,
    /// RAM from which on the memory is searched for pages that the file does not have.
    looked_at_bytes: AtomicU64,
}

/// RAM that the memory takes in any case before it is searched for them.
const LOOKED_AT_BYTES_MIN: u64 = 256 << 10;

impl SharedPages {
    /// Memory that nobody sees. Accesses to it raise SIGBUS until it is [`SharedPages::open`].
    ///
    /// # Errors
    /// The system's.
    pub fn closed() -> Result<Self> {
        let memory = SharedMemory::without_len().map_err(failed("making shared memory"))?;
        // A process with a descriptor for reading must not open it anew for writing.
        memory.set_mode(0o600).map_err(failed("making shared memory"))?;
        Ok(SharedPages {
            memory,
            views: RwLock::default(),
            uses: AtomicUsize::new(0),
            is_handed_out: AtomicBool::new(false),
            looked_at_bytes: AtomicU64::new(LOOKED_AT_BYTES_MIN),
        })
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

    /// Makes a page present, as zeros, if a process that may write the file has taken it away.
    ///
    /// # Errors
    /// The system's.
    pub fn make_present(&self, index: u32) -> Result<()> {
        let made = self.memory.make_present(offset_of(index), PAGE_BYTES as u64);
        made.map_err(failed("bringing back a mapped page"))
    }

    /// Another process is going to have a descriptor that can write.
    pub fn hand_out(&self) {
        self.is_handed_out.store(true, Ordering::Relaxed);
    }

    /// One more use by another process.
    pub fn begin_use(&self) {
        self.uses.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; says whether nobody uses the memory or sees it any more.
    pub fn end_use(&self) -> bool {
        let is_last = self.uses.fetch_sub(1, Ordering::Relaxed) == 1;
        is_last && self.views.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Gives RAM back that other processes took in the memory beside the file's pages.
    ///
    /// # Errors
    /// The system's.
    pub fn give_back_strays(&self, cache: &Cache, ino: Ino) -> Result<()> {
        if !self.is_handed_out() {
            return Ok(());
        }
        let looking = failed("looking at shared memory");
        let taken_bytes = || self.memory.taken_bytes().map_err(&looking);
        if taken_bytes()? <= self.looked_at_bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut from = 0;
        while let Some((start, end)) = self.memory.present_from(from).map_err(&looking)? {
            for index in (start / PAGE_BYTES as u64)..(end / PAGE_BYTES as u64) {
                // A page of the file is not loading meanwhile: a thread that wants it waits.
                let Ok(frame) = cache.begin_load(PageKey::data(ino, index as u32)) else { continue };
                let dropped = self.drop_pages(&[index as u32]);
                cache.give_up(&frame);
                dropped?;
            }
            from = end;
        }
        // A quarter more: looks cost little beside what brings pages.
        self.looked_at_bytes.store(taken_bytes()? / 4 * 5 + LOOKED_AT_BYTES_MIN, Ordering::Relaxed);
        Ok(())
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

    fn is_handed_out(&self) -> bool {
        self.is_handed_out.load(Ordering::Relaxed)
    }
}
