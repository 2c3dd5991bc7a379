//! Device, log, engine and allocator put together.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aquifer_base::limits::{LEAF_PAGES, LEAF_RANGE_BYTES, PAGE_ID_BITS, RAM_BYTES_MIN};
use aquifer_base::profile::Profile;
use aquifer_device::{Counted, Counters, Device, FileDevice, OpenError, Site};
use aquifer_heap::Allocator;
use aquifer_log::Log;
use aquifer_log::geometry::SEGMENTS_MIN;
use aquifer_sys::helper::{self, Helper};
use aquifer_sys::{Errno, Features, Fence, Userfaultfd, process};
use aquifer_vm::fault::{signal, thread};
use aquifer_vm::fork::{self, Children, ForkGuard};
use aquifer_vm::{Budget, Engine, EngineOptions, NativeRegion};

use crate::device_profile;
use crate::error::Error;
use crate::options::{FLASH_BYTES_DEFAULT, Faults, Flash, OBJECT_BYTES_DEFAULT, Options, RAM_BYTES_DEFAULT};
use crate::remote::Remote;

/// Least flash of any heap: the segments that cleaning needs, of the smallest blocks.
const FLASH_BYTES_MIN: u64 = (SEGMENTS_MIN as u64 + 1) * (64 << 10);
/// Smallest record: a page of 16 bytes.
const RECORD_BYTES_MIN: u64 = 28;
/// Bytes that bookkeeping needs per leaf that is given out, whatever is in it.
const LEAF_FIXED_BYTES: u64 = 24;
/// What is known of about a thousand segments.
const SEGMENTS_FIXED_BYTES: u64 = 44 * 1024;
/// Record size that the fixed cost of bookkeeping is laid out for.
const RECORD_BYTES_TYPICAL: u64 = 140;

/// How faults reach the engine; they stop when this is dropped.
enum Delivery {
    Signal { _registration: signal::Registration },
    Thread { _handlers: thread::Handlers, _of_children: Option<signal::Registration> },
}

/// The running parts of a heap.
pub(crate) struct Assembly {
    pub(crate) allocator: Allocator,
    pub(crate) engine: Arc<Engine>,
    pub(crate) counted: Arc<Counted<Arc<dyn Device>>>,
    pub(crate) budget: Budget,
    pub(crate) remote: Option<Remote>,
    threads: Vec<Helper>,
    delivery: Option<Delivery>,
    fork_guard: Option<ForkGuard>,
}

impl Assembly {
    /// Threads that one starts.
    pub(crate) fn threads(options: &Options) -> usize {
        let handlers = if options.faults == Faults::Thread { thread::HANDLERS } else { 0 };
        Engine::THREADS + handlers
    }

