//! Memory that a program reserves with `PROT_NONE`, and asks for piece by piece: collectors and virtual machines do. What is reserved counts as
//! none, so that a program may reserve more than flash has.

use std::sync::{MutexGuard, PoisonError};

use aquifer_base::limits::{LEAF_RANGE_BYTES, OS_PAGE_BYTES};
use aquifer_heap::HeapError;
use aquifer_heap::paged::Pages;
use aquifer_sys::{Errno, SignalsBlocked};
use aquifer_vm::{Engine, FaultError, NativeRegion};

use super::{PageHeap, full};
use crate::error::Error;

/// Address space for reserves beside that for blocks, where it has no limit.
const RESERVE_BYTES: u64 = 16 << 30;

/// A region for blocks of `leaves`, and for reserves if there is room.
pub(super) fn region(leaves: u64, has_room: bool) -> Result<NativeRegion, Errno> {
    let for_reserves = if has_room { RESERVE_BYTES / LEAF_RANGE_BYTES as u64 } else { 0 };
    NativeRegion::new((leaves + for_reserves) as u32).or_else(|_| NativeRegion::new(leaves as u32))
}

fn refused(errno: Errno) -> Error {
    Error::Kernel { what: "to protect memory", errno }
}

fn refused_by_heap(error: FaultError) -> Error {
    Error::Heap(HeapError::Fault(error))
}

impl PageHeap {
    /// Runs `native` while the memory is ordinary and stays so, or `managed`.
    fn either<T>(&self, native: impl FnOnce() -> T, managed: impl FnOnce(&Engine) -> T) -> T {
        let becoming = self.becoming_managed.read().unwrap_or_else(PoisonError::into_inner);
        match self.managed.get() {
            Some(heap) => {
                drop(becoming);
                managed(&heap.parts.engine)
            }
            None => native(),
        }
    }

    /// Addresses for `bytes`, at a multiple of `align`, a power of two: nobody may touch them before they are asked for ([`PageHeap::commit`]). They
    /// are given back by [`PageHeap::unmap`].
    ///
    /// # Errors
    /// [`Error::Heap`] if address space is used up; the kernel has too many mappings.
    pub fn reserve(&self, bytes: usize, align: usize) -> Result<*mut u8, Error> {
        self.usable()?;
        let pages = bytes.div_ceil(OS_PAGE_BYTES) as u64;
        let used = self.reserved.len();
        if used + pages > self.reserved_max {
            return Err(full(pages, used, self.reserved_max).into());
        }
        let address = self.paged.allocate_mapping(pages, align, &mut |_| Ok(()), &mut |_| {})?;
        let pages = self.pages_of(address, bytes);
        self.reserved.insert(pages);
        if let Err(error) = self.set_closed(pages) {
            let _ = self.unmap(address, bytes);
            return Err(error);
        }
        Ok(std::ptr::with_exposed_provenance_mut(address))
    }

    /// Makes pages of a range that are nobody's reserved: who maps something at addresses that he has given back wants them again.
    ///
    /// # Errors
    /// The kernel has too many mappings.
    pub fn claim(&self, address: usize, bytes: usize) -> Result<(), Error> {
        self.usable()?;
        let mut claimed = Vec::new();
        self.paged.claim(address, bytes, &mut |pages| claimed.push(pages));
        claimed.into_iter().try_for_each(|pages| {
            self.reserved.insert(pages);
            self.set_closed(pages)
        })
    }

    fn set_closed(&self, pages: Pages) -> Result<(), Error> {
        self.either(
            || self.region.set_closed(pages, true).map_err(refused),
            |engine| engine.close_pages(pages.0, pages.1).map_err(refused_by_heap),
        )
    }

    fn set_open(&self, pages: Pages) -> Result<(), Error> {
        self.either(
            || self.region.set_closed(pages, false).map_err(refused),
            |engine| engine.open(pages.0, pages.1).map_err(refused_by_heap),
        )
    }

    /// One thread at a time makes pages memory or reserves: who asks for the same as another may use it when the call returns. No handler of a
    /// signal comes in between, which may ask, too.
    fn committing(&self) -> (MutexGuard<'_, ()>, SignalsBlocked) {
        let signals = SignalsBlocked::new();
        (self.committing.lock().unwrap_or_else(PoisonError::into_inner), signals)
    }

