//! The bytes of written pages, which must outlive their unmapping.
//!
//! No write may be lost, so nobody may write between saving a page's bytes and unmapping it. Either a pipe holds
//! the page itself while it is unmapped and its bytes are read afterwards, or, where the kernel offers
//! no such pipe, the page is write-protected first and its bytes are read in place.

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_cache::SlotId;
use aquifer_device::AlignedBuffer;
use aquifer_map::Locked;
use aquifer_sys::PagePipe;

use crate::engine::Engine;
use crate::evict::{BATCH, Batch, Leaving};
use crate::fault::abort_in_fault;
use crate::pool::{Pool, PoolGuard};

/// Pipes of one heap: as many batches can be under way at a time.
const SAVERS: usize = 4;
const BUFFER_BYTES: usize = 4 * OS_PAGE_BYTES;
/// RAM of all savers.
pub(crate) const SAVERS_BYTES: usize = SAVERS * BUFFER_BYTES;

/// A pipe with a buffer to read it into.
pub(crate) struct Saver {
    pipe: PagePipe,
    buffer: AlignedBuffer,
}

/// The savers of a heap; `None` where the kernel does not offer the pipes.
pub(crate) fn savers() -> Option<Pool<Saver>> {
    let saver = || Some(Saver { pipe: PagePipe::new(BATCH).ok()?, buffer: AlignedBuffer::new(BUFFER_BYTES) });
    let savers: Vec<_> = (0..SAVERS).map_while(|_| saver()).collect();
    (!savers.is_empty()).then(|| Pool::new(savers))
}

impl Engine {
    /// Takes hold of the pages of `batch` that may have been written. If the kernel cannot, the pages are
    /// protected and saved here, and there is no saver.
    pub(crate) fn hold_written_in_fault(&self, batch: &mut Batch<'_>) -> Option<PoolGuard<'_, Saver>> {
        batch.writable().next()?;
        // A write to a page that is shared with a child would go to another page than the one in the pipe.
        let savers = self.savers.as_ref().filter(|_| !self.snapshot.has_children());
        let saver = savers.map(Pool::take_in_fault);
        if let Some(saver) = saver
            && self.try_hold_in_fault(batch, &saver.pipe)
        {
            return Some(saver);
        }
        self.protect_in_fault(batch);
        batch.save_each(|&Leaving { page, page_bytes, ref locked }| {
            // SAFETY: the page is present and write-protected, so it cannot change.
            let newer = unsafe { std::slice::from_raw_parts(self.address_of(page), page_bytes) };
            self.keep_in_fault(page, locked, newer)
        });
        None
    }

    fn try_hold_in_fault(&self, batch: &Batch<'_>, pipe: &PagePipe) -> bool {
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        let mut count = 0;
        for &Leaving { page, page_bytes, .. } in batch.writable() {
            parts[count] = libc::iovec { iov_base: self.address_of(page).cast(), iov_len: page_bytes };
            count += 1;
        }
        // SAFETY: the pages are mapped and their entries are held.
        unsafe { pipe.hold(&parts[..count]) }.is_ok()
    }

    /// Saves what the saver holds. The pages of the batch are unmapped.
    pub(crate) fn save_held_in_fault(&self, batch: &mut Batch<'_>, saver: &mut Saver) {
        let mut ahead = batch.writable().map(|leaving| leaving.page_bytes).sum::<usize>();
        let Saver { pipe, buffer } = saver;
        let (mut start, mut end) = (0, 0);
        batch.save_each(|&Leaving { page, page_bytes: len, ref locked }| {
            if end - start < len {
                buffer.copy_within(start..end, 0);
                (start, end) = (0, end - start);
                let part = ahead.min(BUFFER_BYTES - end);
                if pipe.read(&mut buffer[end..end + part]).is_err() {
                    abort_in_fault(b"the kernel lost pages of a heap that a pipe held\n");
                }
                end += part;
                ahead -= part;
            }
            start += len;
            self.keep_in_fault(page, locked, &buffer[start - len..start])
        });
    }

    /// Excludes writes to the writable pages of the batch, neighbours in one call.
    fn protect_in_fault(&self, batch: &Batch<'_>) {
        let mut writable = batch.writable().map(|leaving| leaving.page.0).peekable();
        while let Some(first) = writable.next() {
            let mut count = 1;
            while writable.next_if_eq(&(first + count as u64)).is_some() {
                count += 1;
            }
            // SAFETY: the pages are mapped and their entries are held.
            let outcome = unsafe {
                self.uffd.write_protect(self.address_of(PageId(first)), count * OS_PAGE_BYTES, true)
            };
            if outcome.is_err() {
                abort_in_fault(b"the kernel refused to write-protect pages of a heap\n");
            }
        }
    }

    /// Puts the bytes of the whole pages that were only read in their slots, which are to have memory from now on. Nobody
    /// can write to the pages: that would fault, and wait for their entries.
    pub(crate) fn save_read_only_in_fault(&self, batch: &Batch<'_>) {
        for &Leaving { page, page_bytes, ref locked } in batch.taken() {
            if page_bytes == OS_PAGE_BYTES && !locked.entry().is_writable() {
                let slot = SlotId(locked.entry().slot().expect("a mapped page has a slot"));
                // SAFETY: the page is present and write-protected; the slot is its own and has room for it.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        self.address_of(page),
                        self.cache.pointer(slot),
                        OS_PAGE_BYTES,
                    );
                }
                self.cache.set_has_memory(slot, true);
            }
        }
    }

    /// Puts the bytes that a page had at last in its slot. Returns whether they are new: those of a whole page, which had
    /// no others, if nothing tells that they are not.
    fn keep_in_fault(&self, page: PageId, locked: &Locked<'_>, newer: &[u8]) -> bool {
        let slot = SlotId(locked.entry().slot().expect("a mapped page has a slot"));
        // SAFETY: the slot is the page's, whose entry is held, and has room.
        let older = unsafe { std::slice::from_raw_parts_mut(self.cache.pointer(slot), newer.len()) };
        if newer.len() == OS_PAGE_BYTES {
            self.cache.set_has_memory(slot, true);
            older.copy_from_slice(newer);
            let is_as_mapped = self.has_digest_in_fault(slot, newer);
            if let Some(is_as_mapped) = is_as_mapped {
                self.first_writes.note_whole_in_fault(page.leaf(), !is_as_mapped);
            }
            return is_as_mapped != Some(true);
        }
        let written = newer != older;
        if written {
            older.copy_from_slice(newer);
        }
        written
    }
}

#[cfg(test)]
pub(crate) mod tests;