    /// Threads that one starts if there is room for them.
    pub(crate) fn spare_threads(options: &Options) -> usize {
        if matches!(options.flash, Flash::Device(_)) { 0 } else { FileDevice::threads() }
    }

    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        aquifer_sys::stderr::note_once();
        Self::over(options, None)
    }

    /// Over a region that is ordinary memory yet, if one is given.
    pub(crate) fn over(options: &Options, region: Option<NativeRegion>) -> Result<Self, Error> {
        check_kernel()?;
        let ram = ram_bytes_asked(options)?;
        let profile = options.device_settings()?;
        let system = |error| Error::System { what: "the heap's threads could not be started".into(), error };
        // Where the device has threads, too, those of the heap come first: it can do without the others.
        let first = if Self::spare_threads(options) > 0 { Self::threads(options) } else { 0 };
        let _first = helper::reserve(first).map_err(|errno| system(io::Error::from_raw_os_error(errno.0)))?;
        let mut device = open_device(options, ram, &profile)?;
        let mut remote = None;
        if !options.donors.is_empty() {
            let found = Remote::before(device, options, ram)?;
            device = Arc::clone(&found.device) as Arc<dyn Device>;
            remote = Some(found);
        }
        let ram = ram.saturating_sub(remote.as_ref().map_or(0, |remote| remote.ram_bytes));
        let flash = device.len_bytes();
        let beside = remote.as_ref().map_or(0, |remote| remote.ram_bytes);
        // Connections to donors, and what is known of their pages, take a part of what was asked for.
        check_budget(options, ram, flash).map_err(|error| match error {
            Error::BudgetSmall { given, minimum, flash } => {
                Error::BudgetSmall { given: given + beside, minimum: minimum + beside, flash }
            }
            other => other,
        })?;
        let object_bytes = object_bytes(options);
        let fixed = fixed_bytes(flash, object_bytes) as usize;
        let block = device_profile::block_bytes(&profile, ram, flash);
        let budget = Budget::divide(ram as usize, block, fixed, flash, object_bytes);
        let geometry = device_profile::geometry(&profile, flash, block).ok_or(Error::FlashSmall {
            given: flash,
            minimum: (u64::from(SEGMENTS_MIN) + 1) * block as u64,
        })?;
        let counted = Arc::new(Counted::new(device.clone()));
        let (log, fresh, survivor) = Log::new(counted.clone(), geometry);
        log.set_write_depth(device_profile::write_depth(&profile));
        let usable = log.usable_bytes(0);
        let faults = options.faults.here();
        let engine_options = EngineOptions {
            budget,
            leaves: region.as_ref().map_or_else(|| region_leaves(usable), NativeRegion::leaves),
            policy: options.policy,
            compression: options.compression,
            trap: faults.trap(),
            read_ahead_pages: device_profile::read_ahead_pages(&profile),
        };
        let children = if region.is_some() { Children::Snapshot } else { Children::Excluded };
        let engine = match region {
            Some(region) => Engine::over(region, engine_options, log),
            None => Engine::new(engine_options, log),
        };
        let engine = engine.map_err(|errno| match errno {
            Errno::EPERM | Errno::ENOSYS => Error::UffdForbidden(errno),
            errno => Error::Kernel { what: "address space or userfaultfd for a heap", errno },
        })?;
        let engine = Arc::new(engine);
        let by_signal = || {
            signal::register(engine.clone(), faults == Faults::Fence)
                .map_err(|errno| Error::Kernel { what: "a handler for page faults", errno })
        };
        let delivery = match faults {
            Faults::Signal | Faults::Fence => Delivery::Signal { _registration: by_signal()? },
            Faults::Thread => Delivery::Thread {
                _handlers: thread::start(&(engine.clone() as Arc<dyn thread::FaultSource>))
                    .map_err(system)?,
                // A child has no threads of its parent.
                _of_children: (children == Children::Snapshot).then(by_signal).transpose()?,
            },
        };
        let threads = engine.start(fresh, survivor).map_err(system)?;
        let fork_guard = fork::guard(engine.clone(), children);
        let allocator = Allocator::new(engine.clone());
        let delivery = Some(delivery);
        Ok(Self { allocator, engine, counted, budget, remote, threads, delivery, fork_guard })
    }

    pub(crate) fn device_counters(&self) -> Counters {
        self.counted.counters()
    }
}

impl Drop for Assembly {
    fn drop(&mut self) {
        if fork::is_forked() {
            // The threads are the parent's, and so is everything they use.
            std::mem::forget(std::mem::take(&mut self.threads));
            std::mem::forget(self.delivery.take());
            std::mem::forget(self.engine.clone());
            std::mem::forget(self.remote.take());
            return;
        }
        self.engine.close();
        for thread in self.threads.drain(..) {
            thread.join();
        }
        self.delivery = None;
        self.fork_guard = None;
    }
}

/// The RAM budget that the options ask for.
pub(crate) fn ram_bytes_asked(options: &Options) -> Result<u64, Error> {
    let ram = options.ram_bytes.unwrap_or(RAM_BYTES_DEFAULT);
    let machine = process::machine_ram_bytes();
    if ram > machine { Err(Error::BudgetLarge { given: ram, machine }) } else { Ok(ram) }
}

