//! Bytes that follow from a key and a version.

use aquifer_base::limits::OS_PAGE_BYTES;

use aquifer_base::random::{Random, mix};

/// Memory for the bytes of one page.
pub type Scratch = [u8; OS_PAGE_BYTES];

/// The first bytes of a page, as many as `out` has. Every key, page number and version has its own.
pub fn fill(key: u64, page: usize, version: u32, out: &mut [u8]) {
    let mut rng = Random::new(key ^ mix((page as u64) << 32 | u64::from(version)));
    let mut words = out.chunks_exact_mut(8);
    for word in &mut words {
        word.copy_from_slice(&rng.next().to_le_bytes());
    }
    let rest = words.into_remainder();
    let last = rng.next().to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_the_same_bytes_but_for_its_last_word() {
        let (mut long, mut short) = ([0; 64], [0; 40]);
        fill(7, 1, 3, &mut long);
        fill(7, 1, 3, &mut short);
        assert_eq!(long[..40], short);
        fill(7, 1, 4, &mut short);
        assert_ne!(long[..40], short);
    }
}
