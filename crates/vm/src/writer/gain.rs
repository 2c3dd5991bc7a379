//! Whether compression saves more than it costs, and how long it rests if not.
//!
//! Of the compressed pages that are wanted, some would be in RAM without compression too, and plain: they were compressed and decompressed in vain. The
//! others would have been evicted, and each saved a read of flash. A page is one of these if more pages were plain no longer since it was compressed than
//! there would be room for in addition, if none were compressed.

use aquifer_cache::Distances;

use crate::pages::Pages;

/// What a compressed page costs that is wanted, in nanoseconds of time: a fault, decompressing it and compressing another one, the slots of both, and that the
/// plain ones have less room.
const COST_NS: u64 = 20_000;
/// At least one in this many of the pages that are plain no longer is compressed, or it is not worth the slabs.
const COMPRESSED_PART: u64 = 8;
/// Pages that are wanted between two decisions, and how many of the sample at least.
const WANTED: u64 = 1024;
const SAMPLE: u64 = 64;
/// Longest rest, in times that it takes to see whether compression pays; and the one while reads take so little that it cannot pay, as a part of that time.
const RESTS_MOST: u64 = 8;
const LOOKS_PER_TRY: u64 = 4;

/// Watches compressed pages that are wanted.
pub(super) struct Gain {
    /// Wanted at the last look.
    wanted: u64,
    /// How many pages were plain no longer when compression began.
    began: u64,
    /// How many were compressed by then.
    compressed: u64,
    /// At the last decision.
    before: Past,
    rests: Rests,
}

/// What has been by some moment.
#[derive(Default)]
struct Past {
    distances: Distances,
    /// Pages that were read from flash, and how long threads have waited for them. They do not wait for those that are read ahead.
    read: u64,
    waited_ns: u64,
}

impl Past {
    fn of(pages: &Pages) -> Self {
        let read = pages.counters.misses.sum() + pages.counters.prefetched.sum();
        let waited_ns = pages.backing.read_durations().sum_ns();
        Self { distances: pages.residence.compressed_distances(), read, waited_ns }
    }

    /// How long a page was waited for since `before`; `None` if none was read.
    fn read_ns_since(&self, before: &Self) -> Option<u64> {
        (self.waited_ns - before.waited_ns).checked_div(self.read - before.read)
    }
}

impl Gain {
    pub(super) fn new() -> Self {
        Self { wanted: 0, began: 0, compressed: 0, before: Past::default(), rests: Rests::new(RESTS_MOST) }
    }

    /// Compression is to begin: for how many evictions to wait with that, as it could not pay now.
    pub(super) fn begin(&mut self, pages: &Pages) -> Option<u64> {
        let now = Past::of(pages);
        let read_ns = now.read_ns_since(&self.before);
        (self.began, self.before) = (pages.residence.plain_left(), now);
        self.compressed = pages.counters.compressed.sum();
        let (most, _) = pages.residence.plain_most();
        // One page in two that is wanted saves a read at best. Before anything is read, nobody has been waiting.
        let may_pay = read_ns.is_some() && pays(2, 1, read_ns);
        (!may_pay).then_some(most as u64 / LOOKS_PER_TRY)
    }

    /// For how many evictions to rest, if it is time for a decision and compression costs more than it saves.
    pub(super) fn rest(&mut self, pages: &Pages) -> Option<u64> {
        let (most, plain) = pages.residence.plain_most();
        let left = pages.residence.plain_left() - self.began;
        let is_tried = left >= most as u64;
        let compressed = pages.counters.compressed.sum() - self.compressed;
        if is_tried && compressed * COMPRESSED_PART < left {
            return self.rests.after(false).map(|rests| rests * most as u64);
        }
        let wanted = pages.counters.decompressed.sum();
        if wanted - self.wanted < WANTED {
            return None;
        }
        self.wanted = wanted;
        let now = Past::of(pages);
        // At first only those are wanted that were compressed of late, as there are no others.
        if !is_tried {
            self.before = now;
            return None;
        }
        let distances = now.distances.since(&self.before.distances);
        let (all, saved) = distances.from_beyond(most.saturating_sub(plain) as u64);
        if all < SAMPLE {
            return None;
        }
        let read_ns = now.read_ns_since(&self.before);
        self.before = now;
        self.rests.after(pays(all, saved, read_ns)).map(|rests| rests * most as u64)
    }
}

/// Whether `saved` reads of `read_ns` are worth what `wanted` compressed pages cost.
fn pays(wanted: u64, saved: u64, read_ns: Option<u64>) -> bool {
    read_ns.is_none_or(|read_ns| saved * read_ns >= wanted * COST_NS)
}

/// How long compression rests: each time longer, until it is worth while again.
pub(super) struct Rests {
    next: u64,
    most: u64,
}

impl Rests {
    /// Rests of one unit up to `most`.
    pub(super) fn new(most: u64) -> Self {
        Self { next: 1, most }
    }

    /// How long to rest, if it was not worth while.
    pub(super) fn after(&mut self, is_worth_while: bool) -> Option<u64> {
        let rest = self.next;
        self.next = if is_worth_while { 1 } else { self.most.min(rest * 2) };
        (!is_worth_while).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_devices_make_it_pay_for_fewer_pages() {
        assert!(pays(100, 40, Some(60_000)) && !pays(100, 30, Some(60_000)));
        assert!(pays(100, 4, Some(500_000)) && !pays(100, 3, Some(500_000)));
        assert!(pays(100, 0, None), "nothing was read");
    }

    #[test]
    fn pages_that_were_read_ahead_are_not_waited_for() {
        let past = |read, waited_ns| Past { read, waited_ns, ..Past::default() };
        assert_eq!(past(150, 6_000_000).read_ns_since(&past(50, 1_000_000)), Some(50_000));
        assert_eq!(past(50, 1_000_000).read_ns_since(&past(50, 1_000_000)), None);
    }

    #[test]
    fn rests_get_longer_until_it_is_worth_while() {
        let mut rests = Rests::new(8);
        let all: Vec<_> = (0..5).map(|_| rests.after(false)).collect();
        assert_eq!(all, [1, 2, 4, 8, 8].map(Some));
        assert_eq!((rests.after(true), rests.after(false)), (None, Some(1)));
    }
}
