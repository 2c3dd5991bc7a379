//! Files as memory.
//!
//! A fault goes from the address to the region, which carries the rights of this process, from there to the page's entry and to flash. A store to
//! a page that was not written since the last commit faults once more, so that commits know what changed.
//!
//! A range of a file that one view of this process shows is anonymous memory ([`AlonePages`]). When somebody else wants to see it, the file becomes
//! shared memory of which only those pages exist that are in RAM ([`SharedPages`]).

mod alone;
mod fault;
mod region;
mod shared;
mod usage;
mod view;

pub use alone::AlonePages;
use fault::read_asked;
pub(crate) use fault::resolve;
pub use region::Pages;
pub(crate) use region::{Region, Regions};
pub use shared::SharedPages;
pub(crate) use shared::failed;
pub use usage::SharedUse;
pub use view::View;

use std::sync::{Arc, OnceLock};

use aquifer_sys::memory::{Discarder, MappedRange, Protection};
use aquifer_sys::uffd::Features;
use aquifer_sys::{Userfaultfd, stderr};
use aquifer_vm::fault::signal::{self, FaultTarget, Registration, Resolved};

use crate::core::Core;
use crate::error::{Result, VolumeError};
use crate::frame::{Content, PageMemory};
use crate::inode::SIZE_BYTES_MAX;
use crate::inodes::Cell;
use crate::key::Ino;
use crate::volume::Volume;
use crate::word::PAGE_BYTES;

/// A part of a file that is memory of this process. Unmapped on drop.
///
/// What is stored is durable after [`Volume::sync`]. Accesses behind the end of the file, accesses to damaged
/// pages, and stores for which the volume has no room raise SIGBUS. A system call that is given an absent
/// page fails with `EFAULT`; touch it first. A forked child has no such memory. Unmapping it otherwise, or
/// discarding it by `madvise`, loses the only copy of changed bytes: the volume takes no more changes when it
/// misses them.
pub struct Mapping {
    volume: Arc<Volume>,
    region: Arc<Region>,
    len: usize,
}

impl Mapping {
    /// The first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.region.view.base())
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
            mapped.files.regions.remove(&self.region);
        }
        self.volume.unmap(&self.region);
        // An error of freeing a nameless file is found when the volume is opened next.
        let _ = self.volume.let_go(self.region.ino);
    }
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
    regions: Regions,
}

impl FaultTarget for MappedFiles {
    fn resolve_in_fault(&self, address: usize, write: bool) -> Option<Resolved> {
        let (region, index) = self.regions.find(address)?;
        let pages = region.pages();
        let ask = |first, count| {
            let region = Arc::clone(&region);
            self.core.readers.ask(move |core| {
                read_asked(core, region.ino, &region.pages(), &region.view, first, count);
            });
        };
        let outcome = fault::resolve(&self.core, region.ino, &pages, &region.view, index, write, ask);
        Some(outcome.inspect_err(report).map_or(Resolved::Failed, Resolved::Found))
    }
}

/// One line on standard error. The program may hold the lock of the standard library's, so that is not used.
pub(crate) fn report(error: &VolumeError) {
    let line = format!("aquifer: access to a mapped file fails: {error}\n");
    stderr::write(line.as_bytes());
}

/// Opens what faults of this process on mapped files are resolved with.
pub(crate) fn open_faults() -> Result<Arc<Userfaultfd>> {
    let shared = Features::MISSING_SHMEM | Features::MINOR_SHMEM | Features::WP_SHMEM;
    let opened = Userfaultfd::open(Features::SIGBUS | Features::POISON | shared);
    opened.map(Arc::new).map_err(failed("opening a userfaultfd, which mapped files need"))
}

