//! The file as memory: address to region, with the region's rights.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use aquifer_base::Found;
use aquifer_sys::memory::{Discarder, Protection, SharedMapping};
use aquifer_sys::uffd::Features;
use aquifer_sys::{Userfaultfd, process};
use aquifer_vm::fault::signal::{self, FaultTarget, Registration};

use super::stack::Stack;
use crate::error::{Result, VolumeError};
use crate::frame::Content;
use crate::mapping::{View, failed};
use crate::word::PAGE_BYTES;

/// The whole file as memory of this process. Unmapped on drop.
pub struct StackMapping {
    stack: Arc<Stack>,
    region: Arc<Region>,
    _registration: Registration,
}

impl StackMapping {
    /// The first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.region.addresses.base()
    }

    /// Bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.region.addresses.len()
    }
}

impl Drop for StackMapping {
    fn drop(&mut self) {
        self.stack
            .mapped
            .regions
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.region.view.base());
        self.stack.memory.remove(&self.region.view);
    }
}

struct Region {
    view: Arc<View>,
    addresses: SharedMapping,
}

type Regions = RwLock<BTreeMap<usize, Arc<Region>>>;

/// What is mapped of a file.
pub(super) struct Mapped {
    regions: Arc<Regions>,
    faults: Arc<Userfaultfd>,
    hider: Arc<Discarder>,
}

impl Mapped {
    /// Nothing yet.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new() -> Result<Self> {
        let wanted = Features::SIGBUS | Features::MISSING_SHMEM | Features::MINOR_SHMEM | Features::WP_SHMEM;
        let faults =
            Userfaultfd::open(wanted).map_err(failed("opening a userfaultfd, which mapped files need"))?;
        Ok(Mapped { regions: Arc::default(), faults: Arc::new(faults), hider: Arc::new(Discarder::new()) })
    }
}

struct Target {
    stack: Arc<Stack>,
    regions: Arc<Regions>,
}

impl FaultTarget for Target {
    fn resolve_in_fault(&self, address: usize, write: bool) -> Option<Option<Found>> {
        let (region, index) = {
            let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
            let region = Arc::clone(regions.range(..=address).next_back()?.1);
            let index = region.view.page_at(address)?;
            (region, index)
        };
        let outcome = self.stack.resolve(&region.view, index, write);
        Some(outcome.inspect_err(report).ok())
    }
}

fn report(error: &VolumeError) {
    let line = format!("aquifer: access to a file on the layered stack fails: {error}\n");
    process::write_stderr(line.as_bytes());
}

impl Stack {
    /// Maps the file.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] for other rights than reading and writing; the system's.
    pub fn map(self: &Arc<Self>, access: Protection) -> Result<StackMapping> {
        if !matches!(access, Protection::Read | Protection::Write) {
            return Err(VolumeError::Invalid("the layered stack has no private mappings"));
        }
        let len = self.pages() as usize * PAGE_BYTES;
        let addresses = self.memory.memory().map(0, len, access).map_err(failed("mapping a file"))?;
        // SAFETY: the mapping is new, and its faults are resolved from the moment that it is known below.
        unsafe { self.mapped.faults.register_shared(addresses.base(), addresses.len(), true) }
            .map_err(failed("registering a mapping for page faults"))?;
        let faults = Arc::clone(&self.mapped.faults);
        // SAFETY: the region owns the addresses, and is forgotten by all before it drops them.
        let view = unsafe { View::new(faults, addresses.base() as usize, 0, self.pages(), access) }
            .with_hider(&self.mapped.hider);
        let region = Arc::new(Region { view: Arc::new(view), addresses });
        self.memory.add(Arc::clone(&region.view));
        let mut regions = self.mapped.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions.insert(region.view.base(), Arc::clone(&region));
        drop(regions);
        let target = Arc::new(Target { stack: Arc::clone(self), regions: Arc::clone(&self.mapped.regions) });
        let registration = signal::register(target).map_err(failed("handling page faults"))?;
        Ok(StackMapping { stack: Arc::clone(self), region, _registration: registration })
    }

    /// Makes a page accessible through a view: for stores, if `is_write`.
    fn resolve(&self, view: &View, index: u32, is_write: bool) -> Result<Found> {
        if is_write && view.access() != Protection::Write {
            return Err(VolumeError::PermissionDenied);
        }
        self.check(index)?;
        loop {
            let mut found = Found::Ram;
            let frame = self.page_placed(index, |bytes| {
                found = Found::Flash;
                view.fill(index, bytes)?;
                Ok(Content::Mapped(Arc::clone(&self.memory) as _))
            })?;
            if is_write {
                let _open = self.begin()?;
                if let Some(mut state) = frame.changeable()? {
                    self.change(&frame, &mut state)?;
                    view.show(index, true)?;
                    state.is_writable = true;
                    return Ok(found);
                }
            } else if let Some(state) = frame.ready()? {
                if found == Found::Ram {
                    view.show(index, false)?;
                }
                drop(state);
                return Ok(found);
            }
        }
    }
}
