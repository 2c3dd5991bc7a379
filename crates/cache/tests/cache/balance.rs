//! Slabs go from the class that has many to the class that needs them.

use aquifer_base::PageId;

use crate::POLICIES;
use crate::ram::{Left, Ram, class};

#[test]
fn a_class_without_a_slab_takes_one_of_clean_pages() {
    for policy in POLICIES {
        let ram = Ram::new(policy);
        ram.fill(0, 128, |_| Left::Clean);
        let before = ram.cache.slots(class(128));
        assert!(ram.bring_in(1_000_000, 4096, Left::Clean), "{policy:?}");
        assert!(ram.cache.slots(class(4096)) > 0 && ram.cache.slots(class(128)) < before);
        ram.check();
    }
}

/// Everything is dirty and nobody but the newcomer wants anything: the writer writes what is wanted, and no
/// attempt is made in vain for ever.
#[test]
fn a_class_without_a_slab_gets_one_of_dirty_pages_with_the_writers_help() {
    for policy in POLICIES {
        let ram = Ram::new(policy);
        ram.fill(0, 128, |_| Left::Dirty);
        assert!(!ram.bring_in(1_000_000, 4096, Left::Clean));
        let passes = (1..1000).find(|_| {
            ram.writer_pass(64);
            ram.bring_in(1_000_000, 4096, Left::Clean)
        });
        assert!(passes.is_some_and(|passes| passes <= 64), "{policy:?}: {passes:?} passes of the writer");
        ram.check();
    }
}

#[test]
fn a_slab_with_a_page_that_cannot_leave_is_given_up() {
    for stays in [Left::Pinned, Left::Mapped] {
        for policy in POLICIES {
            let ram = Ram::new(policy);
            let held = ram.fill(0, 128, |_| Left::Clean);
            // A page in most of the slabs must stay, also in the one that is wanted first.
            let per_slab = (ram.cache.slots(class(128)) / 16) as u64;
            (0..held - per_slab).step_by(50).filter(|&page| ram.has(page)).for_each(|page| {
                assert!(ram.bring_in(page, 128, stays));
            });
            let attempts = (1..20_000).find(|_| ram.bring_in(1_000_000, 4096, Left::Clean));
            assert!(attempts.is_some(), "{policy:?}: pages that are {stays:?} stop the move for ever");
            (0..held - per_slab).step_by(50).for_each(|page| {
                assert!(page == 0 || ram.has(page), "{policy:?}: a page that is {stays:?} has left");
            });
            ram.check();
        }
    }
}

#[test]
fn the_busier_class_grows_and_the_other_keeps_a_slab() {
    for policy in POLICIES {
        let ram = Ram::new(policy);
        ram.fill(0, 128, |_| Left::Clean);
        let small = ram.cache.slots(class(128));
        for page in 1_000_000..1_020_000 {
            assert!(ram.bring_in(page, 1000, Left::Clean), "{policy:?}");
        }
        assert!(ram.cache.slots(class(128)) < small / 2, "{policy:?}: the idle class gave too little");
        assert!(ram.cache.slots(class(128)) > 0, "{policy:?}: the idle class was robbed of everything");
        ram.check();
        // And back again when the use changes.
        let large = ram.cache.slots(class(1000));
        for page in 2_000_000..2_060_000 {
            assert!(ram.bring_in(page, 128, Left::Clean), "{policy:?}");
        }
        assert!(ram.cache.slots(class(1000)) < large, "{policy:?}");
        ram.check();
    }
}

/// Two dozen classes with a slab each for one compressed page were a twentieth of a small budget.
#[test]
fn a_few_compressed_pages_do_not_keep_slabs_from_whole_ones() {
    let ram = Ram::new(POLICIES[0]);
    let (sizes, whole) = ([64, 700, 1500], class(4096));
    (0..200).for_each(|page| assert!(ram.bring_in(page, 4096, Left::Clean)));
    for (page, bytes) in sizes.into_iter().enumerate() {
        assert!(ram.compress(page as u64, bytes), "a slab for {bytes} bytes");
    }
    for page in 1000..4000 {
        let due = ram.cache.unmapping_due();
        ram.cache.next_to_unmap(due, &mut [PageId(0); 64]);
        assert!(ram.bring_in(page, 4096, Left::Clean), "page {page}");
    }
    let kept = sizes.iter().filter(|&&bytes| ram.cache.slots(class(bytes)) > 0).count();
    assert_eq!((kept, ram.cache.slots(whole)), (0, 256));
    ram.check();
}

#[test]
fn all_classes_at_once() {
    for policy in POLICIES {
        let ram = Ram::new(policy);
        let mut seed = 1u64;
        for page in 0..60_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(page);
            let bytes = 1 + (seed >> 33) as usize % 4096;
            let left = if seed >> 60 == 0 { Left::Dirty } else { Left::Clean };
            if !ram.bring_in(page, bytes, left) {
                ram.writer_pass(64);
            }
            if seed >> 56 & 3 == 0 {
                ram.free(page / 2);
            }
        }
        ram.check();
        let mut pages = Vec::new();
        ram.cache.for_each(&mut |_, page| pages.push(page));
        assert_eq!(pages.len() as u64, ram.cache.objects());
        pages.iter().for_each(|&PageId(page)| ram.free(page));
        assert_eq!(ram.cache.objects(), 0);
        ram.check();
    }
}
