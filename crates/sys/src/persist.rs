//! Stores that are on their way to persistence when they are made.
//!
//! On x86-64 bytes go past the caches by non-temporal stores, or their lines are written back, and one `sfence` waits for them (Intel,
//! "Optimization Reference Manual", persistent memory). Elsewhere they are ordinary stores, and the fence orders them only.

use core::sync::atomic::{Ordering, fence as memory_fence};

/// Copies `bytes` to `target` past the caches. Durable after the next [`fence`] of this thread.
///
/// # Safety
/// `target` is valid for that many bytes and aligned to 4, and nobody else writes them meanwhile.
#[inline]
pub unsafe fn copy_past_caches(bytes: &[u8], target: *mut u8) {
    debug_assert!(target.addr().is_multiple_of(4));
    #[cfg(target_arch = "x86_64")]
    // SAFETY: passed on to the caller.
    unsafe {
        x86::copy(bytes, target);
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: passed on to the caller.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
    }
}

/// Stores `bytes` to `target` in the caches, and begins to write their lines back. Durable after the next [`fence`] of this thread.
///
/// # Safety
/// `target` is valid for that many bytes, and nobody else writes them meanwhile.
#[inline]
pub unsafe fn store_and_write_back(bytes: &[u8], target: *mut u8) {
    // SAFETY: passed on to the caller.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    write_back(target, bytes.len());
}

/// Begins to write back the cache lines of a range, also if other threads stored them. Durable after the next
/// [`fence`] of this thread.
///
/// All of the lines are mapped.
#[inline]
pub fn write_back(start: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    x86::write_back(start, len);
    let _ = (start, len);
}

/// Waits until what this thread copied past the caches is durable, where the memory is persistent.
#[inline]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
    memory_fence(Ordering::Release);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::asm;
    use core::arch::x86_64::{
        __cpuid_count, __m128i, _mm_clflush, _mm_loadu_si128, _mm_stream_si32, _mm_stream_si64,
        _mm_stream_si128,
    };
    use core::sync::atomic::{AtomicU8, Ordering};

    const LINE_BYTES: usize = 64;
    /// How lines are written back: the best that the processor has.
    const UNKNOWN: u8 = 0;
    const CLWB: u8 = 1;
    const CLFLUSHOPT: u8 = 2;
    const CLFLUSH: u8 = 3;
    static WAY: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[cold]
    fn look() -> u8 {
        #[allow(unused_unsafe, reason = "newer compilers know that")]
        // SAFETY: every x86-64 processor has the instruction.
        let features = unsafe { __cpuid_count(7, 0) }.ebx;
        let way = match (features >> 24 & 1, features >> 23 & 1) {
            (1, _) => CLWB,
            (_, 1) => CLFLUSHOPT,
            _ => CLFLUSH,
        };
        WAY.store(way, Ordering::Relaxed);
        way
    }

    /// Begins to write the lines of a range back.
    #[inline]
    pub fn write_back(target: *mut u8, len: usize) {
        let way = match WAY.load(Ordering::Relaxed) {
            UNKNOWN => look(),
            way => way,
        };
        let end = target.addr() + len;
        let mut line = target.map_addr(|addr| addr / LINE_BYTES * LINE_BYTES);
        while line.addr() < end {
            // SAFETY: the line has a byte that is mapped, and the instructions change no memory that a program sees; the processor has
            // them.
            unsafe {
                match way {
                    CLWB => asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)),
                    CLFLUSHOPT => asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)),
                    _ => _mm_clflush(line),
                }
            }
            line = line.wrapping_add(LINE_BYTES);
        }
    }

    /// # Safety
    /// As [`super::copy_past_caches`].
    #[inline]
    pub unsafe fn copy(bytes: &[u8], target: *mut u8) {
        let mut at = 0;
        // SAFETY: every store stays below the length, at an address aligned to its size.
        unsafe {
            while at < bytes.len() {
                let (left, to, from) = (bytes.len() - at, target.add(at), bytes.as_ptr().add(at));
                if left >= 16 && to.addr().is_multiple_of(16) {
                    _mm_stream_si128(to.cast::<__m128i>(), _mm_loadu_si128(from.cast()));
                    at += 16;
                } else if left >= 8 && to.addr().is_multiple_of(8) {
                    _mm_stream_si64(to.cast(), from.cast::<i64>().read_unaligned());
                    at += 8;
                } else if left >= 4 {
                    _mm_stream_si32(to.cast(), from.cast::<i32>().read_unaligned());
                    at += 4;
                } else {
                    // A caller that wants this tail past the caches pads its block to whole words.
                    core::ptr::copy_nonoverlapping(from, to, left);
                    at = bytes.len();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(target: &[u128; 8], offset: usize, expected: &[u8]) {
        let all: Vec<u8> = target.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(all[offset..offset + expected.len()], *expected);
        assert!(all[..offset].iter().chain(&all[offset + expected.len()..]).all(|&byte| byte == 0));
    }

    #[test]
    fn every_length_at_every_alignment() {
        let source: [u8; 96] = core::array::from_fn(|n| n as u8 + 1);
        for offset in (0..16).step_by(4) {
            for len in 0..source.len() {
                let mut target = [0u128; 8];
                let start = target.as_mut_ptr().cast::<u8>();
                // SAFETY: 12 + 95 bytes fit the 128.
                unsafe { copy_past_caches(&source[..len], start.add(offset)) };
                fence();
                check(&target, offset, &source[..len]);
                // SAFETY: the same.
                unsafe { store_and_write_back(&source[..len], start.add(offset)) };
                fence();
                check(&target, offset, &source[..len]);
            }
        }
    }
}
