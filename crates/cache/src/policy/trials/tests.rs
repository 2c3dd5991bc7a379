use std::collections::HashMap;

use super::super::tests::FakeSlots;
use super::*;

const FULL: u32 = 320;

/// A cache whose pages are at their addresses or on trial, as whole pages are.
struct Pages {
    trials: Trials,
    slots: FakeSlots,
    /// Where a page is, and whether it is at its address.
    present: HashMap<u32, (u32, bool)>,
    room: u32,
}

impl Pages {
    fn new(room: u32) -> Self {
        let (trials, slots) = (Trials::new(room as usize), FakeSlots::new(room));
        Self { trials, slots, present: HashMap::new(), room }
    }

    /// Whether the page had to be read.
    fn access(&mut self, page: u32) -> bool {
        if let Some((_, at_address)) = self.present.get_mut(&page) {
            *at_address = true;
            return false;
        }
        let full = self.present.len() as u32 == self.room;
        let at = if full { self.make_room() } else { self.present.len() as u32 };
        self.slots.fill(at, page);
        self.trials.insert(&self.slots, Position(at));
        self.present.insert(page, (at, true));
        true
    }

    fn make_room(&mut self) -> u32 {
        let (trials, slots) = (&self.trials, &self.slots);
        for _ in 0..self.room {
            trials.put_on_trial(slots, trials.due(), &mut |at| {
                self.present.get_mut(&slots.key_hash(at)).expect("present").1 = false;
            });
            let present = &self.present;
            let mut offer =
                |at: Position| if present[&slots.key_hash(at)].1 { Offer::InUse } else { Offer::Taken };
            if let Some(at) = trials.evict(slots, 64, &mut offer) {
                self.present.remove(&slots.key_hash(at));
                slots.empty(at.0);
                return at.0;
            }
        }
        panic!("nothing leaves");
    }

    /// Part of the accesses that had to read.
    fn misses(&mut self, pages: impl IntoIterator<Item = u32>) -> f64 {
        let (mut all, mut missed) = (0, 0);
        for page in pages {
            missed += u32::from(self.access(page));
            all += 1;
        }
        f64::from(missed) / f64::from(all)
    }
}

#[test]
fn a_scan_leaves_what_is_used_again() {
    let mut pages = Pages::new(FULL);
    let hot = || (0..FULL / 2).flat_map(|page| [page, page]);
    let scanned = |round: u32| 1000 + round * 320..1320 + round * 320;
    (0..20).for_each(|round| {
        pages.misses(hot().chain(scanned(round)));
    });
    let missed = pages.misses(hot());
    assert!(missed < 0.05, "{missed}");
}

#[test]
fn a_loop_that_is_too_large_keeps_a_part() {
    let mut pages = Pages::new(FULL);
    let rounds = || (0..10).flat_map(|_| 0..FULL * 3 / 2);
    pages.misses(rounds());
    let missed = pages.misses(rounds());
    assert!(missed < 0.75, "{missed}: in the order of their coming all would miss");
}

#[test]
fn what_is_not_used_any_more_leaves_although_nothing_comes_back() {
    let mut pages = Pages::new(FULL);
    let used_before = || (0..10).flat_map(|_| 0..FULL * 9 / 10);
    pages.misses(used_before());
    // A loop so long that nothing is remembered until it comes back.
    pages.misses((0..10).flat_map(|_| 1000..1000 + 8 * FULL));
    let left = (0..FULL).filter(|page| pages.present.contains_key(page)).count();
    assert_eq!(left, 0);
}

#[test]
fn pages_are_tried_in_bulk() {
    let mut pages = Pages::new(FULL);
    pages.misses(0..FULL);
    assert_eq!(pages.trials.due(), 10, "half of a sixteenth");
    pages.trials.put_on_trial(&pages.slots, 10, &mut |_| {});
    assert_eq!(pages.trials.due(), 0);
    let mut evict = || assert!(pages.trials.evict(&pages.slots, 64, &mut |_| Offer::Taken).is_some());
    (0..5).for_each(|_| evict());
    assert_eq!(pages.trials.due(), 0, "four are fewer than half of the nine that should be");
    evict();
    assert_eq!(pages.trials.due(), 5);
}

#[test]
fn only_pages_on_trial_leave_and_those_that_cannot_keep_their_place() {
    let mut pages = Pages::new(FULL);
    pages.misses(0..FULL);
    let Pages { trials, slots, .. } = &pages;
    assert_eq!(trials.evict(slots, 64, &mut |_| Offer::Taken), None, "none is on trial");
    trials.put_on_trial(slots, 4, &mut |_| {});
    let mut asked = Vec::new();
    let mut refuse = |at: Position| {
        asked.push(at.0);
        Offer::Refused
    };
    assert_eq!(trials.evict(slots, 3, &mut refuse), None);
    assert_eq!(asked, [0, 1, 2]);
    let mut next = Vec::new();
    trials.upcoming(slots, 64, &mut |at| next.push(at.0));
    assert_eq!(next, [0, 1, 2, 3]);
    assert_eq!(trials.evict(slots, 64, &mut |_| Offer::Taken), Some(Position(3)), "behind the refused ones");
    assert_eq!(trials.evict(slots, 64, &mut |_| Offer::Taken), Some(Position(0)), "and around");
    // What is in use is proven: it is not asked for again before it has been on trial.
    assert_eq!(trials.evict(slots, 64, &mut |_| Offer::InUse), None);
}
