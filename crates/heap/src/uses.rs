//! Objects that are used in place, and many at once.

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_vm::batch::Part;
use aquifer_vm::hints::Hint;

use crate::allocator::{Allocator, State};
use crate::error::HeapError;

/// An object in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Used {
    /// Where its bytes are.
    pub pointer: *mut u8,
    /// How many there are.
    pub bytes: usize,
}

impl Allocator {
    /// The pages of the object at `address`, if it has more than one or is a block.
    #[inline]
    fn pages_in_use(&self, address: usize, page: PageId) -> Result<Option<(PageId, usize)>, HeapError> {
        // Smaller pages are objects of one.
        if self.engine.leaves().page_bytes(page.leaf()) < OS_PAGE_BYTES {
            return Ok(None);
        }
        if self.is_array_element(page) {
            return Ok(None);
        }
        let bytes = self.usable_bytes(address)?;
        let is_one_page = bytes <= OS_PAGE_BYTES && self.paged_at(address).is_none();
        Ok((!is_one_page).then_some((page, bytes)))
    }

    /// The bytes of the object at `address`, in RAM until [`Allocator::end_use`]: an object of up to 4096 bytes where it is in
    /// the cache, a larger one at its address. Uses nest.
    ///
    /// # Errors
    /// [`HeapError::Foreign`], [`HeapError::DoubleFree`], [`HeapError::Pin`].
    #[inline]
    pub fn begin_use(&self, address: usize, write: bool) -> Result<Used, HeapError> {
        let page = self.engine.page_at(address).ok_or(HeapError::Foreign(address))?;
        match self.pages_in_use(address, page)? {
            None => {
                let bytes = self.engine.leaves().page_bytes(page.leaf());
                Ok(Used { pointer: self.engine.begin_use(page, write)?, bytes })
            }
            Some((_, bytes)) => {
                self.pin(address, bytes)?;
                Ok(Used { pointer: std::ptr::with_exposed_provenance_mut(address), bytes })
            }
        }
    }

    /// Ends one use of the object at `address`.
    ///
    /// # Errors
    /// [`HeapError::Pin`] if it is not in use.
    #[inline]
    pub fn end_use(&self, address: usize) -> Result<(), HeapError> {
        let page = self.engine.page_at(address).ok_or(HeapError::Foreign(address))?;
        match self.pages_in_use(address, page)? {
            None => Ok(self.engine.end_use(page)?),
            Some((_, bytes)) => self.unpin(address, bytes),
        }
    }

    /// Pages of the object at `address`; of an array its first, and of other pages of the heap just that one.
    fn pages_ahead(&self, state: &State, address: usize) -> Option<(PageId, u64)> {
        let page = self.engine.page_at(address)?;
        let count = self.object_at(state, address).map_or(1, |o| if o.count > 1 { 1 } else { o.pages });
        Some((page, count))
    }

    /// Brings the objects at `addresses` into RAM, all pages of each, with many reads under way at once. 0 is skipped.
    ///
    /// # Errors
    /// [`HeapError::SomeForeign`] if not all were this heap's, after the others were brought in; [`HeapError::Fault`] if some
    /// could not be read.
    pub fn prefetch(&self, addresses: &[usize]) -> Result<(), HeapError> {
        let given = addresses.iter().copied().filter(|&address| address != 0);
        let mut known = Vec::with_capacity(addresses.len());
        let mut foreign = Vec::new();
        {
            let state = self.state();
            for address in given.clone() {
                match self.pages_ahead(&state, address) {
                    Some(pages) => known.push(pages),
                    None => foreign.push(address),
                }
            }
        }
        let mut pages = known.iter().flat_map(|&(first, count)| (first.0..first.0 + count).map(PageId));
        self.engine.prefetch(&mut pages)?;
        match foreign.first() {
            None => Ok(()),
            Some(&first) => {
                Err(HeapError::SomeForeign { first, foreign: foreign.len(), given: given.count() })
            }
        }
    }

    /// Takes a hint about the memory of `bytes` from `address`.
    ///
    /// # Errors
    /// [`HeapError::Foreign`]; [`HeapError::Fault`] if what will be needed cannot be read.
    pub fn advise(&self, address: usize, bytes: usize, hint: Hint) -> Result<(), HeapError> {
        let (first, count) = self.pages_of(address, bytes)?;
        Ok(self.engine.advise(first, count, hint)?)
    }

    /// The parts of pages that `bytes` from `address` consist of, with the program's memory for them.
    ///
    /// # Errors
    /// [`HeapError::Foreign`] if they are not all in the heap; [`HeapError::Invalid`] if an object is too short for them.
    pub fn parts(
        &self,
        address: usize,
        bytes: usize,
        memory: *mut u8,
        parts: &mut Vec<Part>,
    ) -> Result<(), HeapError> {
        let mut done = 0;
        while done < bytes {
            let at = address + done;
            let page = self.engine.page_at(at).ok_or(HeapError::Foreign(at))?;
            let (offset, room) = (at % OS_PAGE_BYTES, self.engine.leaves().page_bytes(page.leaf()));
            let rest = bytes - done;
            if room == 0 {
                return Err(HeapError::DoubleFree(address));
            }
            if offset + rest > room && room < OS_PAGE_BYTES {
                return Err(HeapError::Invalid("a batch names more bytes than an object has"));
            }
            let part = rest.min(room - offset);
            parts.push(Part { page, offset, bytes: part, memory: memory.wrapping_add(done) });
            done += part;
        }
        Ok(())
    }
}
