//! Files as memory.
//!
//! A mapped file is shared memory of which only those pages exist that are in RAM. A fault goes from the address to the region, which carries the
//! rights of this process, from there to the page's entry and to flash. A store to a page that was not written since the last commit faults
//! once more, so that commits know what changed.

mod fault;
mod pages;
mod view;

pub(crate) use fault::resolve;
pub use pages::MappedPages;
pub(crate) use pages::failed;
pub use view::View;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use aquifer_base::Found;
use aquifer_sys::memory::{Discarder, Protection, SharedMapping};
use aquifer_sys::uffd::Features;
use aquifer_sys::{Userfaultfd, process};
use aquifer_vm::fault::signal::{self, FaultTarget, Registration};

use crate::core::Core;
use crate::error::{Result, VolumeError};
use crate::frame::{Content, PageMemory};
use crate::inode::SIZE_BYTES_MAX;
use crate::key::Ino;
use crate::volume::Volume;
use crate::word::PAGE_BYTES;

/// A part of a file that is memory of this process. Unmapped on drop.
///
/// What is stored is durable after [`Volume::sync`]. Accesses behind the end of the file, to pages that are damaged, and stores for which the volume
/// has no room raise SIGBUS. A system call that is given an absent page fails with `EFAULT`; touch it first. A forked child has no such memory.
pub struct Mapping {
    volume: Arc<Volume>,
    region: Arc<Region>,
    len: usize,
}

impl Mapping {
    /// The first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.region.addresses.base()
    }

    /// Bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(mapped) = self.volume.mapped.get() {
            let mut regions = mapped.files.regions.write().unwrap_or_else(PoisonError::into_inner);
            regions.remove(&self.region.view.base());
        }
        self.region.pages.remove(&self.region.view);
        // Whoever holds the file without a name learns of errors when the volume is opened next.
        let _ = self.volume.let_go(self.region.ino);
    }
}

/// A mapped range of addresses.
struct Region {
    ino: Ino,
    pages: Arc<MappedPages>,
    view: Arc<View>,
    addresses: SharedMapping,
}

/// What is mapped of a volume in this process.
pub(crate) struct Mapped {
    files: Arc<MappedFiles>,
    faults: Arc<Userfaultfd>,
    hider: Arc<Discarder>,
    _registration: Registration,
}

struct MappedFiles {
    core: Arc<Core>,
    regions: RwLock<BTreeMap<usize, Arc<Region>>>,
}

impl FaultTarget for MappedFiles {
    fn resolve_in_fault(&self, address: usize, write: bool) -> Option<Option<Found>> {
        let (region, index) = {
            let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
            let region = Arc::clone(regions.range(..=address).next_back()?.1);
            let index = region.view.page_at(address)?;
            (region, index)
        };
        let outcome = fault::resolve(&self.core, region.ino, &region.pages, &region.view, index, write);
        Some(outcome.inspect_err(report).ok())
    }
}

/// One line on standard error. The program may hold the lock of the standard library's, so that is not used.
fn report(error: &VolumeError) {
    let line = format!("aquifer: access to a mapped file fails: {error}\n");
    process::write_stderr(line.as_bytes());
}

impl Volume {
    /// Maps `len` bytes of a file from `offset`, a multiple of 4096, as memory of this process.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] for ranges that cannot be; the system's, for example on a kernel older than 6.8.
    pub fn map(self: &Arc<Self>, ino: Ino, offset: u64, len: usize, access: Protection) -> Result<Mapping> {
        if len == 0 || !offset.is_multiple_of(PAGE_BYTES as u64) {
            return Err(VolumeError::Invalid("a mapping begins at a multiple of 4096 and has a length"));
        }
        if offset.checked_add(len as u64).is_none_or(|end| end > SIZE_BYTES_MAX) {
            return Err(VolumeError::TooLarge);
        }
        let is_private = matches!(access, Protection::CopyOnWrite | Protection::ReadPrivately);
        if access == Protection::Write {
            self.core().allow_changes()?;
        }
        self.file(ino)?;
        let pages = self.shared_pages(ino)?;
        let mapped = self.mapped()?;
        let addresses = pages.memory().map(offset, len, access).map_err(failed("mapping a file"))?;
        // SAFETY: the mapping is new, and its faults are resolved from the moment that it is known below.
        unsafe { mapped.faults.register_shared(addresses.base(), addresses.len(), !is_private) }
            .map_err(failed("registering a mapping for page faults"))?;
        let (first, count) = ((offset / PAGE_BYTES as u64) as u32, (addresses.len() / PAGE_BYTES) as u32);
        let (faults, base) = (Arc::clone(&mapped.faults), addresses.base() as usize);
        // SAFETY: the region owns the addresses, and is forgotten by all before it drops them.
        let view = unsafe { View::new(faults, base, first, count, access) }.with_hider(&mapped.hider);
        let region = Arc::new(Region { ino, pages, view: Arc::new(view), addresses });
        region.pages.add(Arc::clone(&region.view));
        let mut regions = mapped.files.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions.insert(region.view.base(), Arc::clone(&region));
        drop(regions);
        self.hold(ino);
        Ok(Mapping { volume: Arc::clone(self), region, len })
    }

    fn mapped(&self) -> Result<&Mapped> {
        if let Some(mapped) = self.mapped.get() {
            return Ok(mapped);
        }
        let wanted = Features::SIGBUS | Features::MISSING_SHMEM | Features::MINOR_SHMEM | Features::WP_SHMEM;
        let faults =
            Userfaultfd::open(wanted).map_err(failed("opening a userfaultfd, which mapped files need"))?;
        let files = Arc::new(MappedFiles { core: self.core_arc(), regions: RwLock::default() });
        let target: Arc<dyn FaultTarget> = Arc::clone(&files) as _;
        let registration = signal::register(target).map_err(failed("handling page faults"))?;
        let (faults, hider) = (Arc::new(faults), Arc::new(Discarder::new()));
        let mapped = Mapped { files, faults, hider, _registration: registration };
        Ok(self.mapped.get_or_init(|| mapped))
    }

    /// The memory of a file's pages; those that are in RAM already move there.
    pub(crate) fn shared_pages(&self, ino: Ino) -> Result<Arc<MappedPages>> {
        let cell = self.cell(ino);
        let _alone = cell.write();
        if let Some(pages) = cell.mapped_pages() {
            return Ok(pages);
        }
        let pages = Arc::new(MappedPages::new()?);
        let memory: Arc<dyn PageMemory> = Arc::clone(&pages) as _;
        for key in self.core().cache.keys_of(ino).into_iter().filter(|key| key.level() == 0) {
            let Some(frame) = self.core().cache.peek(key) else { continue };
            let Some(mut state) = frame.ready()? else { continue };
            if let Content::Own(bytes) = &state.content {
                pages.fill(key.index(), bytes)?;
                state.content = Content::Mapped(Arc::clone(&memory));
            }
        }
        cell.set_mapped_pages(Arc::clone(&pages));
        Ok(pages)
    }
}

/// The slot of a volume for what is mapped of it.
pub(crate) type MappedSlot = OnceLock<Mapped>;