/// Maps anonymous memory for pages from `first` on, whose faults are resolved from the moment that its region is known.
pub(crate) fn map_alone(
    ino: Ino,
    faults: &Arc<Userfaultfd>,
    hider: &Arc<Discarder>,
    first: u32,
    len: usize,
    access: Protection,
) -> Result<Region> {
    let is_writable = access == Protection::Write;
    let addresses = MappedRange::of_own_memory(len, is_writable).map_err(failed("mapping a file"))?;
    // SAFETY: the mapping is new, and its faults are resolved by the caller.
    unsafe { faults.register(addresses.base(), addresses.len(), true) }
        .map_err(failed("registering a mapping for page faults"))?;
    let view = view_of(&addresses, faults, hider, first, access);
    let pages = Pages::Alone(Arc::new(AlonePages::new(Arc::clone(&view))));
    Ok(Region::new(ino, view, addresses, pages))
}

fn view_of(
    addresses: &MappedRange,
    faults: &Arc<Userfaultfd>,
    hider: &Arc<Discarder>,
    first: u32,
    access: Protection,
) -> Arc<View> {
    let (base, pages) = (addresses.base() as usize, (addresses.len() / PAGE_BYTES) as u32);
    // SAFETY: the region owns the addresses, and is forgotten by all before it drops them.
    Arc::new(unsafe { View::new(Arc::clone(faults), base, first, pages, access) }.with_hider(hider))
}

/// Hands faults on a mapping of shared memory to us.
fn register_shared(faults: &Userfaultfd, addresses: &MappedRange, access: Protection) -> Result<()> {
    let is_tracked = matches!(access, Protection::Read | Protection::Write);
    // SAFETY: the region owns the addresses, and the caller resolves their faults.
    unsafe { faults.register_shared(addresses.base(), addresses.len(), is_tracked) }
        .map_err(failed("registering a mapping for page faults"))
}

impl Volume {
    /// Maps `len` bytes of a file from `offset`, a multiple of 4096, as memory of this process.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] for ranges that cannot be; the system's, for example on a kernel older than 6.8.
    pub fn map(self: &Arc<Self>, ino: Ino, offset: u64, len: usize, access: Protection) -> Result<Mapping> {
        self.map_as(ino, offset, len, access, false)
    }

    /// As [`Volume::map`], for a file that is also read and written by calls, or is going to be mapped more than once: calls on pages that are mapped cost
    /// less then, and bringing pages costs more.
    ///
    /// # Errors
    /// As [`Volume::map`].
    pub fn map_to_share(
        self: &Arc<Self>,
        ino: Ino,
        offset: u64,
        len: usize,
        access: Protection,
    ) -> Result<Mapping> {
        self.map_as(ino, offset, len, access, true)
    }

    fn map_as(
        self: &Arc<Self>,
        ino: Ino,
        offset: u64,
        len: usize,
        access: Protection,
        is_to_share: bool,
    ) -> Result<Mapping> {
        if len == 0 || !offset.is_multiple_of(PAGE_BYTES as u64) {
            return Err(VolumeError::Invalid("a mapping begins at a multiple of 4096 and has a length"));
        }
        if offset.checked_add(len as u64).is_none_or(|end| end > SIZE_BYTES_MAX) {
            return Err(VolumeError::TooLarge);
        }
        if access == Protection::Write {
            self.core().allow_changes()?;
        }
        self.file(ino)?;
        let mapped = self.mapped()?;
        let first = (offset / PAGE_BYTES as u64) as u32;
        let cell = self.cell(ino);
        let alone = cell.write();
        let can_be_alone = matches!(access, Protection::Read | Protection::Write) && {
            let pages = len.div_ceil(PAGE_BYTES) as u32;
            !is_to_share && cell.is_free(first, pages)
        };
        let region = if can_be_alone {
            let region = Arc::new(map_alone(ino, &mapped.faults, &mapped.hider, first, len, access)?);
            cell.add_alone(&region);
            region
        } else {
            let pages = self.share(ino, &cell)?;
            let addresses = pages.memory().map(offset, len, access).map_err(failed("mapping a file"))?;
            register_shared(&mapped.faults, &addresses, access)?;
            let view = view_of(&addresses, &mapped.faults, &mapped.hider, first, access);
            pages.add(Arc::clone(&view));
            Arc::new(Region::new(ino, view, addresses, Pages::Shared(pages)))
        };
        drop(alone);
        mapped.files.regions.insert(&region);
        self.hold(ino);
        Ok(Mapping { volume: Arc::clone(self), region, len })
    }

