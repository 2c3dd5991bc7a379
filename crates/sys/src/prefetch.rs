//! Cache lines that are loaded before they are needed.

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Begins to load up to `lines_max` cache lines of the `len` bytes at `start`. A hint: any address will do, and nothing faults.
#[inline]
pub fn prefetch(start: *const u8, len: usize, lines_max: usize) {
    let end = start.addr() + len;
    let mut line = start.map_addr(|addr| addr / LINE_BYTES * LINE_BYTES);
    for _ in 0..lines_max {
        if line.addr() >= end {
            return;
        }
        prefetch_line(line);
        line = line.wrapping_add(LINE_BYTES);
    }
}

#[inline]
fn prefetch_line(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, which neither faults nor changes anything that a program sees.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction neither faults nor changes anything that a program sees.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, readonly, preserves_flags));
    }
    let _ = line;
}
