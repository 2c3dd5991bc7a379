//! Stretches of time in which something is taken.

use std::collections::VecDeque;

/// Taken stretches in order of time; neighbours that touch are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    taken: VecDeque<(u64, u64)>,
    /// Nothing is asked for before this.
    past_ns: u64,
}

impl Schedule {
    /// The first moment from `at_ns` on from which there are `length_ns` free.
    pub(super) fn earliest(&self, at_ns: u64, length_ns: u64) -> u64 {
        let mut start_ns = at_ns.max(self.past_ns);
        let first = self.taken.partition_point(|&(_, end)| end <= start_ns);
        for &(from, to) in self.taken.range(first..) {
            if start_ns + length_ns <= from {
                break;
            }
            start_ns = start_ns.max(to);
        }
        start_ns
    }

    /// Takes a stretch that is free.
    pub(super) fn take(&mut self, from: u64, to: u64) {
        if from == to {
            return;
        }
        let at = self.taken.partition_point(|&(_, end)| end <= from);
        debug_assert!(self.taken.get(at).is_none_or(|&(next, _)| next >= to), "the stretch is free");
        let joins_next = self.taken.get(at).is_some_and(|&(next, _)| next == to);
        let joins_last = at > 0 && self.taken[at - 1].1 == from;
        match (joins_last, joins_next) {
            (true, true) => {
                self.taken[at - 1].1 = self.taken[at].1;
                self.taken.remove(at);
            }
            (true, false) => self.taken[at - 1].1 = to,
            (false, true) => self.taken[at].0 = from,
            (false, false) => self.taken.insert(at, (from, to)),
        }
    }

    /// The end of the last stretch.
    pub(super) fn end_ns(&self) -> u64 {
        self.taken.back().map_or(self.past_ns, |&(_, end)| end)
    }

    /// Drops what ends before `now_ns`.
    pub(super) fn forget_before(&mut self, now_ns: u64) {
        while let Some(&(_, end)) = self.taken.front()
            && end <= now_ns
        {
            self.past_ns = end;
            self.taken.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against one flag for each unit of time.
        #[test]
        fn is_as_a_row_of_flags(requests in prop::collection::vec((0u64..60, 0u64..8), 1..40)) {
            let mut schedule = Schedule::default();
            let mut flags = [false; 1000];
            for (at, length) in requests {
                let free = |start: usize| !flags[start..start + length as usize].iter().any(|&taken| taken);
                // A request of no length waits for nothing but the middle of a stretch.
                let expected = (at as usize..).find(|&start| if length == 0 {
                    !flags[start] || start == 0 || !flags[start - 1]
                } else {
                    free(start)
                }).unwrap();
                let start = schedule.earliest(at, length) as usize;
                if length > 0 {
                    prop_assert_eq!(start, expected);
                }
                schedule.take(start as u64, start as u64 + length);
                flags[start..start + length as usize].fill(true);
            }
            prop_assert_eq!(schedule.taken.iter().map(|&(from, to)| to - from).sum::<u64>(),
                flags.iter().filter(|&&taken| taken).count() as u64);
            prop_assert!(schedule.taken.iter().zip(schedule.taken.iter().skip(1)).all(|(a, b)| a.1 < b.0));
        }
    }
}
