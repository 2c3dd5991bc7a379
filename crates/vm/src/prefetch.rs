//! Batches into the cache: one thread, all reads under way at once.

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{LogAddress, PageId};
use aquifer_cache::{Class, SlotId};
use aquifer_device::{AlignedBuffer, ReadRequest};
use aquifer_log::{Kind, RecordId};
use aquifer_map::leaves::SCRATCH_BYTES;
use aquifer_map::{Locked, Place};
use aquifer_sys::SignalsBlocked;

use crate::engine::Engine;
use crate::error::FaultError;

/// Reads that are under way at a time.
const BATCH: usize = 64;

/// A page that this thread is filling.
struct Fill<'a> {
    page: PageId,
    page_bytes: usize,
    slot: SlotId,
    locked: Locked<'a>,
    place: Place,
}

impl Engine {
    /// Brings pages into the object cache. Pages that are in RAM or being brought in are skipped, and so is
    /// what finds no room: it is a hint, and the page will be faulted in.
    ///
    /// # Errors
    /// The first page that could not be read; the others of the batch are brought in.
    pub fn prefetch(&self, pages: &mut dyn Iterator<Item = PageId>) -> Result<(), FaultError> {
        let mut scratch = AlignedBuffer::new(SCRATCH_BYTES);
        let mut outcome = Ok(());
        loop {
            let _signals = SignalsBlocked::new();
            let mut fills = Vec::with_capacity(BATCH);
            let mut more = false;
            for page in &mut *pages {
                if self.entries.is_resident(page) {
                    continue;
                }
                match self.begin_fill(page, &mut scratch) {
                    Ok(fill) => fills.extend(fill),
                    Err(error) => outcome = outcome.and(Err(error)),
                }
                more = fills.len() == BATCH;
                if more {
                    break;
                }
            }
            if !fills.is_empty() {
                outcome = outcome.and(self.finish_fills(fills));
            }
            if !more {
                return outcome;
            }
        }
    }

    /// Takes a page that is not in RAM, with a slot for it.
    fn begin_fill(&self, page: PageId, scratch: &mut [u8]) -> Result<Option<Fill<'_>>, FaultError> {
        let page_bytes = self.leaves.page_bytes(page.leaf());
        let Some(class) = Class::for_bytes(page_bytes).filter(|_| page_bytes > 0) else {
            return Err(FaultError::NotAllocated(page));
        };
        let Some(locked) = self.entries.try_insert(page) else { return Ok(None) };
        let Some(slot) = self.cache.allocate(class, page, &self.entries) else {
            locked.remove();
            return Ok(None);
        };
        match self.leaves.locate_in_fault(page, scratch) {
            Ok(place) => Ok(Some(Fill { page, page_bytes, slot, locked, place })),
            Err(error) => {
                self.cache.free(slot);
                locked.remove();
                Err(FaultError::from_read(page, error))
            }
        }
    }

    fn finish_fills(&self, fills: Vec<Fill<'_>>) -> Result<(), FaultError> {
        let mut buffers = AlignedBuffer::new(fills.len() * SCRATCH_BYTES);
        let mut pending = Vec::with_capacity(fills.len());
        let mut rest = &mut buffers[..];
        for fill in fills {
            let (buffer, behind) = rest.split_at_mut(SCRATCH_BYTES);
            rest = behind;
            if let Some(pair) = self.fill_from_ram(fill, buffer) {
                pending.push(pair);
            }
        }
        let mut requests: Vec<ReadRequest<'_>> = Vec::with_capacity(pending.len());
        let mut fills = Vec::with_capacity(pending.len());
        for (fill, address, buffer) in pending {
            let range = self.log.device_range(address, fill.place.span_bytes(fill.page_bytes));
            requests.push(ReadRequest::new(range.start, &mut buffer[..(range.end - range.start) as usize]));
            fills.push((fill, address));
        }
        self.log.device().read_batch(&mut requests);
        let mut outcome = Ok(());
        for ((fill, address), request) in fills.into_iter().zip(requests) {
            outcome = outcome.and(self.finish_fill(fill, address, &request));
        }
        outcome
    }

    /// Fills pages that are zero or still in a write buffer; gives back what the device must be asked for.
    fn fill_from_ram<'a, 'b>(
        &'a self,
        fill: Fill<'a>,
        buffer: &'b mut [u8],
    ) -> Option<(Fill<'a>, LogAddress, &'b mut [u8])> {
        let Some(address) = fill.place.address() else {
            self.write_slot(&fill, &[0; OS_PAGE_BYTES][..fill.page_bytes]);
            self.keep(fill);
            return None;
        };
        let id = RecordId { kind: Kind::Page, number: fill.page.0 };
        let span = fill.place.span_bytes(fill.page_bytes);
        match self.log.read_buffered_in_fault(address, span, id, buffer) {
            Some(Ok(range)) if range.len() == fill.page_bytes => {
                self.write_slot(&fill, &buffer[range]);
                self.keep(fill);
                None
            }
            _ => Some((fill, address, buffer)),
        }
    }

    fn finish_fill(
        &self,
        fill: Fill<'_>,
        address: LogAddress,
        request: &ReadRequest<'_>,
    ) -> Result<(), FaultError> {
        let page = fill.page;
        if let Err(error) = request.result {
            self.log.count_io_error();
            self.drop_fill(fill);
            return Err(FaultError::Device { page, error });
        }
        let id = RecordId { kind: Kind::Page, number: page.0 };
        match self.log.find_in_fault(address, id, request.buf) {
            Ok(range) if range.len() == fill.page_bytes => {
                self.write_slot(&fill, &request.buf[range]);
                self.keep(fill);
                Ok(())
            }
            // Moved by the cleaner, or damaged: the single path tells which.
            _ => {
                self.drop_fill(fill);
                self.fill_singly(page)
            }
        }
    }

    fn fill_singly(&self, page: PageId) -> Result<(), FaultError> {
        let page_bytes = self.leaves.page_bytes(page.leaf());
        let Some(class) = Class::for_bytes(page_bytes) else { return Ok(()) };
        let Some(locked) = self.entries.try_insert(page) else { return Ok(()) };
        let mut context = self.contexts.take_in_fault();
        match self.fill_in_fault(page, page_bytes, class, &mut context) {
            Ok((slot, _)) => {
                let entry = locked.entry().cached(slot.0);
                locked.release(entry);
                Ok(())
            }
            Err(error) => {
                locked.remove();
                Err(error)
            }
        }
    }

    /// Fills the slot with the page's bytes, all of them.
    fn write_slot(&self, fill: &Fill<'_>, bytes: &[u8]) {
        assert_eq!(bytes.len(), fill.page_bytes);
        // SAFETY: the fill holds the entry of the page that owns the slot, and the slot has room.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.cache.pointer(fill.slot), bytes.len()) };
    }

    fn keep(&self, fill: Fill<'_>) {
        self.counters.prefetched.add(1);
        let entry = fill.locked.entry().cached(fill.slot.0);
        fill.locked.release(entry);
    }

    fn drop_fill(&self, fill: Fill<'_>) {
        self.cache.free(fill.slot);
        fill.locked.remove();
    }
}
