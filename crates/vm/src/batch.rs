//! Many objects at once, read or written by one thread with the device at full depth.

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;

use crate::engine::Engine;
use crate::error::{FaultError, PinError};

/// Parts of pages that are brought in together, before they are copied.
const CHUNK: usize = 1024;
/// Pages that are worth a second thread.
const HALVED_MIN: usize = 256;

/// Bytes of one page, and the program's memory that they are copied from or to.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The page.
    pub page: PageId,
    /// Where in it the bytes begin.
    pub offset: usize,
    /// How many; they end within the page.
    pub bytes: usize,
    /// The program's memory, not in the heap.
    pub memory: *mut u8,
}

impl Engine {
    /// Brings the pages of the parts into RAM, each once. Long lists are halved, so that one half is looked up while the
    /// device works on the other.
    fn bring_in_all(&self, parts: &[Part]) -> Result<(), FaultError> {
        let mut pages: Vec<PageId> = parts.iter().map(|part| part.page).collect();
        pages.dedup();
        if pages.len() < HALVED_MIN {
            return self.prefetch(&mut pages.into_iter());
        }
        let (first, second) = pages.split_at(pages.len() / 2);
        std::thread::scope(|scope| {
            let helper = scope.spawn(|| self.prefetch(&mut second.iter().copied()));
            let outcome = self.prefetch(&mut first.iter().copied());
            outcome.and(helper.join().unwrap_or(Ok(())))
        })
    }

    /// Copies the parts of pages to the program's memory, or with `write` from there. Each part is copied once, in the order
    /// of pages; of the same page in the order given.
    ///
    /// # Safety
    /// The memory of each part has its bytes.
    ///
    /// # Errors
    /// The first page that cannot be used; parts of other pages may have been copied.
    pub unsafe fn transfer(&self, parts: &mut [Part], write: bool) -> Result<(), PinError> {
        parts.sort_by_key(|part| part.page);
        // No more than the cache can hold beside what is in use.
        let chunk = CHUNK.min(self.cache.ram_bytes() / OS_PAGE_BYTES / 8).max(16);
        for parts in parts.chunks(chunk) {
            self.bring_in_all(parts)?;
            for part in parts {
                let bytes = self.begin_use(part.page, write)?;
                // SAFETY: the page is in use and the part ends within it; the caller answers for the memory.
                unsafe {
                    let at = bytes.add(part.offset);
                    let (from, to) = if write { (part.memory, at) } else { (at, part.memory) };
                    std::ptr::copy(from, to, part.bytes);
                }
                self.end_use(part.page)?;
            }
        }
        Ok(())
    }
}