/// The size of the flash that the options ask for, or of the block device that they name.
pub(crate) fn flash_bytes_asked(options: &Options) -> Result<u64, Error> {
    let asked = match (&options.flash, options.flash_bytes) {
        (Flash::Device(device), _) => device.len_bytes(),
        (_, Some(bytes)) => bytes,
        (Flash::Path(path), None) => block_device_bytes(path).unwrap_or(FLASH_BYTES_DEFAULT),
        (Flash::Default, None) => FLASH_BYTES_DEFAULT,
    };
    check_budget(options, ram_bytes_asked(options)?, asked)?;
    Ok(asked)
}

/// Whether this machine can give a heap these options, as far as that can be told without making one.
pub(crate) fn check(options: &Options) -> Result<(), Error> {
    check_kernel()?;
    ram_bytes_asked(options)?;
    let wanted = flash_bytes_asked(options)?;
    options.device_settings()?;
    if !options.donors.is_empty() {
        crate::remote::check(options)?;
    }
    let uffd = |features| Userfaultfd::open(features).map(drop).map_err(Error::UffdForbidden);
    match options.faults.here() {
        Faults::Signal => uffd(Features::SIGBUS | Features::PAGEFAULT_FLAG_WP)?,
        // Without the privilege it works for the program's own accesses.
        Faults::Thread => uffd(Features::PAGEFAULT_FLAG_WP)?,
        Faults::Fence => {
            let refused =
                |errno| Error::Kernel { what: "/proc/self/mem, which faults by protection need", errno };
            Fence::open().map(drop).map_err(refused)?
        }
    }
    let Some(path) = flash_path(&options.flash) else { return Ok(()) };
    if wanted < FLASH_BYTES_MIN {
        return Err(Error::FlashSmall { given: wanted, minimum: FLASH_BYTES_MIN });
    }
    if FileDevice::holds_data(&path) {
        return Err(OpenError::HoldsData { path }.into());
    }
    let Site { available_bytes: available, is_shared: is_file, .. } = FileDevice::look(&path)?;
    if is_file && process::file_bytes_max().is_some_and(|most| most < wanted) {
        return Err(OpenError::FileLimit { path, wanted }.into());
    }
    if available < wanted {
        return Err(OpenError::NoSpace { path, wanted, available }.into());
    }
    Ok(())
}

/// The oldest kernel that heaps run on: major and minor version of Linux.
pub const KERNEL_MIN: (u32, u32) = (6, 8);

pub(crate) fn check_kernel() -> Result<(), Error> {
    let (major, minor) = process::kernel_version();
    if (major, minor) < KERNEL_MIN { Err(Error::KernelOld(major, minor)) } else { Ok(()) }
}

/// The size that most objects have.
fn object_bytes(options: &Options) -> usize {
    options.object_bytes.unwrap_or(OBJECT_BYTES_DEFAULT)
}

/// Bytes that a heap costs for its size, used or not.
fn fixed_bytes(flash_bytes: u64, object_bytes: usize) -> u64 {
    let record_bytes = RECORD_BYTES_TYPICAL.max(object_bytes as u64);
    let leaves = flash_bytes / record_bytes / LEAF_PAGES as u64 + 1;
    leaves * LEAF_FIXED_BYTES + SEGMENTS_FIXED_BYTES
}

fn check_budget(options: &Options, ram: u64, flash: u64) -> Result<(), Error> {
    let minimum = RAM_BYTES_MIN.max(fixed_bytes(flash, object_bytes(options)) * 8);
    if ram < minimum { Err(Error::BudgetSmall { given: ram, minimum, flash }) } else { Ok(()) }
}

