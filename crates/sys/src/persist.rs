//! Stores that are on their way to persistence when they are made.
//!
//! On x86-64 bytes go past the caches by non-temporal stores, and one `sfence` waits for them (Intel, "Optimization Reference
//! Manual", persistent memory). Elsewhere they are ordinary stores, and the fence orders them only.

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
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si32, _mm_stream_si64, _mm_stream_si128};

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
                    // The tail of a block is padded to whole words by whoever cares.
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
                // SAFETY: all bytes of the array.
                let all = unsafe { core::slice::from_raw_parts(start, 128) };
                assert_eq!(all[offset..offset + len], source[..len]);
                assert!(all[..offset].iter().chain(&all[offset + len..]).all(|&byte| byte == 0));
            }
        }
    }
}