    fn mapped(&self) -> Result<&Mapped> {
        if let Some(mapped) = self.mapped.get() {
            return Ok(mapped);
        }
        let faults = open_faults()?;
        let files = Arc::new(MappedFiles { core: self.core_arc(), regions: Regions::default() });
        let target: Arc<dyn FaultTarget> = Arc::clone(&files) as _;
        let registration = signal::register(target, false).map_err(failed("handling page faults"))?;
        let hider = Arc::new(Discarder::new());
        let mapped = Mapped { files, faults, hider, _registration: registration };
        Ok(self.mapped.get_or_init(|| mapped))
    }

    /// The memory of a file's pages; those that are in RAM already move there. The caller has the cell alone.
    fn share(&self, ino: Ino, cell: &Cell) -> Result<Arc<SharedPages>> {
        if let Some(pages) = cell.shared_pages() {
            return Ok(pages);
        }
        let shared = Arc::new(SharedPages::closed()?);
        let regions = cell.alone();
        // A fault from here on waits for these locks.
        let mut seen: Vec<_> = regions.iter().map(|region| (region, region.pages_mut())).collect();
        for (_, pages) in &seen {
            self.take_back(ino, pages, usize::MAX)?;
        }
        for (region, pages) in &mut seen {
            let (faults, view) = (&self.mapped()?.faults, &region.view);
            let offset = u64::from(view.first_page()) * PAGE_BYTES as u64;
            let replaced = region.with_addresses(|addresses| {
                // While it is closed, accesses raise SIGBUS, and those who make them wait for us.
                // SAFETY: no page is there any more.
                unsafe { shared.memory().replace(addresses, offset, view.access()) }
                    .map_err(failed("sharing a mapped file"))?;
                register_shared(faults, addresses, view.access())
            });
            replaced.unwrap_or(Ok(()))?;
            shared.add(Arc::clone(view));
            **pages = Pages::Shared(Arc::clone(&shared));
        }
        shared.open()?;
        cell.set_shared(Arc::clone(&shared));
        let memory: Arc<dyn PageMemory> = Arc::clone(&shared) as _;
        for key in self.core().cache.keys_of(ino).into_iter().filter(|key| key.level() == 0) {
            let Some(frame) = self.core().cache.peek(key) else { continue };
            let Some(mut state) = frame.ready().unwrap_or(None) else { continue };
            if let Content::Own(bytes) = &state.content {
                shared.fill(key.index(), bytes)?;
                let sum = state.sum.or_else(|| self.core().cache.sums().of(bytes));
                state.sum = sum;
                state.content = Content::Mapped(Arc::clone(&memory));
            }
        }
        Ok(shared)
    }

    /// Copies pages in anonymous memory back to the cache: up to `pages_max` pages, and all that flash does
    /// not have.
    fn take_back(&self, ino: Ino, pages: &Pages, pages_max: usize) -> Result<()> {
        let Pages::Alone(pages) = pages else { return Ok(()) };
        let memory: Arc<dyn PageMemory> = Arc::clone(pages) as _;
        self.core().cache.take_all_out(ino, &memory, pages_max).inspect_err(|error| {
            // What is lost must not look as if it had been committed.
            self.core().stop(error);
        })
    }

    /// Takes back what a region shows, whose faults nobody resolves any more.
    fn unmap(&self, region: &Arc<Region>) {
        let cell = self.cell(region.ino);
        let _alone = cell.write();
        let pages = region.pages_mut();
        // If it fails, the volume takes no more changes and says so.
        let _ = self.take_back(region.ino, &pages, KEPT_AFTER);
        match &*pages {
            Pages::Alone(_) => cell.remove_alone(region),
            Pages::Shared(pages) => pages.remove(&region.view),
            Pages::Nowhere => {}
        }
        region.end(pages);
    }
}

/// Pages of anonymous memory that stay in RAM when they are unmapped, and need not be written: most programs that unmap gigabytes end.
const KEPT_AFTER: usize = 16 << 10;

/// The slot of a volume for what is mapped of it.
pub(crate) type MappedSlot = OnceLock<Mapped>;
