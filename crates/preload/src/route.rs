//! The heap, and which memory comes from it.

use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use aquifer::device::OpenError;
use aquifer::{Error, HeapError, PageHeap, Program, Strain};
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_sys::helper::is_helper;
use aquifer_sys::{Errno, insiders};
use aquifer_vm::FaultError;
use aquifer_vm::fork::is_forked;

use crate::caught;
use crate::memory;
use crate::proc;
use crate::protect;
use crate::report;
use crate::settings::Settings;
use crate::{libc_blocks, real};

/// The heap with its settings.
pub struct Route {
    /// Where large blocks come from.
    pub heap: PageHeap,
    /// What the environment says.
    pub settings: Settings,
}

/// The program.
struct Served {
    catches_calls: bool,
    kernel_waits: bool,
    ram_bytes_min: u64,
}

impl Program for Served {
    fn outside_bytes(&self, block_bytes: u64) -> u64 {
        report::outside_bytes(block_bytes)
    }

    fn for_each_call(&self, visit: &mut dyn FnMut(usize, usize)) {
        if self.catches_calls {
            caught::for_each_under_way(visit);
        }
    }

    fn use_without_faults(&self) -> Option<&'static str> {
        let has_ring = !self.kernel_waits && proc::has_ring();
        has_ring.then_some("it has set up an io_uring by an instruction of its own")
    }

    fn ram_bytes_min(&self) -> u64 {
        self.ram_bytes_min
    }

    fn strained(&self, strain: &Strain) {
        if let Some(route) = route() {
            report::tell_of_strain(route, strain);
        }
    }
}

/// What becoming managed allocates: buffers of faults, and tables that grow with the RAM.
const READY_BYTES: usize = 16 << 20;
const READY_PART: usize = 512;

static ROUTE: OnceLock<Route> = OnceLock::new();
/// First byte and length of the heap's range, for checks without a lock; 0 before there is one.
static BASE: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);
static HAS_SAID_WHY: AtomicBool = AtomicBool::new(false);
static HAS_SAID: AtomicBool = AtomicBool::new(false);

/// Begins to route.
///
/// # Errors
/// Why there is no heap; everything stays with the C library then.
pub fn begin(settings: Settings) -> Result<(), Error> {
    let mut heap = PageHeap::new(settings.options.clone())?;
    heap.serve(Arc::new(Served {
        catches_calls: settings.catches_calls,
        kernel_waits: settings.kernel_waits,
        ram_bytes_min: settings.ram_bytes_min,
    }));
    let (base, len) = heap.range();
    let (threshold, mapping) = (settings.threshold_bytes, settings.mapping_bytes);
    let catches_calls = settings.catches_calls;
    let adapts = settings.small_bytes_too.then_some(settings.ram_bytes);
    find_insiders();
    memory::keep_ready(READY_BYTES + settings.ram_bytes as usize / READY_PART);
    if ROUTE.set(Route { heap, settings }).is_ok() {
        BASE.store(base, Ordering::Relaxed);
        LEN.store(len, Ordering::Release);
        libc_blocks::begin(threshold, mapping, adapts);
        if catches_calls {
            caught::prepare();
        }
        prepare_threads();
    }
    Ok(())
}

/// Makes the heap's threads in a program with a malloc of its own: later its locks may be held, and the C library needs it to make
/// threads. Other programs have none before they need them.
pub fn prepare_threads() {
    if let Some(route) = ROUTE.get().filter(|_| real::has_own_malloc())
        && let Err(error) = route.heap.prepare_threads()
    {
        say(&format!(
            "{error}, which a program with a malloc of its own needs now; memory beyond its RAM is refused{}",
            Hint(&error)
        ));
        // It would be said of the flash.
        HAS_SAID_WHY.store(true, Ordering::Relaxed);
    }
}

/// The route, once there is one.
pub fn route() -> Option<&'static Route> {
    ROUTE.get()
}

/// Whether the heap has this address.
pub fn is_managed_address(address: usize) -> bool {
    let len = LEN.load(Ordering::Acquire);
    address.wrapping_sub(BASE.load(Ordering::Relaxed)) < len
}

