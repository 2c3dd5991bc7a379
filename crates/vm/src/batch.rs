//! Many objects at once, read or written by one thread with the device at full depth.

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;

use crate::error::{FaultError, PinError};
use crate::gate::Gates;
use crate::pages::Pages;
use crate::{in_place, prefetch};

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

/// Brings the pages of the parts into RAM, each once. Long lists are halved, so that one half is looked up while the
/// device works on the other.
fn bring_in_all(pages: &Pages, gates: &Gates, parts: &[Part]) -> Result<(), FaultError> {
    let mut wanted: Vec<PageId> = parts.iter().map(|part| part.page).collect();
    wanted.dedup();
    if wanted.len() < HALVED_MIN {
        return prefetch::prefetch(pages, gates, &mut wanted.into_iter());
    }
    let (first, second) = wanted.split_at(wanted.len() / 2);
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| prefetch::prefetch(pages, gates, &mut second.iter().copied()));
        let outcome = prefetch::prefetch(pages, gates, &mut first.iter().copied());
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
pub(crate) unsafe fn transfer(
    pages: &Pages,
    gates: &Gates,
    parts: &mut [Part],
    write: bool,
) -> Result<(), PinError> {
    parts.sort_by_key(|part| part.page);
    // No more than the cache can hold beside what is in use.
    let chunk = CHUNK.min(pages.residence.cache_bytes().0 / OS_PAGE_BYTES / 8).max(16);
    for parts in parts.chunks(chunk) {
        bring_in_all(pages, gates, parts)?;
        for part in parts {
            let bytes = in_place::begin(pages, gates, part.page, write)?;
            // SAFETY: the page is in use and the part ends within it; the caller answers for the memory.
            unsafe {
                let at = bytes.add(part.offset);
                let (from, to) = if write { (part.memory, at) } else { (at, part.memory) };
                std::ptr::copy(from, to, part.bytes);
            }
            in_place::end(pages, gates, part.page)?;
        }
    }
    Ok(())
}
