//! Many objects at once, read or written by one thread with the device at full depth.

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;

use crate::error::{FaultError, PinError};
use crate::gate::Gates;
use crate::pages::Pages;
use crate::{in_place, prefetch};

/// Parts of pages that are brought in together, before they are copied.
const CHUNK: usize = 1024;
/// The same of those that are not kept.
const CHUNK_ONCE: usize = 8192;
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

/// How bytes are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// From pages to the program's memory.
    Read,
    /// The same, of pages that are not read again soon: those that are not in RAM are not brought there, and nothing leaves for them.
    ReadOnce,
    /// From the program's memory to pages.
    Write,
}

// SAFETY: an address; the one who copies from or to it answers for that.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

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

/// Copies parts of pages that are not in RAM, and says which.
///
/// # Safety
/// As of [`transfer`].
unsafe fn read_through(
    pages: &Pages,
    gates: &Gates,
    parts: &[Part],
    is_done: &mut [bool],
) -> Result<(), FaultError> {
    let mut give = |page: PageId, bytes: &[u8]| {
        let first = parts.partition_point(|part| part.page < page);
        let of_page = parts[first..].iter().take_while(|part| part.page == page);
        for (part, is_done) in of_page.zip(&mut is_done[first..]) {
            let from = &bytes[part.offset..part.offset + part.bytes];
            // SAFETY: the caller answers for the memory of the part.
            unsafe { std::ptr::copy(from.as_ptr(), part.memory, part.bytes) };
            *is_done = true;
        }
    };
    let mut wanted: Vec<PageId> = parts.iter().map(|part| part.page).collect();
    wanted.dedup();
    prefetch::read_through(pages, gates, &mut wanted.into_iter(), &mut give)
}

/// As [`read_through`], by two threads if there are many.
///
/// # Safety
/// As of [`transfer`].
unsafe fn read_through_all(pages: &Pages, gates: &Gates, parts: &[Part]) -> Result<Vec<bool>, FaultError> {
    let mut is_done = vec![false; parts.len()];
    let middle = parts.get(parts.len() / 2).map_or(0, |part| part.page.0);
    let half = parts.partition_point(|part| part.page.0 < middle);
    if half < HALVED_MIN / 2 {
        // SAFETY: passed on to the caller.
        return unsafe { read_through(pages, gates, parts, &mut is_done) }.map(|()| is_done);
    }
    let (first, second) = parts.split_at(half);
    let (first_done, second_done) = is_done.split_at_mut(half);
    let outcome = std::thread::scope(|scope| {
        // SAFETY: passed on to the caller.
        let helper = scope.spawn(|| unsafe { read_through(pages, gates, second, second_done) });
        // SAFETY: passed on to the caller.
        let outcome = unsafe { read_through(pages, gates, first, first_done) };
        outcome.and(helper.join().unwrap_or(Ok(())))
    });
    outcome.map(|()| is_done)
}

/// Copies the parts of pages to the program's memory or from there. Each part is copied once; of the same page in the order given.
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
    how: Transfer,
) -> Result<(), PinError> {
    let write = how == Transfer::Write;
    parts.sort_by_key(|part| part.page);
    // No more than the cache can hold beside what is in use.
    let chunk = match how {
        Transfer::ReadOnce => CHUNK_ONCE,
        _ => CHUNK.min(pages.residence.cache_bytes().0 / OS_PAGE_BYTES / 8).max(16),
    };
    for parts in parts.chunks(chunk) {
        let is_done = if how == Transfer::ReadOnce {
            // SAFETY: passed on to the caller.
            unsafe { read_through_all(pages, gates, parts) }?
        } else {
            bring_in_all(pages, gates, parts)?;
            Vec::new()
        };
        for (n, part) in parts.iter().enumerate() {
            if is_done.get(n) == Some(&true) {
                continue;
            }
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
