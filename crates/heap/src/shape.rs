//! How objects are laid out on pages.

use aquifer_base::limits::{LEAF_PAGES, OS_PAGE_BYTES};
use aquifer_cache::Class;
use aquifer_log::record::lone_record_bytes;

/// Pages of objects larger than one page, up to half a leaf: four steps to each doubling.
const RUNS: [u16; 27] = [
    2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256,
];

/// Smallest page in the log and in the cache, in bytes. Moving a few records rewrites a leaf; with smaller
/// records the cleaner of a full log would write more than it gains.
const PAGE_BYTES_MIN: usize = 64;

/// Bytes that a page may cost in the log besides its record. Below 128 bytes that is its share of the largest leaf and
/// garbage enough for the cleaner to win; from there on it is about four times the share that leaves usually take, and the
/// largest ones, 7.3 bytes a page, come out of the garbage that [`usable_bytes`](aquifer_log::Log::usable_bytes) keeps.
const fn leaf_share_bytes(page_bytes: usize) -> u64 {
    if page_bytes < 128 { 48 } else { 6 }
}

/// Layout of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Shape {
    /// Bytes on each of its pages.
    pub(crate) page_bytes: u16,
    /// Consecutive pages.
    pub(crate) pages: u16,
}

impl Shape {
    /// The shape of pooled objects of `bytes`; `None` if an object that large gets leaves of its own.
    pub(crate) fn for_bytes(bytes: usize) -> Option<Self> {
        if let Some(class) = Class::for_bytes(bytes.max(PAGE_BYTES_MIN)) {
            return Some(Self { page_bytes: class.slot_bytes() as u16, pages: 1 });
        }
        let pages = bytes.div_ceil(OS_PAGE_BYTES);
        let run = RUNS.iter().find(|&&run| usize::from(run) >= pages)?;
        Some(Self { page_bytes: OS_PAGE_BYTES as u16, pages: *run })
    }

    /// Bytes of an object.
    pub(crate) fn object_bytes(self) -> usize {
        usize::from(self.page_bytes) * usize::from(self.pages)
    }

    /// Objects in one leaf.
    pub(crate) fn objects_per_leaf(self) -> usize {
        LEAF_PAGES / usize::from(self.pages)
    }

    /// Bytes that an object may need on flash.
    pub(crate) fn flash_bytes(self) -> u64 {
        flash_bytes(usize::from(self.page_bytes), u64::from(self.pages))
    }
}

/// Bytes of the pages of an array whose elements have `bytes`. What needs the slot of a whole page is one.
pub(crate) fn element_page_bytes(bytes: usize) -> usize {
    match Class::for_bytes(bytes) {
        Some(Class::WHOLE) => OS_PAGE_BYTES,
        _ => bytes.max(PAGE_BYTES_MIN),
    }
}

/// Bytes that `pages` of `page_bytes` may need on flash; `u64::MAX`, which no device has, for as many as no address space holds.
pub(crate) fn flash_bytes(page_bytes: usize, pages: u64) -> u64 {
    pages.saturating_mul(lone_record_bytes(page_bytes) as u64 + leaf_share_bytes(page_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_sizes_need_more_than_any_device_has() {
        assert_eq!(flash_bytes(OS_PAGE_BYTES, u64::MAX / 4096), u64::MAX);
        assert!(flash_bytes(OS_PAGE_BYTES, 1 << 40) > 1 << 52);
    }

    #[test]
    fn small_objects_have_one_page_and_large_ones_a_run() {
        assert_eq!(Shape::for_bytes(1), Some(Shape { page_bytes: 64, pages: 1 }));
        assert_eq!(Shape::for_bytes(4096), Some(Shape { page_bytes: 4096, pages: 1 }));
        assert_eq!(Shape::for_bytes(4097), Some(Shape { page_bytes: 4096, pages: 2 }));
        assert_eq!(Shape::for_bytes(9 * 4096), Some(Shape { page_bytes: 4096, pages: 10 }));
        assert_eq!(Shape::for_bytes(1 << 20), Some(Shape { page_bytes: 4096, pages: 256 }));
        assert_eq!(Shape::for_bytes((1 << 20) + 1), None);
    }

    #[test]
    fn elements_that_take_the_slot_of_a_whole_page_are_one() {
        assert_eq!([1, 65, 3584].map(element_page_bytes), [64, 65, 3584]);
        assert_eq!([3585, 4095, 4096].map(element_page_bytes), [4096; 3]);
    }
}