/// Whether the heap has this block.
pub fn owns(block: *const c_void) -> bool {
    is_managed_address(block as usize)
}

/// The heap, for a block of `bytes` that the code at `caller` asks for; `None` if the C library has it.
pub fn heap_for(bytes: usize, caller: usize) -> Option<&'static PageHeap> {
    if bytes < libc_blocks::threshold() || is_insider(caller) { None } else { heap_that_gives() }
}

/// The heap, for a mapping of `bytes`; `None` if the kernel has it.
pub fn heap_for_mapping(bytes: usize) -> Option<&'static PageHeap> {
    if bytes < libc_blocks::threshold().min(libc_blocks::mapping_threshold()) {
        None
    } else {
        heap_that_gives()
    }
}

fn heap_that_gives() -> Option<&'static PageHeap> {
    if is_helper() {
        return None;
    }
    let heap = &ROUTE.get()?.heap;
    // A child of a process whose memory was a heap's has no heap.
    (!(heap.is_managed() && is_forked())).then_some(heap)
}

/// A block from the heap, NULL with `ENOMEM` if there is none.
pub fn allocate(heap: &PageHeap, bytes: usize, align: usize) -> *mut c_void {
    if let Some(block) = heap.try_allocate_small(bytes, align) {
        return block.cast();
    }
    // More is a mistake in the program, such as a negative size.
    if bytes > isize::MAX as usize - align {
        set_errno(libc::ENOMEM);
        return std::ptr::null_mut();
    }
    allocated(growing(heap, bytes, || heap.allocate(bytes, align)))
}

/// As [`allocate`]; blocks that are not small read as zeros.
pub fn allocate_fresh(heap: &PageHeap, bytes: usize, align: usize) -> *mut c_void {
    if let Some(block) = heap.try_allocate_small(bytes, align) {
        return block.cast();
    }
    if bytes > isize::MAX as usize - align {
        set_errno(libc::ENOMEM);
        return std::ptr::null_mut();
    }
    allocated(growing(heap, bytes, || heap.allocate_fresh(bytes, align)))
}

fn allocated(outcome: Result<*mut u8, Error>) -> *mut c_void {
    match outcome {
        Ok(block) => block.cast(),
        Err(error) => {
            say_why(&error);
            set_errno(libc::ENOMEM);
            std::ptr::null_mut()
        }
    }
}

/// Memory as that of `mmap` at a multiple of `align` bytes, NULL with `ENOMEM` if there is none.
pub fn map(heap: &PageHeap, bytes: usize, align: usize) -> *mut c_void {
    match growing(heap, bytes, || heap.map(bytes, align)) {
        Ok(mapped) => mapped.cast(),
        Err(error) => {
            say_why(&error);
            set_errno(libc::ENOMEM);
            std::ptr::null_mut()
        }
    }
}

/// Whether this is a block of ours. Memory that a program's own malloc has mapped holds blocks that are not; most of them are
/// told by where they begin.
pub fn is_block(block: *const c_void) -> bool {
    let address = block as usize;
    owns(block)
        && ROUTE.get().is_some_and(|route| {
            let heap = &route.heap;
            heap.is_small(address) || address.is_multiple_of(OS_PAGE_BYTES) && !heap.is_mapping(address)
        })
}

/// Makes a block longer or shorter where it is; false if it must move.
pub fn resize(heap: &PageHeap, address: usize, bytes: usize) -> bool {
    bytes <= isize::MAX as usize && growing(heap, bytes, || heap.resize(address, bytes)).unwrap_or(false)
}

/// Runs what makes blocks `bytes` longer, and may make ordinary memory a heap's.
pub fn growing<T>(
    heap: &PageHeap,
    bytes: usize,
    grow: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    if heap.is_managed() {
        return grow();
    }
    let ram = ROUTE.get().map_or(0, |route| route.settings.ram_bytes);
    // Much beside blocks makes it a heap's from less than a half of the RAM on.
    let may_take_over = heap.block_bytes() + bytes as u64 > ram / 8 * 3;
    let grown = if may_take_over { protect::while_growing(heap, grow) } else { grow() };
    if heap.is_managed() {
        libc_blocks::settle();
        say_if_slow();
    }
    grown
}

