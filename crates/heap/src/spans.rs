//! Runs of free leaves in the region.

use std::collections::BTreeMap;

use aquifer_base::LeafId;

/// First-fit allocation of consecutive leaves; neighbours coalesce.
pub(crate) struct Spans {
    /// Free runs below `fresh`: first leaf to length.
    free: BTreeMap<u32, u32>,
    /// Leaves from here on are free.
    fresh: u32,
    /// Leaves from here on were never given out.
    high_water: u32,
    end: u32,
}

impl Spans {
    pub(crate) fn new(leaves: u32) -> Self {
        Self { free: BTreeMap::new(), fresh: 0, high_water: 0, end: leaves }
    }

    /// One more than the highest leaf ever given out.
    pub(crate) fn high_water(&self) -> u32 {
        self.high_water
    }

    /// `count` consecutive leaves.
    pub(crate) fn allocate(&mut self, count: u32) -> Option<LeafId> {
        let found = self.free.iter().find(|&(_, &len)| len >= count).map(|(&first, &len)| (first, len));
        if let Some((first, len)) = found {
            self.free.remove(&first);
            if len > count {
                self.free.insert(first + count, len - count);
            }
            return Some(LeafId(first));
        }
        if self.end - self.fresh < count {
            return None;
        }
        self.fresh += count;
        self.high_water = self.high_water.max(self.fresh);
        Some(LeafId(self.fresh - count))
    }

    /// Gives `count` leaves from `first` back.
    pub(crate) fn free(&mut self, first: LeafId, count: u32) {
        let (mut first, mut len) = (first.0, count);
        if let Some((&before, &before_len)) = self.free.range(..first).next_back()
            && before + before_len == first
        {
            self.free.remove(&before);
            first = before;
            len += before_len;
        }
        if let Some(after_len) = self.free.remove(&(first + len)) {
            len += after_len;
        }
        if first + len == self.fresh {
            self.fresh = first;
        } else {
            self.free.insert(first, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_never_overlap_and_all_come_back(ops in proptest::collection::vec((1u32..9, any::<u16>()), 1..200)) {
            let mut spans = Spans::new(200);
            let mut held: Vec<(u32, u32)> = Vec::new();
            for (count, pick) in ops {
                if pick % 3 > 0 {
                    if let Some(first) = spans.allocate(count) {
                        let overlaps = held.iter().any(|&(f, n)| first.0 < f + n && f < first.0 + count);
                        prop_assert!(!overlaps && first.0 + count <= 200);
                        held.push((first.0, count));
                    }
                } else if !held.is_empty() {
                    let (first, count) = held.swap_remove(usize::from(pick) % held.len());
                    spans.free(LeafId(first), count);
                }
            }
            for (first, count) in held {
                spans.free(LeafId(first), count);
            }
            prop_assert_eq!(spans.allocate(200), Some(LeafId(0)));
        }
    }
}
