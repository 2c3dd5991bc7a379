//! Read-ahead around whole pages that are missed in no order, as far as it pays.
//!
//! What is used together was often written together, and lies side by side. Once two pages that are neighbours were missed one after
//! the other, the next misses there bring some neighbours along, and more of them the more of these are used. Linux decides so about
//! neighbours of a page that it swaps in.

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::PageId;

use super::Request;

/// Places that are told apart, by leaf.
const PLACES: usize = 256;
/// Most pages that are read for one that is missed, itself included.
const WINDOW_MAX: u64 = 8;
const HITS_MAX: u64 = 0xFF;

/// For each place: the page that was missed last, times 65536; the window then, times 256; how many pages were used since that had been
/// read along.
pub(super) struct Vicinity {
    places: Box<[AtomicU64]>,
}

/// How many pages to read for a miss at `page`, itself included.
fn window(page: u64, last: u64, before: u64, hits: u64) -> u64 {
    let wanted = match hits {
        0 if page.abs_diff(last) == 1 => 2,
        0 => 1,
        hits => (hits + 2).next_power_of_two().min(WINDOW_MAX),
    };
    wanted.max(before / 2)
}

impl Vicinity {
    /// Nothing was missed yet.
    pub(super) fn new() -> Self {
        Self { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }

    fn place(&self, page: PageId) -> &AtomicU64 {
        &self.places[page.leaf().0 as usize % PLACES]
    }

    /// Notes that `page` is read for a fault; what to read beside it.
    pub(super) fn note_miss_in_fault(&self, page: PageId) -> Option<Request> {
        let place = self.place(page);
        let word = place.load(Ordering::Relaxed);
        let (last, before, hits) = (word >> 16, word >> 8 & 0xFF, word & 0xFF);
        let window = window(page.0, last, before, hits);
        place.store(page.0 << 16 | window << 8, Ordering::Relaxed);
        if window < 2 {
            return None;
        }
        let number = page.0 as i64;
        let first = match number - last as i64 {
            1 => number + 1,
            -1 => number + 1 - window as i64,
            _ => number - (window as i64 - 1) / 2,
        };
        Some(Request { first, stride: 1, count: window as i64 })
    }

    /// Notes that a page was used that had been read along with another.
    pub(super) fn note_hit_in_fault(&self, page: PageId) {
        let one_more = |word: u64| (word & 0xFF < HITS_MAX).then_some(word + 1);
        let _ = self.place(page).fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miss(vicinity: &Vicinity, page: u64) -> Vec<u64> {
        vicinity
            .note_miss_in_fault(PageId(page))
            .into_iter()
            .flat_map(Request::pages)
            .map(|page| page.0)
            .collect()
    }

    #[test]
    fn misses_far_from_each_other_read_nothing_along() {
        let vicinity = Vicinity::new();
        assert!([700, 600, 650, 700].iter().all(|&page| miss(&vicinity, page).is_empty()));
    }

    #[test]
    fn what_is_used_is_followed_by_more() {
        let vicinity = Vicinity::new();
        miss(&vicinity, 700);
        assert_eq!(miss(&vicinity, 701), [702, 703]);
        vicinity.note_hit_in_fault(PageId(702));
        assert_eq!(miss(&vicinity, 600), [599, 600, 601, 602]);
        (0..3).for_each(|_| vicinity.note_hit_in_fault(PageId(601)));
        assert_eq!(miss(&vicinity, 650).len(), 8);
        assert_eq!(
            [800, 600, 800, 600].map(|page| miss(&vicinity, page).len()),
            [4, 2, 0, 0],
            "none was used"
        );
    }

    #[test]
    fn a_walk_backwards_reads_what_is_before() {
        let vicinity = Vicinity::new();
        miss(&vicinity, 700);
        assert_eq!(miss(&vicinity, 699), [698, 699]);
    }
}