/// Says that faults take longer than they need to, where userfaultfd was wanted and refused.
fn say_if_slow() {
    if ROUTE.get().is_some_and(|route| route.settings.is_fenced && !route.settings.wants_fence) {
        crate::tell::tell!(
            "aquifer: {}: userfaultfd is refused here; absent memory is noticed by its protection, which is three times slower \
             (`aquifer doctor` says what would help)",
            program()
        );
    }
}

/// Makes the memory a heap's, whether or not it exceeds the RAM.
pub fn take_over(heap: &PageHeap) -> bool {
    let ram = ROUTE.get().map_or(0, |route| route.settings.ram_bytes) as usize;
    if !heap.is_managed()
        && ram > 0
        && let Ok(block) = growing(heap, ram, || heap.allocate(ram, 4096))
    {
        let _ = heap.free(block.expose_provenance());
    }
    heap.is_managed()
}

/// Says something once on standard error that a user should know.
pub fn say(text: &str) {
    if !HAS_SAID.swap(true, Ordering::Relaxed) {
        crate::tell::tell!("aquifer: {}: {text}", program());
    }
}

/// Says once on standard error why the heap cannot give what was asked for.
pub fn say_why(error: &Error) {
    if !HAS_SAID_WHY.swap(true, Ordering::Relaxed) {
        crate::tell::tell!("aquifer: memory was refused to {}: {error}{}", program(), Hint(error));
    }
}

/// What to do about an error that does not say so itself, behind a semicolon.
pub struct Hint<'a>(pub &'a Error);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hint(self.0).map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

fn hint(error: &Error) -> Option<&'static str> {
    let errno = match error {
        Error::Kernel { errno, .. } => Some(*errno),
        Error::Heap(HeapError::Fault(FaultError::Map { errno, .. })) => Some(*errno),
        _ => None,
    };
    Some(match (error, errno) {
        (_, Some(Errno(libc::EMFILE))) => "raise the limit on open files, as `ulimit -n 1024` does",
        (_, Some(Errno::ENOMEM)) => {
            "raise the limits on memory (`ulimit -v unlimited`, `ulimit -d unlimited`, or the container's) or on mappings (vm.max_map_count)"
        }
        (_, Some(_)) => "`aquifer doctor` tells what this kernel can do",
        (Error::InUse(_), _) => "`aquifer run --faults thread` serves that",
        (Error::Stack, _) => "give aquifer run a --threshold above the size of a stack",
        (Error::System { .. }, _) => {
            "raise the limit on processes and threads (ulimit -u), or the container's (docker run --pids-limit)"
        }
        (Error::Flash(OpenError::FileLimit { .. }), _) => "give aquifer run a smaller --flash-size",
        (Error::Flash(OpenError::NoSpace { .. }), _) => {
            "give aquifer run a smaller --flash-size, or another --flash"
        }
        (Error::Flash(OpenError::TooManyFiles { .. }) | Error::AddressSpace { .. }, _) => return None,
        (Error::Flash(_), _) => "give aquifer run another --flash",
        (Error::BudgetSmall { .. }, _) => "give aquifer run a larger --ram, or a smaller --flash-size",
        (
            Error::Invalid(_) | Error::UffdForbidden(_) | Error::KernelOld(..) | Error::BudgetLarge { .. },
            _,
        ) => {
            return None;
        }
        _ => "give aquifer run a larger --flash-size, or another --flash",
    })
}

/// Name of the program.
pub fn program() -> String {
    std::env::args_os().next().map_or_else(|| "?".into(), |name| name.to_string_lossy().into_owned())
}

pub fn set_errno(errno: i32) {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = errno };
}

/// Whether this is code of the C library, of the dynamic linker, of this library, whose threads Rust starts with memory of
/// `malloc`, or of what this library has loaded: it may be the program's malloc that asked for memory and made the heap start them, and holds its locks.
pub fn is_insider(caller: usize) -> bool {
    insiders::is_one(caller)
}

fn find_insiders() {
    let own = find_insiders as *const () as usize;
    insiders::note_modules(|module| {
        module.name.starts_with(b"libc.so") || module.name.starts_with(b"ld-linux") || module.has(own)
    });
}
