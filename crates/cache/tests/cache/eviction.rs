//! Only clean pages that are nowhere but in the cache leave it.

use aquifer_base::PageId;
use aquifer_cache::{PolicyKind, SlotId};
use aquifer_map::Entry;

use crate::POLICIES;
use crate::ram::{Left, Ram, class};

#[test]
fn a_full_cache_of_clean_pages_goes_on() {
    for policy in POLICIES {
        let ram = Ram::new(policy);
        let held = ram.fill(0, 128, |_| Left::Clean);
        for page in 1_000_000..1_000_000 + 3 * held {
            assert!(ram.bring_in(page, 128, Left::Clean), "{policy:?}");
        }
        assert_eq!((ram.cache.objects(), ram.cache.evicted()), (held, 3 * held), "{policy:?}");
        ram.check();
    }
}

#[test]
fn dirty_mapped_and_held_pages_stay() {
    for policy in POLICIES {
        let ram = Ram::new(policy);
        // One page of each kind among many clean ones.
        let kind = |page: u64| match page % 10 {
            0 => Left::Dirty,
            1 => Left::Mapped,
            2 => Left::Pinned,
            _ => Left::Clean,
        };
        let held = ram.fill(0, 256, kind);
        let busy = ram.entries.lock_resident(PageId(3)).expect("nothing has left yet");
        let mut refused = 0u64;
        for page in 1_000_000..1_000_000 + held {
            refused += u64::from(!ram.bring_in(page, 256, Left::Clean));
        }
        for page in (0..held).filter(|&page| kind(page) != Left::Clean) {
            assert!(ram.has(page), "{policy:?}: page {page} was {:?} and left", kind(page));
        }
        assert!(ram.has(3), "{policy:?}: a page that somebody holds has left");
        // Without a hand a policy begins at its oldest pages each time, and those that cannot leave gather there.
        let has_hand = matches!(policy, PolicyKind::Clock | PolicyKind::Sieve);
        let limit = if has_hand { held / 4 } else { held };
        assert!(refused < limit, "{policy:?}: {refused} of {held} found no room");
        busy.restore();
        ram.check();
    }
}

#[test]
fn when_all_are_dirty_the_writer_must_help() {
    for policy in POLICIES {
        let ram = Ram::new(policy);
        let held = ram.fill(0, 128, |_| Left::Dirty);
        // What the policy names as upcoming is what it evicts when that is clean.
        let mut upcoming = Vec::new();
        ram.cache.upcoming(class(128), 64, &mut |_, page| upcoming.push(page));
        assert_eq!(upcoming.len(), 64, "{policy:?}");
        upcoming.iter().for_each(|&page| ram.write_back(page));
        for page in 1_000_000..1_000_064 {
            assert!(ram.bring_in(page, 128, Left::Dirty), "{policy:?}");
        }
        assert!(upcoming.iter().all(|page| !ram.has(page.0)), "{policy:?}");
        // Now all are dirty.
        for page in 2_000_000..2_000_100 {
            assert!(!ram.bring_in(page, 128, Left::Clean), "{policy:?}");
        }
        assert_eq!((ram.cache.objects(), ram.cache.evicted()), (held, 64));
        // After refusals a policy may look elsewhere than the writer did, but they meet.
        for page in 3_000_000..3_000_100 {
            let passes = (0..1000).find(|_| {
                ram.writer_pass(64);
                ram.bring_in(page, 128, Left::Dirty)
            });
            assert!(passes.is_some(), "{policy:?}");
        }
        ram.check();
    }
}

#[test]
fn evict_page_takes_clean_pages_only() {
    let ram = Ram::new(POLICIES[0]);
    for (page, left) in [(0, Left::Clean), (1, Left::Dirty), (2, Left::Mapped), (3, Left::Pinned)] {
        assert!(ram.bring_in(page, 100, left));
        assert_eq!(ram.cache.evict_page(PageId(page), &ram.entries), left == Left::Clean, "{left:?}");
    }
    assert!(!ram.cache.evict_page(PageId(9), &ram.entries), "it is not in RAM");
    assert_eq!((ram.cache.objects(), ram.cache.evicted()), (3, 1));
    ram.check();
}

#[test]
fn what_is_freed_is_given_out_again() {
    for policy in POLICIES {
        let ram = Ram::new(policy);
        let held = ram.fill(0, 700, |_| Left::Dirty);
        (0..held).step_by(2).for_each(|page| ram.free(page));
        ram.check();
        for page in 1_000_000..1_000_000 + held.div_ceil(2) {
            assert!(ram.bring_in(page, 700, Left::Dirty), "{policy:?}");
        }
        assert!(!ram.bring_in(2_000_000, 700, Left::Dirty));
        assert_eq!(ram.cache.objects(), held);
        ram.check();
        (0..3_000_000)
            .filter(|&page| ram.has(page))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|page| ram.free(page));
        assert_eq!(ram.cache.objects(), 0);
        ram.check();
    }
}

#[test]
fn one_use_leaves_a_page_cold_and_two_do_not() {
    let ram = Ram::new(PolicyKind::Clock);
    assert!(ram.bring_in(7, 128, Left::Clean));
    let slot = ram.entries.find(PageId(7)).and_then(Entry::slot).map(SlotId).expect("it was brought in");
    let cold = [(); 3].map(|()| {
        let cold = ram.cache.is_cold(slot);
        ram.cache.touch(slot);
        cold
    });
    assert_eq!(cold, [true, true, false]);
}

#[test]
fn used_pages_outlive_unused_ones() {
    for policy in POLICIES {
        let ram = Ram::new(policy);
        let held = ram.fill(0, 128, |_| Left::Clean);
        let hot = |page: u64| page.is_multiple_of(16);
        for round in 0..4 {
            for page in (0..held).filter(|&page| hot(page)) {
                if let Some(slot) = ram.entries.find(PageId(page)).and_then(Entry::slot) {
                    ram.cache.touch(SlotId(slot));
                }
            }
            let first = 1_000_000 * (round + 1);
            (first..first + held / 4).for_each(|page| assert!(ram.bring_in(page, 128, Left::Clean)));
        }
        let alive =
            |wanted: bool| (0..held).filter(|&page| hot(page) == wanted && ram.has(page)).count() as u64;
        assert!(alive(true) * 10 >= held / 16 * 7, "{policy:?}: {} of {} hot pages", alive(true), held / 16);
        assert!(alive(false) < held / 3, "{policy:?}: {} cold pages of {held}", alive(false));
        ram.check();
    }
}
