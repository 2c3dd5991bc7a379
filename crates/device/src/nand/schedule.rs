//! Time that is taken of something that does one thing after the other.

use std::collections::VecDeque;

/// Taken stretches in order of time; neighbours that touch are one.
///
/// Operations are planned in the order in which they are asked for, which is not the order in which they begin: one that waits for another
/// is planned ahead, and leaves a gap. What comes later takes free time in pieces, gap after gap. A real die would have begun it whole and the
/// planned one later; the sums are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    taken: VecDeque<(u64, u64)>,
}

impl Schedule {
    /// The first free moment from `at_ns` on.
    pub(super) fn free_from(&self, at_ns: u64) -> u64 {
        match self.taken.get(self.first_after(at_ns)) {
            Some(&(from, to)) if from <= at_ns => to,
            _ => at_ns,
        }
    }

    /// When `length_ns` of free time would be over that begin at `at_ns` or later.
    pub(super) fn end_of(&self, at_ns: u64, length_ns: u64) -> u64 {
        let (mut now_ns, mut left_ns) = (at_ns, length_ns);
        for &(from, to) in self.taken.range(self.first_after(at_ns)..) {
            let gap_ns = from.saturating_sub(now_ns);
            if gap_ns >= left_ns {
                break;
            }
            left_ns -= gap_ns;
            now_ns = to.max(now_ns);
        }
        now_ns + left_ns
    }

    /// Takes `length_ns` of free time from `at_ns` on; returns when they are over.
    pub(super) fn take(&mut self, at_ns: u64, length_ns: u64) -> u64 {
        let end_ns = self.end_of(at_ns, length_ns);
        if length_ns > 0 {
            self.take_all(at_ns, end_ns);
        }
        end_ns
    }

    /// Takes whatever is free between two moments.
    pub(super) fn take_all(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        // All stretches that touch become one with it.
        let first = self.taken.partition_point(|&(_, end)| end < from);
        let after = self.taken.partition_point(|&(start, _)| start <= to);
        let joined = if first < after {
            (from.min(self.taken[first].0), to.max(self.taken[after - 1].1))
        } else {
            (from, to)
        };
        self.taken.drain(first..after);
        self.taken.insert(first, joined);
    }

    /// Drops what ends before `now_ns`: nothing is asked for earlier any more.
    pub(super) fn forget_before(&mut self, now_ns: u64) {
        while self.taken.front().is_some_and(|&(_, end)| end < now_ns) {
            self.taken.pop_front();
        }
    }

    /// Number of the first stretch that ends after `at_ns`.
    fn first_after(&self, at_ns: u64) -> usize {
        self.taken.partition_point(|&(_, end)| end <= at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against one flag for each unit of time.
        #[test]
        fn is_as_a_row_of_flags(requests in prop::collection::vec((0usize..60, 1usize..8), 1..40)) {
            let mut schedule = Schedule::default();
            let mut flags = [false; 1000];
            for (at, length) in requests {
                let free: Vec<usize> = (at..1000).filter(|&unit| !flags[unit]).take(length).collect();
                prop_assert_eq!(schedule.free_from(at as u64) as usize, free[0]);
                let end = schedule.take(at as u64, length as u64) as usize;
                prop_assert_eq!(end, free[length - 1] + 1);
                free.iter().for_each(|&unit| flags[unit] = true);
            }
            let taken: u64 = schedule.taken.iter().map(|&(from, to)| to - from).sum();
            prop_assert_eq!(taken as usize, flags.iter().filter(|&&taken| taken).count());
            prop_assert!(schedule.taken.iter().zip(schedule.taken.iter().skip(1)).all(|(a, b)| a.1 < b.0));
        }
    }
}
