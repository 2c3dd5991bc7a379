//! Two ways to learn that a page which was only read has been written: its first write faults, or the kernel notes it
//! (`WP_ASYNC`, asked by `PAGEMAP_SCAN`). Asking leaves a gap before the page is unmapped, so with the second way the
//! pages that look clean must be copied, held and compared; that is a row of its own.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicPtr, Ordering};

use aquifer_sys::memory::PagePipe;
use aquifer_sys::{Features, Userfaultfd};

use crate::error::{Error, Result};
use crate::overhead::Cost;
use crate::overhead::floor::Handler;
use crate::overhead::kernel::{BATCH_PAGES, PAGE_BYTES, PAGES, drop_all, touch_all};
use crate::peer::mapping::Mapping;
use crate::process::cpu_ns;

/// `PAGEMAP_SCAN`, Linux 6.7.
const PAGEMAP_SCAN: libc::c_ulong = 0xC060_6610;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PM_SCAN_WP_MATCHING: u64 = 1 << 0;
const PM_SCAN_CHECK_WPASYNC: u64 = 1 << 1;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any_of_mask: u64,
    return_mask: u64,
}

/// What the handler uses; set before the first fault.
static UFFD: AtomicPtr<Userfaultfd> = AtomicPtr::new(std::ptr::null_mut());

fn refused(what: &'static str) -> impl Fn(aquifer_sys::Errno) -> Error {
    move |errno| Error::Unavailable(format!("{what}: {errno}"))
}

/// Both ways, in turn.
///
/// # Errors
/// [`Error::Unavailable`] if the kernel offers one of them to nobody.
pub fn measure(runs: u32) -> Result<Vec<Cost>> {
    let (mut by_fault, mut by_note, mut scanned, mut saved) = (vec![], vec![], vec![], vec![]);
    for _ in 0..runs {
        by_fault.push(fault_each()?);
        let (write, scan) = note_each()?;
        by_note.push(write);
        scanned.push(scan);
        saved.push(save_each()?);
    }
    let cost = |name, ns, note: &str| Cost { name, ns, note: note.to_owned() };
    Ok(vec![
        cost("first write: found by its fault", by_fault, "SIGBUS and UFFDIO_WRITEPROTECT, per page"),
        cost("first write: noted by WP_ASYNC", by_note, "per page"),
        cost(
            "first write: asked for by PAGEMAP_SCAN",
            scanned,
            "64 pages per call, per page, written or not",
        ),
        cost(
            "first write: clean page kept until unmapped",
            saved,
            "copied, held by a pipe, read, compared; per page",
        ),
    ])
}

/// Write-protected pages, present.
fn protected(wanted: Features) -> Result<(Mapping, Box<Userfaultfd>)> {
    let memory = Mapping::anonymous(PAGES * PAGE_BYTES)?;
    let source = Mapping::anonymous(PAGE_BYTES)?;
    let uffd = Userfaultfd::open(Features::PAGEFAULT_FLAG_WP | wanted).map_err(refused("userfaultfd"))?;
    let base = memory.base().as_ptr();
    // SAFETY: the mapping is this function's, and its faults are resolved by the caller's handler or the kernel.
    unsafe { uffd.register(base, memory.bytes(), true) }.map_err(refused("registering with userfaultfd"))?;
    for page in 0..PAGES {
        let copied =
            // SAFETY: the page is in the mapping and absent; the source is a page.
            unsafe { uffd.copy(base.add(page * PAGE_BYTES), source.base().as_ptr(), PAGE_BYTES, true) };
        copied.map_err(refused("UFFDIO_COPY"))?;
    }
    Ok((memory, Box::new(uffd)))
}

fn fault_each() -> Result<f64> {
    let (memory, mut uffd) = protected(Features::SIGBUS)?;
    UFFD.store(&raw mut *uffd, Ordering::Release);
    let handler = Handler::install(on_first_write).map_err(Error::io("installing", "the SIGBUS handler"))?;
    let ns = touch_all(&memory);
    drop(handler);
    UFFD.store(std::ptr::null_mut(), Ordering::Release);
    Ok(ns)
}

