//! CRC32C of a few bytes, by the processor's own instruction.
//!
//! For long runs the `crc32c` crate is faster, which keeps three instructions in flight; here a call costs as much as the bytes.

/// The CRC32C of `bytes`, continued from `seed`; `None` if the processor has no instruction for it.
#[inline]
pub fn crc32c(seed: u32, bytes: &[u8]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if x86::is_available() {
        // SAFETY: the processor has the instruction.
        return Some(unsafe { x86::crc32c(seed, bytes) });
    }
    let _ = (seed, bytes);
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::{__cpuid, _mm_crc32_u8, _mm_crc32_u64};
    use core::sync::atomic::{AtomicU8, Ordering};

    const UNKNOWN: u8 = 0;
    const ABSENT: u8 = 1;
    const PRESENT: u8 = 2;
    static AVAILABLE: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline]
    pub fn is_available() -> bool {
        match AVAILABLE.load(Ordering::Relaxed) {
            UNKNOWN => look(),
            answer => answer == PRESENT,
        }
    }

    #[cold]
    fn look() -> bool {
        const SSE42: u32 = 1 << 20;
        #[allow(unused_unsafe, reason = "newer compilers know that")]
        // SAFETY: every x86-64 processor has the instruction.
        let is_available = unsafe { __cpuid(1) }.ecx & SSE42 != 0;
        AVAILABLE.store(if is_available { PRESENT } else { ABSENT }, Ordering::Relaxed);
        is_available
    }

    #[target_feature(enable = "sse4.2")]
    #[inline]
    pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut crc = u64::from(!seed);
        for word in words {
            crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
        }
        let crc = rest.iter().fold(crc as u32, |crc, &byte| _mm_crc32_u8(crc, byte));
        !crc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_check_value_however_it_is_divided() {
        let bytes = b"123456789";
        for at in 0..bytes.len() {
            let Some(first) = crc32c(0, &bytes[..at]) else { return };
            assert_eq!(crc32c(first, &bytes[at..]), Some(0xE306_9283));
        }
    }
}
