//! Runs of free pages.

use std::collections::{BTreeMap, BTreeSet};

/// Best-fit allocation of consecutive pages; neighbours coalesce. Pages are counted from the start of the space.
pub(crate) struct Runs {
    /// First page to length.
    by_start: BTreeMap<u64, u64>,
    /// Length and first page.
    by_len: BTreeSet<(u64, u64)>,
    free: u64,
}

impl Runs {
    /// All of `pages` are free.
    pub(crate) fn new(pages: u64) -> Self {
        let mut runs = Self { by_start: BTreeMap::new(), by_len: BTreeSet::new(), free: 0 };
        if pages > 0 {
            runs.insert(0, pages);
        }
        runs
    }

    /// Free pages.
    #[cfg(test)]
    pub(crate) fn free_pages(&self) -> u64 {
        self.free
    }

    /// RAM of the bookkeeping, about.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.by_start.len() * 2 * 24
    }

    fn insert(&mut self, start: u64, len: u64) {
        self.by_start.insert(start, len);
        self.by_len.insert((len, start));
        self.free += len;
    }

    fn remove(&mut self, start: u64) -> Option<u64> {
        let len = self.by_start.remove(&start)?;
        self.by_len.remove(&(len, start));
        self.free -= len;
        Some(len)
    }

    /// Takes `pages` at a multiple of `align` pages, from the shortest run that has room.
    pub(crate) fn allocate(&mut self, pages: u64, align: u64) -> Option<u64> {
        let start_in = |start: u64| start.next_multiple_of(align);
        let fits = |&&(len, start): &&(u64, u64)| start_in(start) + pages <= start + len;
        let &(_, run) = self.by_len.range((pages, 0)..).find(fits)?;
        let start = start_in(run);
        self.take(start, pages).then_some(start)
    }

    /// Takes exactly these pages, if all of them are free.
    pub(crate) fn take(&mut self, start: u64, pages: u64) -> bool {
        let Some((&run, &len)) = self.by_start.range(..=start).next_back() else { return false };
        if run + len < start + pages {
            return false;
        }
        self.remove(run);
        if start > run {
            self.insert(run, start - run);
        }
        if start + pages < run + len {
            self.insert(start + pages, run + len - start - pages);
        }
        true
    }

    /// The first run of free pages between `from` and `end`, as far as it lies there.
    pub(crate) fn next_free(&self, from: u64, end: u64) -> Option<(u64, u64)> {
        let before = self.by_start.range(..=from).next_back().filter(|&(&run, &len)| from < run + len);
        let (&run, &len) = before.or_else(|| self.by_start.range(from..end).next())?;
        let start = run.max(from);
        (start < end).then(|| (start, (run + len).min(end) - start))
    }

    /// Gives pages back, none of which is free.
    pub(crate) fn free(&mut self, start: u64, pages: u64) {
        let (mut start, mut len) = (start, pages);
        if let Some((&before, &before_len)) = self.by_start.range(..start).next_back()
            && before + before_len == start
        {
            self.remove(before);
            start = before;
            len += before_len;
        }
        len += self.remove(start + len).unwrap_or(0);
        self.insert(start, len);
    }

    /// Calls `visit` for each run of pages between the free ones, below `end`.
    pub(crate) fn for_each_taken(&self, end: u64, visit: &mut dyn FnMut(u64, u64)) {
        let mut at = 0;
        for (&start, &len) in &self.by_start {
            if start > at {
                visit(at, start - at);
            }
            at = start + len;
        }
        if end > at {
            visit(at, end - at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_shortest_run_that_fits_is_taken() {
        let mut runs = Runs::new(100);
        assert!(runs.take(10, 5) && runs.take(30, 5) && !runs.take(32, 1));
        assert_eq!(runs.allocate(10, 1), Some(0), "0 to 10 fits exactly");
        assert_eq!(runs.allocate(8, 16), Some(16));
        assert_eq!(runs.allocate(66, 1), None);
        let free = [(0, 5), (12, 50), (24, 100), (30, 35)].map(|(from, end)| runs.next_free(from, end));
        assert_eq!(free, [None, Some((15, 1)), Some((24, 6)), None]);
        let mut taken = Vec::new();
        runs.for_each_taken(100, &mut |start, len| taken.push((start, len)));
        assert_eq!(taken, [(0, 15), (16, 8), (30, 5)]);
    }

    proptest! {
        #[test]
        fn pages_are_taken_once_and_all_come_back(ops in proptest::collection::vec((1u64..40, 0u32..4, any::<u16>()), 1..200)) {
            let mut runs = Runs::new(1000);
            let mut owner = [false; 1000];
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (pages, align, pick) in ops {
                if pick % 3 > 0 {
                    let Some(start) = runs.allocate(pages, 1 << align) else { continue };
                    prop_assert!(start % (1 << align) == 0 && start + pages <= 1000);
                    for page in &mut owner[start as usize..(start + pages) as usize] {
                        prop_assert!(!std::mem::replace(page, true));
                    }
                    held.push((start, pages));
                } else if !held.is_empty() {
                    let (start, pages) = held.swap_remove(usize::from(pick) % held.len());
                    owner[start as usize..(start + pages) as usize].fill(false);
                    runs.free(start, pages);
                }
                prop_assert_eq!(runs.free_pages(), owner.iter().filter(|&&taken| !taken).count() as u64);
                let mut taken = 0;
                runs.for_each_taken(1000, &mut |_, len| taken += len);
                prop_assert_eq!(taken + runs.free_pages(), 1000);
            }
            for (start, pages) in held {
                runs.free(start, pages);
            }
            prop_assert_eq!(runs.allocate(1000, 1), Some(0));
        }
    }
}
