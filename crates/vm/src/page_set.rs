//! A set of the pages of a region: a bit for each. Bits that were never set take no RAM.

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_sys::{Errno, Reservation};

/// Pages side by side: the first, and how many.
pub type Run = (PageId, u64);

const WORD_BITS: u64 = u64::BITS as u64;

/// Some of the pages of a region. Lock-free, signal-safe.
#[derive(Debug)]
pub struct PageSet {
    words: Reservation,
    pages: u64,
    len: AtomicU64,
}

impl PageSet {
    /// None of `pages`.
    ///
    /// # Errors
    /// The kernel refused the address space.
    pub fn new(pages: u64) -> Result<Self, Errno> {
        let bytes = pages.div_ceil(WORD_BITS) as usize * size_of::<u64>();
        let words = Reservation::new(bytes.max(1), OS_PAGE_BYTES)?;
        Ok(Self { words, pages, len: AtomicU64::new(0) })
    }

    /// How many pages it has.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::SeqCst)
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn word(&self, index: u64) -> &AtomicU64 {
        assert!(index < self.pages.div_ceil(WORD_BITS), "page {} is beyond the region", index * WORD_BITS);
        // SAFETY: the reservation has a word for each 64 pages, is zeroed and aligned, lives as long as self, and is only used as such words.
        unsafe { &*self.words.base().cast::<AtomicU64>().add(index as usize) }
    }

    /// Whether it has `page`.
    #[inline]
    pub fn has(&self, page: PageId) -> bool {
        !self.is_empty()
            && self.word(page.0 / WORD_BITS).load(Ordering::SeqCst) >> (page.0 % WORD_BITS) & 1 == 1
    }

    /// Adds pages; how many it did not have.
    pub fn insert(&self, run: Run) -> u64 {
        let mut added = 0;
        // Before the bits: who finds the set empty need not look.
        self.len.fetch_add(run.1, Ordering::SeqCst);
        for_each_word(run, &mut |index, mask| {
            added += u64::from((mask & !self.word(index).fetch_or(mask, Ordering::SeqCst)).count_ones());
        });
        self.len.fetch_sub(run.1 - added, Ordering::SeqCst);
        added
    }

    /// Takes pages out; how many it had.
    pub fn remove(&self, run: Run) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let mut removed = 0;
        for_each_word(run, &mut |index, mask| {
            removed += u64::from((mask & self.word(index).fetch_and(!mask, Ordering::SeqCst)).count_ones());
        });
        self.len.fetch_sub(removed, Ordering::SeqCst);
        removed
    }

    /// How many of the pages it has.
    pub fn count_in(&self, run: Run) -> u64 {
        let mut count = 0;
        self.for_each_run(run, &mut |(_, pages), has| count += if has { pages } else { 0 });
        count
    }

    /// Calls `visit` for the parts of a run that it has, and for those that it does not have, in order.
    pub fn for_each_run(&self, (first, count): Run, visit: &mut dyn FnMut(Run, bool)) {
        let end = first.0 + count;
        if self.is_empty() && count > 0 {
            return visit((first, count), false);
        }
        let mut at = first.0;
        while at < end {
            let has = self.has(PageId(at));
            let next = self.end_of(at, end, has);
            visit((PageId(at), next - at), has);
            at = next;
        }
    }

    /// Where the pages end that are as `at` is.
    fn end_of(&self, at: u64, end: u64, has: bool) -> u64 {
        let mut next = at;
        while next < end {
            let word = self.word(next / WORD_BITS).load(Ordering::SeqCst);
            let others = if has { !word } else { word } >> (next % WORD_BITS);
            if others != 0 {
                return (next + u64::from(others.trailing_zeros())).min(end);
            }
            next = (next / WORD_BITS + 1) * WORD_BITS;
        }
        end
    }
}

/// Calls `visit` with each word that has bits for the run, and these.
fn for_each_word((first, count): Run, visit: &mut dyn FnMut(u64, u64)) {
    let (mut at, end) = (first.0, first.0 + count);
    while at < end {
        let bits = (WORD_BITS - at % WORD_BITS).min(end - at);
        let mask = if bits == WORD_BITS { u64::MAX } else { ((1 << bits) - 1) << (at % WORD_BITS) };
        visit(at / WORD_BITS, mask);
        at += bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGES: u64 = 500;

    proptest! {
        #[test]
        fn it_has_what_was_put_in(ops in proptest::collection::vec((any::<bool>(), 0..PAGES, 0..PAGES), 1..60)) {
            let set = PageSet::new(PAGES).unwrap();
            let mut model = vec![false; PAGES as usize];
            for (adds, first, count) in ops {
                let count = count.min(PAGES - first);
                let run = (PageId(first), count);
                let part = &mut model[first as usize..(first + count) as usize];
                let changed = part.iter().filter(|&&has| has != adds).count() as u64;
                prop_assert_eq!(set.count_in(run), part.iter().filter(|&&has| has).count() as u64);
                part.fill(adds);
                prop_assert_eq!(if adds { set.insert(run) } else { set.remove(run) }, changed);
                prop_assert_eq!(set.len(), model.iter().filter(|&&has| has).count() as u64);
                let mut seen = Vec::new();
                set.for_each_run((PageId(0), PAGES), &mut |(first, count), has| {
                    assert!(count > 0 && first.0 == seen.len() as u64);
                    assert!(seen.last().is_none_or(|&before| before != has));
                    seen.extend((0..count).map(|_| has));
                });
                prop_assert_eq!(&seen, &model);
                prop_assert!((0..PAGES).all(|page| set.has(PageId(page)) == model[page as usize]));
            }
        }
    }
}