/// Leaves so that the flash can be filled with the smallest objects.
fn region_leaves(usable_bytes: u64) -> u32 {
    let most = 1 << (PAGE_ID_BITS - LEAF_PAGES.trailing_zeros());
    // Half of the address space of a process stays free for the program.
    let address_space = (64u64 << 40) / LEAF_RANGE_BYTES as u64;
    (usable_bytes / RECORD_BYTES_MIN / LEAF_PAGES as u64 + 64).min(most).min(address_space) as u32
}

fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device())
}

fn block_device_bytes(path: &Path) -> Option<u64> {
    use std::io::{Seek, SeekFrom};
    let mut file = is_block_device(path).then(|| std::fs::File::open(path).ok())??;
    file.seek(SeekFrom::End(0)).ok()
}

fn open_device(options: &Options, ram: u64, profile: &Profile) -> Result<Arc<dyn Device>, Error> {
    match (&options.flash, flash_path(&options.flash)) {
        (Flash::Device(device), _) => Ok(device.clone()),
        (_, path) => Ok(Arc::new(open_file(options, &path.unwrap_or_default(), ram, profile)?)),
    }
}

/// Where it is; `None` for one that is open already.
pub(crate) fn flash_path(flash: &Flash) -> Option<PathBuf> {
    match flash {
        Flash::Device(_) => None,
        Flash::Path(path) => Some(path.clone()),
        Flash::Default => {
            let asked = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty());
            Some(asked.unwrap_or("/var/tmp".into()).into())
        }
    }
}

fn open_file(options: &Options, path: &Path, ram: u64, profile: &Profile) -> Result<FileDevice, Error> {
    let len = if is_block_device(path) {
        options.flash_bytes.unwrap_or(0)
    } else {
        let asked = options.flash_bytes.unwrap_or(FLASH_BYTES_DEFAULT);
        // Refused before a large file is made for it.
        check_budget(options, ram, asked)?;
        if asked < FLASH_BYTES_MIN {
            return Err(Error::FlashSmall { given: asked, minimum: FLASH_BYTES_MIN });
        }
        asked
    };
    if FileDevice::holds_data(path) {
        return Err(OpenError::HoldsData { path: path.to_owned() }.into());
    }
    let mut device = FileDevice::open(path, len / 4096 * 4096)?;
    device.mark_as_memory();
    device.remove_on_drop(true);
    if let Some(depth) = device_profile::depth(profile) {
        device.set_depth(depth);
    }
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aquifer_base::profile::Setting;

    #[test]
    fn a_file_is_as_deep_as_the_profile_says() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().flash_bytes(FLASH_BYTES_MIN);
        let depth =
            |profile: Profile| open_file(&options, folder.path(), RAM_BYTES_MIN, &profile).unwrap().depth();
        let Some(default) = depth(Profile::default()) else {
            println!("SKIPPED a_file_is_as_deep_as_the_profile_says: this system refuses io_uring");
            return;
        };
        assert_ne!(default, 7);
        let mut profile = Profile::default();
        profile.set(Setting::Depth, 7).unwrap();
        assert_eq!(depth(profile), Some(7));
    }

    #[test]
    fn the_log_is_divided_as_the_settings_say() {
        let device = Arc::new(aquifer_device::MemoryDevice::new(128 << 20, 4096));
        let options = Options::new().ram_bytes(32 << 20).flash(Flash::Device(device));
        let sizes = |options: Options| {
            let parts = Assembly::new(&options).unwrap();
            let geometry = parts.engine.log().geometry();
            (geometry.block_bytes, geometry.segment_bytes)
        };
        assert_eq!(sizes(options.clone()), (64 << 10, 64 << 10));
        let options = options.device_setting(Setting::SegmentBytes, 512 << 10).unwrap();
        assert_eq!(sizes(options.clone()), (64 << 10, 512 << 10));
        let options = options.device_setting(Setting::WriteBytes, 256 << 10).unwrap();
        assert_eq!(sizes(options), (256 << 10, 512 << 10));
    }
}