    /// Makes the reserved ones among the pages of a range ordinary: they read as zeros.
    ///
    /// # Errors
    /// As [`PageHeap::map`]; they are reserved.
    pub fn commit(&self, address: usize, bytes: usize) -> Result<(), Error> {
        self.usable()?;
        let _committing = self.committing();
        let mut runs = Vec::new();
        self.reserved.for_each_run(self.pages_of(address, bytes), &mut |pages, is_reserved| {
            if is_reserved {
                runs.push(pages);
            }
        });
        for pages in runs {
            self.promise(pages.1)?;
            self.reserved.remove(pages);
            if let Err(error) = self.set_open(pages).and_then(|()| self.overflow()) {
                self.decommit_pages(pages)?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Empties the pages of a range and makes them reserved.
    ///
    /// # Errors
    /// [`Error::Heap`] if a leaf cannot be read or changed; the kernel has too many mappings.
    pub fn decommit(&self, address: usize, bytes: usize) -> Result<(), Error> {
        self.usable()?;
        let _committing = self.committing();
        self.decommit_pages(self.pages_of(address, bytes))
    }

    fn decommit_pages(&self, pages: Pages) -> Result<(), Error> {
        self.set_closed(pages)?;
        self.take_back(self.reserved.insert(pages));
        Ok(())
    }

    /// Nobody may touch pages that are freed because they are reserved, or hidden: they are as others from here on. How many were reserved.
    pub(super) fn end_reserve(&self, pages: Pages) -> Result<u64, Error> {
        let closed = self.region.closed();
        if closed.is_empty() {
            return Ok(0);
        }
        if closed.count_in(pages) > 0 {
            self.set_open(pages)?;
        }
        Ok(self.reserved.remove(pages))
    }

    /// Whether any page of a range is reserved or hidden.
    pub fn is_closed(&self, address: usize, bytes: usize) -> bool {
        let closed = self.region.closed();
        !closed.is_empty() && closed.count_in(self.pages_of(address, bytes)) > 0
    }

    /// Where pages of a range begin and end that are not closed, in order.
    pub fn open_runs(&self, address: usize, bytes: usize) -> Vec<(usize, usize)> {
        let base = self.range().0;
        let mut runs = Vec::new();
        self.region.closed().for_each_run(self.pages_of(address, bytes), &mut |(first, count), is_closed| {
            let start = base + first.offset_bytes() as usize;
            if !is_closed {
                runs.push((start, start + count as usize * OS_PAGE_BYTES));
            }
        });
        runs
    }

    /// The program is about to map something else over pages of a heap, which stays there.
    pub fn keep_ranges(&self, address: usize, bytes: usize) {
        let (first, count) = self.pages_of(address, bytes);
        if let (Ok(()), Some(heap)) = (self.usable(), self.managed.get()) {
            heap.parts.engine.keep_ranges(first, count);
        }
    }

    /// Protects pages of a heap from every access. They keep their bytes, and need no RAM. False if they cannot be: they are as before.
    pub fn hide(&self, address: usize, bytes: usize) -> bool {
        let (first, count) = self.pages_of(address, bytes);
        self.usable().is_ok() && self.managed.get().is_some_and(|heap| heap.parts.engine.hide(first, count))
    }

    /// Ends [`PageHeap::hide`].
    ///
    /// # Errors
    /// The kernel has too many mappings; they are hidden.
    pub fn show(&self, address: usize, bytes: usize) -> Result<(), Error> {
        self.set_open(self.pages_of(address, bytes))
    }

    /// In a child of a process with a heap, which changes its copy itself: pages of a range are open.
    pub fn open_in_child(&self, address: usize, bytes: usize) {
        let pages = self.pages_of(address, bytes);
        self.region.closed().remove(pages);
        self.reserved.remove(pages);
    }

    /// Calls `visit` for all pages that may have bytes.
    pub(super) fn for_each_used(&self, visit: &mut dyn FnMut(Pages)) {
        self.paged.for_each_taken(&mut |pages| {
            self.reserved.for_each_run(pages, &mut |pages, is_reserved| {
                if !is_reserved {
                    visit(pages);
                }
            });
        });
    }
}