extern "C" fn on_first_write(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo to a SA_SIGINFO handler of a fault signal.
    let address = unsafe { (*info).si_addr() }.map_addr(|address| address & !(PAGE_BYTES - 1));
    // SAFETY: null, or set to one that outlives the handler.
    let uffd = unsafe { UFFD.load(Ordering::Acquire).as_ref() };
    let allowed =
        // SAFETY: the address is in memory that is registered with it, or the call fails.
        uffd.is_some_and(|uffd| unsafe { uffd.write_protect(address.cast(), PAGE_BYTES, false) }.is_ok());
    if !allowed {
        // SAFETY: abort is signal-safe; returning would fault for ever.
        unsafe { libc::abort() }
    }
}

/// Nanoseconds for each first write, and for each page that is asked for.
fn note_each() -> Result<(f64, f64)> {
    let (memory, uffd) = protected(Features::WP_ASYNC)?;
    let write_ns = touch_all(&memory);
    let pagemap = File::open("/proc/self/pagemap").map_err(Error::io("opening", "/proc/self/pagemap"))?;
    let mut regions = [[0u64; 3]; BATCH_PAGES];
    let base = memory.base().as_ptr().addr();
    let start_ns = cpu_ns();
    for first in (0..PAGES).step_by(BATCH_PAGES) {
        let start = (base + first * PAGE_BYTES) as u64;
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
            start,
            end: start + (BATCH_PAGES * PAGE_BYTES) as u64,
            regions: regions.as_mut_ptr().addr() as u64,
            regions_len: regions.len() as u64,
            category_mask: PAGE_IS_WRITTEN,
            return_mask: PAGE_IS_WRITTEN,
            ..Scan::default()
        };
        // SAFETY: the structure is the one this call takes, and names room for its regions.
        let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let all = start + (BATCH_PAGES * PAGE_BYTES) as u64;
        if found != 1 || regions[0][..2] != [start, all] {
            return Err(Error::Unavailable(format!(
                "PAGEMAP_SCAN found {found} runs of written pages, not one"
            )));
        }
    }
    let scan_ns = (cpu_ns() - start_ns) as f64 / PAGES as f64;
    drop(uffd);
    Ok((write_ns, scan_ns))
}

fn save_each() -> Result<f64> {
    let memory = Mapping::anonymous(PAGES * PAGE_BYTES)?;
    touch_all(&memory);
    let pipe = PagePipe::new(BATCH_PAGES).map_err(refused("a pipe that holds pages"))?;
    let mut before = vec![0u8; BATCH_PAGES * PAGE_BYTES];
    let mut after = vec![0u8; PAGE_BYTES];
    let base = memory.base().as_ptr();
    let start_ns = cpu_ns();
    for first in (0..PAGES).step_by(BATCH_PAGES) {
        let page = |n: usize| base.wrapping_add((first + n) * PAGE_BYTES);
        for (n, copy) in before.chunks_exact_mut(PAGE_BYTES).enumerate() {
            // SAFETY: a page of the mapping, to which nobody writes.
            unsafe { std::ptr::copy_nonoverlapping(page(n), copy.as_mut_ptr(), PAGE_BYTES) };
        }
        let parts: [libc::iovec; BATCH_PAGES] =
            std::array::from_fn(|n| libc::iovec { iov_base: page(n).cast(), iov_len: PAGE_BYTES });
        // SAFETY: the pages are mapped.
        unsafe { pipe.hold(&parts) }.map_err(refused("vmsplice"))?;
        for copy in before.chunks_exact(PAGE_BYTES) {
            pipe.read(&mut after).map_err(refused("reading the pipe"))?;
            assert!(after == copy, "nobody wrote to the page");
        }
    }
    let ns = (cpu_ns() - start_ns) as f64 / PAGES as f64;
    drop_all(&memory)?;
    Ok(ns)
}
