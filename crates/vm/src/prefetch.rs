//! Batches into the cache: one thread, all reads under way at once.

use std::sync::atomic::{Ordering, fence};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{LogAddress, PageId};
use aquifer_cache::{Class, SlotId};
use aquifer_device::{AlignedBuffer, ReadRequest};
use aquifer_log::RecordId;
use aquifer_map::leaves::SCRATCH_BYTES;
use aquifer_map::{Locked, Place};
use aquifer_sys::SignalsBlocked;

use crate::engine::Engine;
use crate::error::FaultError;
use crate::trouble::WriterWait;

/// Pages that are filled together. The device works at full depth over all of them.
const BATCH: usize = 256;

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
        if self.natives.any() {
            return Ok(());
        }
        let mut scratch = AlignedBuffer::new(SCRATCH_BYTES);
        let mut outcome = Ok(());
        loop {
            let _signals = SignalsBlocked::new();
            let _pass = self.users_gate.pass_in_fault();
            self.unmap_due_in_fault();
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
                outcome = outcome.and(self.finish_fills(fills, &mut scratch));
            }
            if !more {
                return outcome;
            }
        }
    }

    /// Takes a page that is not in RAM, with a slot for it.
    fn begin_fill(&self, page: PageId, scratch: &mut [u8]) -> Result<Option<Fill<'_>>, FaultError> {
        let Some(locked) = self.insert_for_fill(page)? else { return Ok(None) };
        let Some((page_bytes, class)) = self.size_of_held(page) else {
            locked.remove();
            return Err(FaultError::NotAllocated(page));
        };
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

    /// Bytes and class of a page whose new entry the caller holds; `None` if its leaf is not given out. Looked at before
    /// there is an entry, the leaf could be taken back and given out for pages of another size before there is one.
    fn size_of_held(&self, page: PageId) -> Option<(usize, Class)> {
        fence(Ordering::SeqCst);
        let page_bytes = self.leaves.page_bytes(page.leaf());
        Class::for_bytes(page_bytes).filter(|_| page_bytes > 0).map(|class| (page_bytes, class))
    }

    /// An entry for a page that is not in RAM. If the table has no room, one of its rivals leaves first.
    fn insert_for_fill(&self, page: PageId) -> Result<Option<Locked<'_>>, FaultError> {
        if let Some(locked) = self.entries.try_insert(page) {
            return Ok(Some(locked));
        }
        if self.entries.is_resident(page) {
            return Ok(None);
        }
        self.evict_rival_in_fault(page, &mut WriterWait::default())?;
        Ok(self.entries.try_insert(page))
    }

    fn finish_fills(&self, fills: Vec<Fill<'_>>, scratch: &mut [u8]) -> Result<(), FaultError> {
        let pending: Vec<_> =
            fills.into_iter().filter_map(|fill| self.fill_from_ram(fill, scratch)).collect();
        let ranges = pending
            .iter()
            .map(|(fill, address)| self.log.device_range(*address, fill.place.span_bytes(fill.page_bytes)));
        let ranges: Vec<_> = ranges.collect();
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let mut buffer = AlignedBuffer::new((bytes as usize).max(1).next_multiple_of(OS_PAGE_BYTES));
        let mut rest = &mut buffer[..];
        let mut requests: Vec<ReadRequest<'_>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            let (own, behind) = rest.split_at_mut((range.end - range.start) as usize);
            rest = behind;
            requests.push(ReadRequest::new(range.start, own));
        }
        self.log.device().read_batch(&mut requests);
        let mut outcome = Ok(());
        for ((fill, address), request) in pending.into_iter().zip(requests) {
            outcome = outcome.and(self.finish_fill(fill, address, &request));
        }
        outcome
    }

    /// Fills pages that are zero or still in a write buffer; gives back what the device must be asked for.
    fn fill_from_ram<'a>(&'a self, fill: Fill<'a>, scratch: &mut [u8]) -> Option<(Fill<'a>, LogAddress)> {
        let Some(address) = fill.place.address() else {
            self.write_slot(&fill, &[0; OS_PAGE_BYTES][..fill.page_bytes]);
            self.keep(fill);
            return None;
        };
        let id = RecordId::of_page(fill.page.0, fill.page_bytes);
        let span = fill.place.span_bytes(fill.page_bytes);
        match self.log.read_buffered_in_fault(address, span, id, scratch) {
            Some(Ok(range)) if range.len() == fill.page_bytes => {
                self.write_slot(&fill, &scratch[range]);
                self.keep(fill);
                None
            }
            _ => Some((fill, address)),
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
        let id = RecordId::of_page(page.0, fill.page_bytes);
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
        let Some(locked) = self.entries.try_insert(page) else { return Ok(()) };
        let Some((page_bytes, class)) = self.size_of_held(page) else {
            locked.remove();
            return Ok(());
        };
        let mut context = self.contexts.take_in_fault();
        match self.fill_in_fault(page, page_bytes, class, &mut context) {
            Ok((slot, _)) => {
                self.cache.set_has_memory(slot, true);
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
        self.cache.set_has_memory(fill.slot, true);
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
