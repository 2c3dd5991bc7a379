//! Memory that becomes a heap's when it no longer fits in RAM.
//!
//! A program whose memory fits in its budget needs no heap. So a region can begin as ordinary memory, of which the kernel
//! alone takes care; an engine that is made over it later captures what is there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aquifer_base::limits::{LEAF_RANGE_BYTES, OS_PAGE_BYTES};
use aquifer_base::{LeafId, PageId};
use aquifer_cache::Class;
use aquifer_sys::memory::{Advice, advise, resident};
use aquifer_sys::{Errno, Reservation, SignalsBlocked};

use crate::engine::Engine;
use crate::error::FaultError;

/// Pages that are looked at together.
const CHUNK_PAGES: usize = 4096;

/// A region that is ordinary memory. Clones are the same region, which ends with the last of them and the engine over it.
#[derive(Clone, Debug)]
pub struct NativeRegion {
    pub(crate) reservation: Arc<Reservation>,
}

impl NativeRegion {
    /// Reserves address space for `leaves`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(leaves: u32) -> Result<Self, Errno> {
        let reservation = Reservation::new(leaves as usize * LEAF_RANGE_BYTES, LEAF_RANGE_BYTES)?;
        Ok(Self { reservation: Arc::new(reservation) })
    }

    /// Its first byte.
    pub fn base(&self) -> *mut u8 {
        self.reservation.base()
    }

    /// Its leaves.
    pub fn leaves(&self) -> u32 {
        (self.reservation.len() / LEAF_RANGE_BYTES) as u32
    }

    /// Empties `count` pages from `first`: they read as zeros. Nobody uses them meanwhile.
    ///
    /// # Errors
    /// The kernel's.
    pub fn release(&self, first: PageId, count: u64) -> Result<(), Errno> {
        let (offset, len) = (first.offset_bytes() as usize, count as usize * OS_PAGE_BYTES);
        if offset + len > self.reservation.len() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: in the region, whose pages the caller gives up.
        unsafe { advise(self.reservation.base().add(offset), len, Advice::DontNeed) }
    }
}

impl Engine {
    /// Takes over the region from the kernel: `taken` is asked for the runs of pages that are in use, first page and count. Other
    /// threads may use them meanwhile; their faults wait for nothing but their own pages.
    ///
    /// # Errors
    /// The kernel refused to hand the region over, which is ordinary memory then; or [`FaultError`].
    pub fn capture(&self, taken: &mut dyn FnMut() -> Vec<(PageId, u64)>) -> Result<(), FaultError> {
        let _signals = SignalsBlocked::new();
        self.is_capturing.store(true, Ordering::SeqCst);
        let leaves = (0..(self.region.len() / LEAF_RANGE_BYTES) as u32).map(LeafId);
        for leaf in leaves.clone() {
            self.leaves.set_page_bytes(leaf, OS_PAGE_BYTES);
            // Or a range would be dropped with its last captured page, and the other pages in it.
            self.ranges.enter_in_fault(leaf);
        }
        if let Err(errno) = self.take_over_region() {
            return Err(FaultError::Map { page: PageId(0), errno });
        }
        let mut outcome = Ok(());
        for (first, count) in taken() {
            let end = first.0 + count;
            for chunk in (first.0..end).step_by(CHUNK_PAGES) {
                let pages = (end - chunk).min(CHUNK_PAGES as u64) as usize;
                if outcome.is_ok() {
                    outcome = self.capture_chunk(PageId(chunk), pages);
                }
            }
        }
        self.is_capturing.store(false, Ordering::SeqCst);
        for leaf in leaves {
            self.leave_range_in_fault(leaf);
        }
        outcome
    }

    fn capture_chunk(&self, first: PageId, count: usize) -> Result<(), FaultError> {
        let mut present = vec![0; count];
        self.look(first, &mut present)?;
        for (page, _) in (first.0..).zip(present).filter(|(_, byte)| byte & 1 == 1) {
            self.adopt(PageId(page))?;
        }
        Ok(())
    }

    /// Which pages are present.
    fn look(&self, first: PageId, present: &mut [u8]) -> Result<(), FaultError> {
        // SAFETY: pages of the region.
        let looked = unsafe { resident(self.address_of(first), present) };
        looked.map_err(|errno| FaultError::Map { page: first, errno })
    }

    /// Gives a present page of ordinary memory an entry and a slot.
    fn adopt(&self, page: PageId) -> Result<(), FaultError> {
        self.unmap_due_in_fault();
        let locked = self.lock_in_fault(page)?;
        // A fault may have brought the page in and another may have evicted it since it was seen. While its entry is held
        // neither happens.
        let mut present = [0];
        let looked = if locked.before().is_some() { Ok(()) } else { self.look(page, &mut present) };
        if looked.is_err() || present[0] & 1 == 0 {
            locked.restore();
            return looked;
        }
        match self.own_page(page).and_then(|()| self.allocate_slot_in_fault(Class::WHOLE, page)) {
            Ok(slot) => {
                self.ranges.enter_in_fault(page.leaf());
                self.note_digest_in_fault(slot, None);
                let entry = locked.entry().mapped(slot.0, true);
                locked.release(entry);
                Ok(())
            }
            Err(error) => {
                locked.restore();
                Err(error)
            }
        }
    }

    /// Makes a present page the region's own, if it is the zero page or shared with a child: pages that are held by pipes
    /// must not change their place when they are written.
    fn own_page(&self, page: PageId) -> Result<(), FaultError> {
        // SAFETY: the page is the region's and present; no byte changes.
        unsafe { advise(self.address_of(page), OS_PAGE_BYTES, Advice::PopulateWrite) }
            .map_err(|errno| FaultError::Map { page, errno })
    }
}
