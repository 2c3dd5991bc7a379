//! Device, log, engine and allocator put together.

use std::sync::Arc;
use std::thread::JoinHandle;

use aquifer_base::limits::{LEAF_PAGES, LEAF_RANGE_BYTES, PAGE_ID_BITS, RAM_BYTES_MIN};
use aquifer_device::{Counted, Counters, Device, FileDevice};
use aquifer_heap::Allocator;
use aquifer_log::geometry::SEGMENTS_MIN;
use aquifer_log::{Geometry, Log};
use aquifer_sys::{Errno, process};
use aquifer_vm::fault::{signal, thread};
use aquifer_vm::fork::{self, ForkGuard};
use aquifer_vm::{Budget, Engine, EngineOptions};

use crate::error::Error;
use crate::options::{FLASH_BYTES_DEFAULT, Faults, Flash, Options, RAM_BYTES_DEFAULT};

/// Least flash of any heap: the segments that cleaning needs, of the smallest blocks.
const FLASH_BYTES_MIN: u64 = (SEGMENTS_MIN as u64 + 1) * (64 << 10);
/// Smallest record: a page of 16 bytes.
const RECORD_BYTES_MIN: u64 = 28;
/// Bytes that bookkeeping needs per leaf that is given out, whatever is in it.
const LEAF_FIXED_BYTES: u64 = 24;
/// Record size that the fixed cost of bookkeeping is laid out for.
const RECORD_BYTES_TYPICAL: u64 = 140;

/// How faults reach the engine; they stop when this is dropped.
enum Delivery {
    Signal { _registration: signal::Registration },
    Thread { _handlers: thread::Handlers },
}

/// The running parts of a heap.
pub(crate) struct Assembly {
    pub(crate) allocator: Allocator,
    pub(crate) engine: Arc<Engine>,
    pub(crate) counted: Arc<Counted<Arc<dyn Device>>>,
    pub(crate) budget: Budget,
    threads: Vec<JoinHandle<()>>,
    delivery: Option<Delivery>,
    fork_guard: Option<ForkGuard>,
}

impl Assembly {
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        check_kernel()?;
        let ram = options.ram_bytes.unwrap_or(RAM_BYTES_DEFAULT);
        let machine = process::machine_ram_bytes();
        if ram > machine {
            return Err(Error::BudgetLarge { given: ram, machine });
        }
        let device = open_device(options, ram)?;
        let flash = device.len_bytes();
        check_budget(ram, flash)?;
        let budget = Budget::divide(ram as usize, fixed_bytes(flash) as usize);
        let geometry = Geometry::choose(flash, budget.block).ok_or(Error::FlashSmall {
            given: flash,
            minimum: (u64::from(SEGMENTS_MIN) + 1) * budget.block as u64,
        })?;
        let counted = Arc::new(Counted::new(device.clone()));
        let (log, fresh, survivor) = Log::new(counted.clone(), geometry);
        let usable = log.usable_bytes(0);
        let engine_options = EngineOptions {
            budget,
            leaves: region_leaves(usable),
            policy: options.policy,
            signal_faults: options.faults == Faults::Signal,
        };
        let engine = Engine::new(engine_options, log).map_err(|errno| match errno {
            Errno::EPERM | Errno::ENOSYS => Error::UffdForbidden(errno),
            errno => Error::Kernel { what: "address space or userfaultfd for a heap", errno },
        })?;
        let engine = Arc::new(engine);
        let system = |error| Error::System { what: "the heap's threads could not be started".into(), error };
        let delivery = match options.faults {
            Faults::Signal => Delivery::Signal {
                _registration: signal::register(engine.clone())
                    .map_err(|errno| Error::Kernel { what: "a handler for page faults", errno })?,
            },
            Faults::Thread => Delivery::Thread { _handlers: thread::start(&engine).map_err(system)? },
        };
        let threads = engine.start(fresh, survivor).map_err(system)?;
        let fork_guard = fork::guard(&engine);
        let allocator = Allocator::new(engine.clone());
        let delivery = Some(delivery);
        Ok(Self { allocator, engine, counted, budget, threads, delivery, fork_guard })
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
            return;
        }
        self.engine.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.delivery = None;
        self.fork_guard = None;
    }
}

fn check_kernel() -> Result<(), Error> {
    let (major, minor) = process::kernel_version();
    if (major, minor) < (6, 8) { Err(Error::KernelOld(major, minor)) } else { Ok(()) }
}

/// Bytes that a heap costs for its size, used or not.
fn fixed_bytes(flash_bytes: u64) -> u64 {
    let leaves = flash_bytes / RECORD_BYTES_TYPICAL / LEAF_PAGES as u64 + 1;
    leaves * LEAF_FIXED_BYTES + 20 * 1024
}

fn check_budget(ram: u64, flash: u64) -> Result<(), Error> {
    let minimum = RAM_BYTES_MIN.max(fixed_bytes(flash) * 8);
    if ram < minimum { Err(Error::BudgetSmall { given: ram, minimum, flash }) } else { Ok(()) }
}

/// Leaves so that the flash can be filled with the smallest objects.
fn region_leaves(usable_bytes: u64) -> u32 {
    let most = 1 << (PAGE_ID_BITS - LEAF_PAGES.trailing_zeros());
    // Half of the address space of a process stays free for the program.
    let address_space = (64u64 << 40) / LEAF_RANGE_BYTES as u64;
    (usable_bytes / RECORD_BYTES_MIN / LEAF_PAGES as u64 + 64).min(most).min(address_space) as u32
}

fn open_device(options: &Options, ram: u64) -> Result<Arc<dyn Device>, Error> {
    let path = match &options.flash {
        Flash::Device(device) => return Ok(device.clone()),
        Flash::Path(path) => path.clone(),
        Flash::Default => {
            std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty()).unwrap_or("/var/tmp".into()).into()
        }
    };
    use std::os::unix::fs::FileTypeExt;
    let is_block = std::fs::metadata(&path).is_ok_and(|meta| meta.file_type().is_block_device());
    let len = if is_block {
        options.flash_bytes.unwrap_or(0)
    } else {
        let asked = options.flash_bytes.unwrap_or(FLASH_BYTES_DEFAULT);
        // Refused before a large file is made for it.
        check_budget(ram, asked)?;
        if asked < FLASH_BYTES_MIN {
            return Err(Error::FlashSmall { given: asked, minimum: FLASH_BYTES_MIN });
        }
        asked
    };
    let mut device = FileDevice::open(&path, len / 4096 * 4096)?;
    device.remove_on_drop(true);
    Ok(Arc::new(device))
}
