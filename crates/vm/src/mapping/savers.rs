//! The bytes of written pages, which must outlive their unmapping.
//!
//! No write may be lost, so nobody may write between saving a page's bytes and unmapping it. Either a pipe holds
//! the page itself while it is unmapped and its bytes are read afterwards, or, where the kernel offers
//! no such pipe, the page is write-protected first and its bytes are read in place.

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_device::AlignedBuffer;
use aquifer_sys::PagePipe;

use super::{BATCH, Mapping};
use crate::context::{SAVER_BYTES, SAVERS};
use crate::fault::abort_in_fault;
use crate::pool::{Pool, PoolGuard};

/// A pipe with a buffer to read it into.
pub(super) struct Saver {
    pipe: PagePipe,
    buffer: AlignedBuffer,
}

/// The savers of a heap; `None` where the kernel does not offer the pipes.
pub(super) fn savers() -> Option<Pool<Saver>> {
    let saver = || Some(Saver { pipe: PagePipe::new(BATCH).ok()?, buffer: AlignedBuffer::new(SAVER_BYTES) });
    let savers: Vec<_> = (0..SAVERS).map_while(|_| saver()).collect();
    (!savers.is_empty()).then(|| Pool::new(savers))
}

/// From here on no write to the pages is lost.
pub(crate) enum Secured<'a> {
    /// Nothing was to be secured, or the pages are write-protected: their bytes are to be read before they vanish.
    AtAddress,
    /// A pipe holds the pages: their bytes are to be read when they have vanished.
    InPipe(Pipe<'a>),
}

/// Pages in a pipe, which are read in the order in which they were given.
pub(crate) struct Pipe<'a> {
    saver: PoolGuard<'a, Saver>,
    /// Bytes that the pipe still has.
    ahead: usize,
    /// What of the buffer was read and is not used up.
    start: usize,
    end: usize,
}

impl Pipe<'_> {
    /// The bytes of the next page, `len` as they were given.
    pub(crate) fn next_in_fault(&mut self, len: usize) -> &[u8] {
        let Saver { pipe, buffer } = &mut *self.saver;
        if self.end - self.start < len {
            buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            let part = self.ahead.min(SAVER_BYTES - self.end);
            if pipe.read(&mut buffer[self.end..self.end + part]).is_err() {
                abort_in_fault(b"the kernel lost pages of a heap that a pipe held\n");
            }
            self.end += part;
            self.ahead -= part;
        }
        self.start += len;
        &buffer[self.start - len..self.start]
    }
}

impl Mapping {
    /// Takes hold of up to [`BATCH`] pages that may have been written, each with its bytes that count.
    ///
    /// # Safety
    /// The pages are mapped and their entries are held.
    pub(crate) unsafe fn secure_in_fault(
        &self,
        written: impl Iterator<Item = (PageId, usize)> + Clone,
    ) -> Secured<'_> {
        if written.clone().next().is_none() {
            return Secured::AtAddress;
        }
        // A write to a page that is shared with a child would go to another page than the one in the pipe.
        if let Some(savers) = self.savers.as_ref().filter(|_| !self.has_children()) {
            let saver = savers.take_in_fault();
            let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
            let (mut count, mut ahead) = (0, 0);
            for (page, len) in written.clone() {
                parts[count] = libc::iovec { iov_base: self.address_of(page).cast(), iov_len: len };
                count += 1;
                ahead += len;
            }
            // SAFETY: passed on to the caller.
            if unsafe { saver.pipe.hold(&parts[..count]) }.is_ok() {
                return Secured::InPipe(Pipe { saver, ahead, start: 0, end: 0 });
            }
        }
        // SAFETY: passed on to the caller.
        unsafe { self.protect_in_fault(written.map(|(page, _)| page.0)) };
        Secured::AtAddress
    }

    /// Excludes writes to the pages, neighbours in one call.
    ///
    /// # Safety
    /// The pages are mapped and their entries are held.
    unsafe fn protect_in_fault(&self, pages: impl Iterator<Item = u64>) {
        let mut pages = pages.peekable();
        while let Some(first) = pages.next() {
            let mut count = 1;
            while pages.next_if_eq(&(first + count as u64)).is_some() {
                count += 1;
            }
            let address = self.address_of(PageId(first));
            // SAFETY: passed on to the caller.
            if unsafe { self.trap.protect(address, count * OS_PAGE_BYTES, true) }.is_err() {
                abort_in_fault(b"the kernel refused to write-protect pages of a heap\n");
            }
        }
    }
}
