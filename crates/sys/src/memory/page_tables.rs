//! The kernel's own memory behind a range: its page tables.

use super::{Advice, Reservation, advise, map_fixed, page_size};
use crate::errno::Result;
use crate::process::memory_of_self;

/// What one page table of the lowest level covers with 4 KiB OS pages.
const TABLE_SPAN: usize = 2 << 20;
/// Enough tables for their 4 KiB each to stand out of what other threads do meanwhile.
const TABLES: usize = 64;

/// Whether this kernel frees a page table when all of its 2 MiB are discarded together (the
/// `PT_RECLAIM` of Linux 6.14 on x86-64), found by trying. Where it does not, [`remap_fresh`] does
/// the same. `false` also if the answer cannot be found.
///
/// # Context
/// Takes a millisecond and maps memory; meant for the start of the program, not for a handler.
pub fn drops_page_tables() -> bool {
    let Ok(memory) = Reservation::new(TABLES * TABLE_SPAN, TABLE_SPAN) else { return false };
    let spans = || (0..TABLES).map(|at| memory.base().wrapping_add(at * TABLE_SPAN));
    // A kernel without huge pages refuses the advice, and does not need it.
    // SAFETY: the reservation belongs to this function.
    let _ = unsafe { advise(memory.base(), memory.len(), Advice::NoHugePage) };
    // SAFETY: the first byte of each span is mapped and writable.
    spans().for_each(|span| unsafe { span.write_volatile(1) });
    let Some(full) = page_table_bytes() else { return false };
    for span in spans() {
        // SAFETY: the reservation belongs to this function, and its bytes are of no use.
        if unsafe { advise(span, TABLE_SPAN, Advice::DontNeed) }.is_err() {
            return false;
        }
    }
    let Some(empty) = page_table_bytes() else { return false };
    full.saturating_sub(empty) >= (TABLES * page_size() / 2) as u64
}

fn page_table_bytes() -> Option<u64> {
    memory_of_self(&mut [0; 4096]).map(|used| used.page_table_bytes)
}

/// Puts fresh anonymous memory in the place of a range, which frees its pages and page tables on
/// every kernel. The new mapping has none of the old one's properties: the caller registers it with
/// userfaultfd again and repeats its advice, before anybody can touch the range.
///
/// # Safety
/// The caller owns the range, its bytes are needed by nobody, and no thread touches it before it is
/// registered again.
///
/// # Errors
/// `ENOMEM` if the process has too many mappings; the range is as before then.
pub unsafe fn remap_fresh(ptr: *mut u8, len: usize) -> Result<()> {
    // SAFETY: the caller's conditions are those of the callee.
    unsafe { map_fixed(ptr, len, libc::PROT_READ | libc::PROT_WRITE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_answers() {
        eprintln!("kernel frees empty page tables: {}", drops_page_tables());
    }

    #[test]
    fn a_remapped_range_reads_as_zeros_and_its_neighbours_stay() {
        let page = page_size();
        let memory = Reservation::new(3 * page, page).expect("reserve");
        // SAFETY: the test owns the reservation.
        unsafe {
            memory.base().write_bytes(5, 3 * page);
            remap_fresh(memory.base().add(page), page).expect("remap");
            let bytes = std::slice::from_raw_parts(memory.base(), 3 * page);
            assert!(bytes[..page].iter().chain(&bytes[2 * page..]).all(|&byte| byte == 5));
            assert!(bytes[page..2 * page].iter().all(|&byte| byte == 0));
        }
    }
}
