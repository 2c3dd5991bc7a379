//! The file as memory: address to region, with the region's rights.

use std::sync::Arc;

use aquifer_base::Found;
use aquifer_sys::Userfaultfd;
use aquifer_sys::memory::{Discarder, Protection};
use aquifer_vm::fault::signal::{self, FaultTarget, Registration, Resolved};

use super::stack::Stack;
use crate::error::{Result, VolumeError};
use crate::frame::{Content, PageMemory};
use crate::key::Ino;
use crate::mapping::{AlonePages, Pages, Region, Regions, map_alone, open_faults, report};
use crate::word::PAGE_BYTES;

/// The whole file as memory of this process. Unmapped on drop.
pub struct StackMapping {
    target: Arc<Target>,
    region: Arc<Region>,
    _registration: Registration,
}

impl StackMapping {
    /// The first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.region.view.base())
    }

    /// Bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.target.stack.pages() as usize * PAGE_BYTES
    }
}

impl Drop for StackMapping {
    fn drop(&mut self) {
        self.target.regions.remove(&self.region);
        let pages = self.region.pages_mut();
        if let Pages::Alone(pages) = &*pages {
            let memory: Arc<dyn PageMemory> = Arc::clone(pages) as _;
            // A benchmark that lost pages finds that they are not what it wrote.
            let _ = self.target.stack.take_back(&memory);
        }
        self.region.end(pages);
    }
}

/// What faults of a file are resolved with.
pub(super) struct Mapped {
    faults: Arc<Userfaultfd>,
    hider: Arc<Discarder>,
}

impl Mapped {
    /// For a file that is not mapped yet.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new() -> Result<Self> {
        Ok(Mapped { faults: open_faults()?, hider: Arc::new(Discarder::new()) })
    }
}

struct Target {
    stack: Arc<Stack>,
    regions: Regions,
}

impl FaultTarget for Target {
    fn resolve_in_fault(&self, address: usize, write: bool) -> Option<Resolved> {
        let (region, index) = self.regions.find(address)?;
        let Pages::Alone(pages) = &*region.pages() else { return Some(Resolved::Failed) };
        let outcome = self.stack.resolve(region.view.access(), pages, index, write);
        Some(outcome.inspect_err(report).map_or(Resolved::Failed, Resolved::Found))
    }
}

impl Stack {
    /// Maps the file, which can be mapped once.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] for other rights than reading and writing; the system's.
    pub fn map(self: &Arc<Self>, access: Protection) -> Result<StackMapping> {
        if !matches!(access, Protection::Read | Protection::Write) {
            return Err(VolumeError::Invalid("the layered stack has no private mappings"));
        }
        let (len, mapped) = (self.pages() as usize * PAGE_BYTES, &self.mapped);
        let region = Arc::new(map_alone(Ino::FIRST_FREE, &mapped.faults, &mapped.hider, 0, len, access)?);
        let target = Arc::new(Target { stack: Arc::clone(self), regions: Regions::default() });
        target.regions.insert(&region);
        let as_target: Arc<dyn FaultTarget> = Arc::clone(&target) as _;
        let registration =
            signal::register(as_target, false).map_err(crate::mapping::failed("handling page faults"))?;
        Ok(StackMapping { target, region, _registration: registration })
    }

    /// Makes a page accessible through a view: for stores, if `is_write`.
    fn resolve(
        &self,
        access: Protection,
        pages: &Arc<AlonePages>,
        index: u32,
        is_write: bool,
    ) -> Result<Found> {
        if is_write && access != Protection::Write {
            return Err(VolumeError::PermissionDenied);
        }
        self.check(index)?;
        loop {
            let mut found = Found::Ram;
            let frame = self.page_placed(index, |page| {
                found = Found::Flash;
                pages.fill_run(index, &page[..])?;
                Ok(Content::Mapped(Arc::clone(pages) as _))
            })?;
            if is_write {
                let _open = self.begin()?;
                if let Some(mut state) = frame.changeable()? {
                    self.change(&frame, &mut state)?;
                    pages.show(index, &mut state, true)?;
                    state.is_writable = true;
                    return Ok(found);
                }
            } else if let Some(mut state) = frame.ready()? {
                if found == Found::Ram {
                    pages.show(index, &mut state, false)?;
                }
                return Ok(found);
            }
        }
    }
}
