//! Sums of pages that other processes can change behind our back.
//!
//! A process that may write a file has its memory, and can store to a page without a fault. A patch says what changed since flash. After a store
//! like that, flash would have the patch without it, under the checksum of both: the page is written whole.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::quality::RandomState;

use crate::word::PageBytes;

/// Makes sums, once they are needed. Processes do not know the key, so they cannot make other bytes of the same sum.
#[derive(Default)]
pub struct Sums {
    key: RandomState,
    is_needed: AtomicBool,
}

impl Sums {
    /// From now on pages have sums: memory is handed out.
    pub fn need(&self) {
        self.is_needed.store(true, Ordering::Relaxed);
    }

    /// The sum of a page; `None` as long as nobody needs it.
    pub fn of(&self, bytes: &PageBytes) -> Option<u64> {
        self.is_needed.load(Ordering::Relaxed).then(|| self.key.hash_one(&bytes[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::PAGE_BYTES;

    #[test]
    fn a_page_has_a_sum_once_it_is_needed_and_another_has_another() {
        let sums = Sums::default();
        assert_eq!(sums.of(&[1; PAGE_BYTES]), None);
        sums.need();
        let mut other = [1; PAGE_BYTES];
        other[4000] = 2;
        assert_eq!(sums.of(&[1; PAGE_BYTES]), sums.of(&[1; PAGE_BYTES]));
        assert_ne!(sums.of(&[1; PAGE_BYTES]), sums.of(&other));
    }
}
