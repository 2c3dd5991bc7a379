//! What this process has mapped, by address.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aquifer_sys::memory::MappedRange;

use super::alone::AlonePages;
use super::shared::SharedPages;
use super::view::View;
use crate::error::{Result, VolumeError};
use crate::frame::{FrameState, PageMemory};
use crate::key::Ino;

/// A mapped range of addresses.
pub struct Region {
    pub ino: Ino,
    pub view: Arc<View>,
    /// None once it is unmapped.
    addresses: Mutex<Option<MappedRange>>,
    pages: RwLock<Pages>,
}

/// Where the pages are that a view shows.
#[derive(Clone)]
pub enum Pages {
    /// In anonymous memory: nobody else sees these pages of the file.
    Alone(Arc<AlonePages>),
    /// In shared memory.
    Shared(Arc<SharedPages>),
    /// The region is no more; what was asked for in time is not put there.
    Nowhere,
}

/// Never shown: an access to unmapped memory gets a signal of the kernel's.
const UNMAPPED: VolumeError = VolumeError::Invalid("the file is not mapped there any more");

impl Region {
    /// A range whose view is `view`.
    pub fn new(ino: Ino, view: Arc<View>, addresses: MappedRange, pages: Pages) -> Self {
        Region { ino, view, addresses: Mutex::new(Some(addresses)), pages: RwLock::new(pages) }
    }

    /// What `work` makes of its addresses; `None` once it is unmapped.
    pub fn with_addresses<T>(&self, work: impl FnOnce(&MappedRange) -> T) -> Option<T> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(work)
    }

    /// Unmaps it. Others may know it still, but find nothing there.
    pub fn end(&self, mut pages: RwLockWriteGuard<'_, Pages>) {
        *pages = Pages::Nowhere;
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Where its pages are, which stays so until the guard is dropped.
    pub fn pages(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Region::pages`], to change it. Faults wait.
    pub fn pages_mut(&self) -> RwLockWriteGuard<'_, Pages> {
        self.pages.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    /// Puts bytes that were absent where the view shows them; stores fault.
    ///
    /// # Errors
    /// The system's.
    pub fn put(&self, view: &View, first: u32, bytes: &[u8]) -> Result<Arc<dyn PageMemory>> {
        match self {
            Pages::Alone(pages) => {
                pages.fill_run(first, bytes)?;
                Ok(Arc::clone(pages) as _)
            }
            Pages::Shared(pages) => {
                // A private view is filled by the kernel from what is present, so that its stores make a copy. What another process has at its addresses
                // may be other memory, which would have the page in place of ours.
                if view.is_private() || view.is_foreign() {
                    pages.fill_run(first, bytes)?;
                } else {
                    // Other views may wait for the page, also if the region that asked is gone.
                    view.fill(first, bytes).or_else(|_| pages.fill_run(first, bytes))?;
                }
                if view.is_foreign() && !view.is_private() {
                    // If that fails, the other process faults again.
                    let _ = view.show_run(first, bytes.len());
                }
                Ok(Arc::clone(pages) as _)
            }
            Pages::Nowhere => Err(UNMAPPED),
        }
    }

    /// Puts a page that was absent where the first access to it is seen. `None` if that is not in a memory of programs'.
    ///
    /// # Errors
    /// The system's.
    pub fn put_unseen(&self, index: u32, bytes: &[u8]) -> Result<Option<Arc<dyn PageMemory>>> {
        match self {
            Pages::Alone(_) => Ok(None),
            Pages::Shared(pages) => {
                pages.fill_run(index, bytes)?;
                Ok(Some(Arc::clone(pages) as _))
            }
            Pages::Nowhere => Err(UNMAPPED),
        }
    }

    /// Shows a page in the view that is in RAM. Stores fault unless `is_writable`.
    ///
    /// # Errors
    /// The system's.
    pub fn show(&self, view: &View, index: u32, state: &mut FrameState, is_writable: bool) -> Result<()> {
        match self {
            Pages::Alone(pages) => pages.show(index, state, is_writable),
            Pages::Shared(pages) => match view.show(index, is_writable) {
                // A process that may write the file has made a hole in its memory, or the view is of other memory.
                Err(VolumeError::System { errno: libc::EFAULT, .. }) => {
                    pages.make_present(index)?;
                    view.show(index, is_writable)
                }
                outcome => outcome,
            },
            Pages::Nowhere => Err(UNMAPPED),
        }
    }

    /// Lets a private view see a page that is in RAM.
    ///
    /// # Errors
    /// The system's.
    pub fn show_privately(&self, view: &View, index: u32) -> Result<()> {
        if let Pages::Shared(pages) = self {
            pages.make_present(index)?;
        }
        view.wake(index)
    }
}

/// All regions.
#[derive(Default)]
pub struct Regions(RwLock<BTreeMap<usize, Arc<Region>>>);

impl Regions {
    /// The region at an address, and the page of its file.
    pub fn find(&self, address: usize) -> Option<(Arc<Region>, u32)> {
        let regions = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let region = regions.range(..=address).next_back()?.1;
        Some((Arc::clone(region), region.view.page_at(address)?))
    }

    /// Knows a region from now on.
    pub fn insert(&self, region: &Arc<Region>) {
        let mut regions = self.0.write().unwrap_or_else(PoisonError::into_inner);
        regions.insert(region.view.base(), Arc::clone(region));
    }

    /// Forgets a region.
    pub fn remove(&self, region: &Region) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&region.view.base());
    }
}
