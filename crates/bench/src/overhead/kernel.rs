//! What the kernel's own anonymous memory costs: the unit for everything else.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::{Error, Result};
use crate::overhead::{Cost, KERNEL_FAULT};
use crate::peer::mapping::Mapping;
use crate::process::cpu_ns;

/// The kernel's page size.
pub const PAGE_BYTES: usize = 4096;
/// Pages touched in one run: 64 MiB.
pub const PAGES: usize = 16 * 1024;
/// Pages given back in one call, as many as the evictor takes.
pub const BATCH_PAGES: usize = 64;
/// Pages are visited this far apart, modulo their number, so that no two neighbours follow.
const VISIT_STEP: usize = 7919;

/// Faults on fresh pages, and giving them back in batches.
///
/// # Errors
/// [`Error::Io`].
pub fn measure(runs: u32) -> Result<Vec<Cost>> {
    let memory = Mapping::anonymous(PAGES * PAGE_BYTES)?;
    let (mut fault_ns, mut drop_ns) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        fault_ns.push(touch_all(&memory));
        drop_ns.push(drop_all(&memory)?);
    }
    Ok(vec![
        Cost { name: KERNEL_FAULT, ns: fault_ns, note: "first write to a page of 4 KiB".to_owned() },
        Cost {
            name: "kernel: giving a page back",
            ns: drop_ns,
            note: format!("MADV_DONTNEED of {BATCH_PAGES} pages, per page"),
        },
    ])
}

/// Writes one byte to each page; nanoseconds of processor time per page.
pub fn touch_all(memory: &Mapping) -> f64 {
    let start_ns = cpu_ns();
    for visit in 0..PAGES {
        touch(memory.base(), visit * VISIT_STEP % PAGES);
    }
    (cpu_ns() - start_ns) as f64 / PAGES as f64
}

/// Drops all pages in batches; nanoseconds of processor time per page.
///
/// # Errors
/// [`Error::Io`].
pub fn drop_all(memory: &Mapping) -> Result<f64> {
    let start_ns = cpu_ns();
    for first in (0..PAGES).step_by(BATCH_PAGES) {
        // SAFETY: inside the mapping, whose contents nobody relies on.
        let code = unsafe {
            let from = memory.base().as_ptr().add(first * PAGE_BYTES);
            libc::madvise(from.cast(), BATCH_PAGES * PAGE_BYTES, libc::MADV_DONTNEED)
        };
        if code != 0 {
            return Err(Error::last_os("dropping", "pages"));
        }
    }
    Ok((cpu_ns() - start_ns) as f64 / PAGES as f64)
}

fn touch(base: NonNull<u8>, page: usize) {
    assert!(page < PAGES);
    // SAFETY: inside the mapping of PAGES pages; atomics may be used on any mapped memory.
    unsafe { AtomicU8::from_ptr(base.as_ptr().add(page * PAGE_BYTES)) }.store(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_visited_once() {
        let mut seen = vec![false; PAGES];
        for visit in 0..PAGES {
            assert!(!std::mem::replace(&mut seen[visit * VISIT_STEP % PAGES], true));
        }
    }
}
