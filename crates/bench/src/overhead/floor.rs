//! The least that a fault handled in user space can cost here: SIGBUS into an empty handler that
//! copies one page in. What is above it is our own bookkeeping.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::overhead::Cost;
use crate::overhead::kernel::{PAGE_BYTES, PAGES, drop_all, touch_all};
use crate::peer::mapping::Mapping;
use crate::process::cpu_ns;

const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const UFFD_API: u64 = 0xAA;
const UFFD_FEATURE_SIGBUS: u64 = 1 << 7;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
const UFFDIO_API: libc::c_ulong = 0xC018_AA3F;
const UFFDIO_REGISTER: libc::c_ulong = 0xC020_AA00;
const UFFDIO_COPY: libc::c_ulong = 0xC028_AA03;

/// `struct uffdio_copy`.
#[repr(C)]
struct Copy {
    to: u64,
    from: u64,
    bytes: u64,
    mode: u64,
    copied: i64,
}

// What the signal handler needs; set before the first fault.
static UFFD: AtomicI32 = AtomicI32::new(-1);
static SOURCE: AtomicUsize = AtomicUsize::new(0);
static BASE: AtomicUsize = AtomicUsize::new(0);

/// Faults through SIGBUS and UFFDIO_COPY, with the copy alone and the drop beside them.
///
/// # Errors
/// [`Error::Unavailable`] if userfaultfd may not be used.
pub fn measure(runs: u32) -> Result<Vec<Cost>> {
    let memory = Mapping::anonymous(PAGES * PAGE_BYTES)?;
    let source = Mapping::anonymous(PAGE_BYTES)?;
    let uffd = open_uffd().map_err(|error| {
        Error::Unavailable(format!("userfaultfd cannot be used ({error}); see vm.unprivileged_userfaultfd"))
    })?;
    register(&uffd, &memory).map_err(Error::io("registering", "memory with userfaultfd"))?;
    UFFD.store(uffd.as_raw_fd(), Ordering::Relaxed);
    SOURCE.store(source.base().as_ptr().addr(), Ordering::Relaxed);
    BASE.store(memory.base().as_ptr().addr(), Ordering::Relaxed);
    let (mut fault_ns, mut copy_ns, mut drop_ns) = (Vec::new(), Vec::new(), Vec::new());
    let handler = Handler::install(on_sigbus).map_err(Error::io("installing", "the SIGBUS handler"))?;
    for _ in 0..runs {
        fault_ns.push(touch_all(&memory));
        drop_ns.push(drop_all(&memory)?);
        copy_ns.push(copy_all(&memory));
        drop_all(&memory)?;
    }
    drop(handler);
    Ok(vec![
        Cost {
            name: "floor: UFFDIO_COPY alone",
            ns: copy_ns,
            note: "one page per call, without a fault".to_owned(),
        },
        Cost {
            name: "floor: SIGBUS + UFFDIO_COPY",
            ns: fault_ns,
            note: "an empty handler in the faulting thread".to_owned(),
        },
        Cost {
            name: "floor: giving a page back",
            ns: drop_ns,
            note: "MADV_DONTNEED of 64 pages, per page".to_owned(),
        },
    ])
}

fn copy_all(memory: &Mapping) -> f64 {
    let start_ns = cpu_ns();
    for page in 0..PAGES {
        copy_in(memory.base().as_ptr().addr() + page * PAGE_BYTES);
    }
    (cpu_ns() - start_ns) as f64 / PAGES as f64
}

/// Fills the page at `address`; false if the kernel refused. Signal-safe.
fn copy_in(address: usize) -> bool {
    let mut copy = Copy {
        to: address as u64,
        from: SOURCE.load(Ordering::Relaxed) as u64,
        bytes: PAGE_BYTES as u64,
        mode: 0,
        copied: 0,
    };
    // SAFETY: the structure is the one this call takes; the kernel checks both addresses.
    unsafe { libc::ioctl(UFFD.load(Ordering::Relaxed), UFFDIO_COPY, &mut copy) == 0 }
}

fn open_uffd() -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
    // SAFETY: takes flags only.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    let uffd = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
    let mut api = [UFFD_API, UFFD_FEATURE_SIGBUS, 0];
    // SAFETY: three words are `struct uffdio_api`.
    match unsafe { libc::ioctl(uffd.as_raw_fd(), UFFDIO_API, api.as_mut_ptr()) } {
        0 => Ok(uffd),
        _ => Err(io::Error::last_os_error()),
    }
}

fn register(uffd: &OwnedFd, memory: &Mapping) -> io::Result<()> {
    let base = memory.base().as_ptr().addr() as u64;
    let mut range = [base, memory.bytes() as u64, UFFDIO_REGISTER_MODE_MISSING, 0];
    // SAFETY: four words are `struct uffdio_register`.
    match unsafe { libc::ioctl(uffd.as_raw_fd(), UFFDIO_REGISTER, range.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_sigbus(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo to a SA_SIGINFO handler of a fault signal.
    let address = unsafe { (*info).si_addr() }.addr();
    let ours = address.wrapping_sub(BASE.load(Ordering::Relaxed)) < PAGES * PAGE_BYTES;
    if !ours || !copy_in(address & !(PAGE_BYTES - 1)) {
        // SAFETY: abort is signal-safe; returning would fault for ever.
        unsafe { libc::abort() }
    }
}

/// What handles SIGBUS.
pub type Handle = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// A handler of SIGBUS for as long as something is measured: when it is dropped, the earlier one is back.
pub struct Handler {
    earlier: libc::sigaction,
}

impl Handler {
    /// Installs a signal-safe `handle`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn install(handle: Handle) -> io::Result<Self> {
        // SAFETY: zeroed sigactions are valid; the handler has the signature that SA_SIGINFO asks for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut earlier: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            match libc::sigaction(libc::SIGBUS, &action, &mut earlier) {
                0 => Ok(Self { earlier }),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: an action that sigaction gave us.
        unsafe { libc::sigaction(libc::SIGBUS, &self.earlier, ptr::null_mut()) };
    }
}
