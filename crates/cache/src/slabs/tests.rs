//! Slots are given out once, slabs change hands whole.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// Eight slabs, and what stands beside them.
const BYTES: usize = 8 * ((64 << 10) + words::of_whole_bytes(16));

fn slabs(links: bool) -> Slabs {
    Slabs::new(BYTES, links).unwrap()
}

fn class(bytes: usize) -> Class {
    Class::for_bytes(bytes).unwrap()
}

/// Address ranges of slots do not overlap, nor reach into headers, which keep what they say while every
/// byte of every slot is written.
fn check_apart(slabs: &Slabs, slots: &HashMap<SlotId, (Class, PageId)>) {
    let mut ranges: Vec<(usize, usize)> =
        slots.iter().map(|(&slot, (class, _))| (slabs.pointer(slot) as usize, class.slot_bytes())).collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
    for (&slot, (class, _)) in slots {
        // SAFETY: the slot is ours, as long as its class says, and no thread uses it.
        unsafe { slabs.pointer(slot).write_bytes(0xFF, class.slot_bytes()) };
    }
    for (&slot, &(class, page)) in slots {
        assert_eq!(slabs.owner(class, slot), Some(page));
        assert_eq!(slabs.class_of(slot), class);
        assert_eq!(slabs.slot_at(class, slabs.position_of(class, slot)), Some(slot));
    }
}

fn give_back(slabs: &Slabs, class: Class, slot: SlotId) {
    slabs.clear_owner(class, slot);
    slabs.free(class, slot);
}

#[test]
fn every_slot_of_every_class_once() {
    for links in [false, true] {
        let slabs = slabs(links);
        for class in Class::all() {
            let mut slots = HashMap::new();
            while let Some(slot) = slabs.allocate(class, PageId(slots.len() as u64)) {
                assert_eq!(slots.insert(slot, (class, PageId(slots.len() as u64))), None);
            }
            assert_eq!(slots.len(), 8 * slabs.slots_per_slab(class) as usize);
            check_apart(&slabs, &slots);
            slots.keys().for_each(|&slot| give_back(&slabs, class, slot));
            assert_eq!(slabs.slabs_of(class), 1, "the class keeps its last slab");
            // The next class wants all of the memory.
            let last =
                slabs.slab_at(class, (0..8).find(|&rank| slabs.slab_at(class, rank).is_some()).unwrap());
            let slot = slabs.allocate(class, PageId(0)).unwrap();
            assert!(slabs.start_draining(class, last.unwrap()));
            give_back(&slabs, class, slot);
            assert!(slabs.finish_draining(class, last.unwrap()));
        }
        assert_eq!(slabs.ram_bytes(), slabs.bookkeeping_bytes());
    }
}

#[test]
fn kept_slabs_stay_free_but_the_first_of_a_class() {
    for class in [Class::WHOLE, class(1000)] {
        let slabs = slabs(false);
        let per_slab = slabs.slots_per_slab(class) as usize;
        let fill = || std::iter::from_fn(|| slabs.allocate(class, PageId(1))).collect::<Vec<_>>();
        let slots = fill();
        slabs.keep_free(3);
        assert!(slabs.lacks_free() && slots.len() == 8 * per_slab);
        for slot in &slots {
            give_back(&slabs, class, *slot);
        }
        assert!(!slabs.lacks_free());
        assert_eq!(fill().len(), 5 * per_slab);
        let other = Class::for_bytes(64).unwrap();
        assert!(slabs.allocate(other, PageId(2)).is_some() && slabs.lacks_free());
        assert!(slabs.allocate_kept(class, PageId(3)).is_some());
        slabs.keep_free(0);
        assert_eq!(fill().len(), 2 * per_slab - 1);
    }
}

#[test]
fn a_slab_that_is_drained_hands_nothing_out() {
    let (slabs, class) = (slabs(false), class(1000));
    let first = slabs.allocate(class, PageId(1)).unwrap();
    assert!(slabs.start_draining(class, first.slab()));
    assert!(!slabs.start_draining(class, first.slab()), "it is being drained");
    let second = slabs.allocate(class, PageId(2)).unwrap();
    assert_ne!(second.slab(), first.slab());
    assert!(!slabs.finish_draining(class, first.slab()), "a page is still in it");
    assert_eq!(slabs.owner(class, first), Some(PageId(1)));
    // It takes part again.
    let third = slabs.allocate(class, PageId(3)).unwrap();
    assert_eq!(third.slab(), first.slab());
    assert!(slabs.start_draining(class, first.slab()));
    give_back(&slabs, class, first);
    give_back(&slabs, class, third);
    assert!(slabs.finish_draining(class, first.slab()));
    assert_eq!(slabs.slabs_of(class), 1);
    assert!(!slabs.start_draining(class, first.slab()), "it is in no class now");
}

#[test]
fn a_full_slab_can_be_drained_too() {
    let (slabs, class) = (slabs(false), class(4096));
    let per_slab = slabs.slots_per_slab(class);
    let slots: Vec<SlotId> =
        (0..per_slab).map(|n| slabs.allocate(class, PageId(u64::from(n))).unwrap()).collect();
    let slab = slots[0].slab();
    assert!(slots.iter().all(|slot| slot.slab() == slab));
    assert!(slabs.start_draining(class, slab));
    give_back(&slabs, class, slots[3]);
    assert_ne!(slabs.allocate(class, PageId(99)).unwrap().slab(), slab);
    assert!(!slabs.finish_draining(class, slab));
    assert_eq!(slabs.allocate(class, PageId(98)), Some(slots[3]), "its one free slot is back");
}

#[test]
fn objects_of_one_class_are_no_headers_of_the_next() {
    for links in [false, true] {
        let slabs = slabs(links);
        let (large, small) = (class(4096), class(16));
        // Fill all memory with bytes that look like used headers, and give it back.
        let mut slots = Vec::new();
        while let Some(slot) = slabs.allocate(large, PageId(7)) {
            // SAFETY: the slot is ours and has that many bytes.
            unsafe { slabs.pointer(slot).write_bytes(0xFF, 4096) };
            slots.push(slot);
        }
        slots.iter().for_each(|&slot| give_back(&slabs, large, slot));
        let mut owned = 0;
        while slabs.slabs_of(small) < 4 {
            slabs.allocate(small, PageId(1)).unwrap();
            owned += 1;
        }
        let used = (0..slabs.positions(small))
            .filter_map(|position| slabs.slot_at(small, position))
            .filter(|&slot| slabs.owner(small, slot).is_some());
        assert_eq!(used.count(), owned);
        if links {
            let fresh = slabs.slot_at(small, slabs.positions(small) - 1).unwrap();
            assert_eq!(slabs.links(small, fresh), (NIL, NIL));
        }
    }
}

#[test]
fn marks_and_links_leave_the_owner_alone() {
    let (slabs, class) = (slabs(true), class(48));
    let slot = slabs.allocate(class, PageId((1 << 34) - 1)).unwrap();
    slabs.set_links(class, slot, (5, u32::MAX));
    for mark in 0..128 {
        slabs.set_mark(class, slot, mark);
        assert_eq!((slabs.mark(class, slot), slabs.links(class, slot)), (mark, (5, u32::MAX)));
        assert_eq!(slabs.owner(class, slot), Some(PageId((1 << 34) - 1)));
    }
    slabs.clear_owner(class, slot);
    slabs.set_mark(class, slot, 3);
    assert_eq!((slabs.owner(class, slot), slabs.mark(class, slot)), (None, 0), "an unused slot has no mark");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn agrees_with_a_map(
        steps in proptest::collection::vec((0usize..28, 0u32..200, any::<bool>()), 1..400),
        links in any::<bool>(),
    ) {
        let slabs = slabs(links);
        let mut used: HashMap<SlotId, (Class, PageId)> = HashMap::new();
        let mut next = 0;
        for (index, count, give) in steps {
            let class = Class::from_index(index);
            if give {
                let mine: Vec<SlotId> = used.iter().filter(|(_, owner)| owner.0 == class).map(|(&slot, _)| slot).collect();
                for slot in mine.into_iter().take(count as usize) {
                    used.remove(&slot);
                    give_back(&slabs, class, slot);
                }
                continue;
            }
            for _ in 0..count {
                let Some(slot) = slabs.allocate(class, PageId(next)) else { break };
                prop_assert_eq!(used.insert(slot, (class, PageId(next))), None);
                next += 1;
            }
        }
        check_apart(&slabs, &used);
        for class in Class::all() {
            let of_class = used.values().filter(|owner| owner.0 == class).count() as u32;
            let per_slab = slabs.slots_per_slab(class);
            prop_assert!(slabs.slabs_of(class) >= of_class.div_ceil(per_slab));
            let ranks = (0..slabs.rank_end(class)).filter(|&rank| slabs.slab_at(class, rank).is_some());
            prop_assert_eq!(ranks.count() as u32, slabs.slabs_of(class));
        }
        let slabs_in_use: u32 = Class::all().map(|class| slabs.slabs_of(class)).sum();
        let beside = slabs.bookkeeping_bytes() + slabs.whole_bytes();
        prop_assert_eq!(slabs.ram_bytes() - beside, slabs_in_use as usize * (64 << 10));
    }
}

/// Threads write their number all over their slots and find it there when they give them back.
#[test]
fn no_slot_has_two_holders() {
    let slabs = slabs(false);
    std::thread::scope(|scope| {
        for thread in 1..=4u8 {
            let slabs = &slabs;
            scope.spawn(move || {
                let mut held: Vec<(Class, SlotId)> = Vec::new();
                let mut seed = u64::from(thread);
                for _ in 0..20_000 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let class = Class::from_index((seed >> 40) as usize % SIZES.len());
                    let slot =
                        if seed >> 63 == 0 { slabs.allocate(class, PageId(u64::from(thread))) } else { None };
                    if let Some(slot) = slot {
                        // SAFETY: the slot was just given to us.
                        unsafe { slabs.pointer(slot).write_bytes(thread, class.slot_bytes()) };
                        held.push((class, slot));
                    } else if !held.is_empty() {
                        let (class, slot) = held.swap_remove((seed >> 20) as usize % held.len());
                        let (first, len) = (slabs.pointer(slot), class.slot_bytes());
                        // SAFETY: the slot is still ours.
                        let bytes = unsafe { std::slice::from_raw_parts(first, len) };
                        assert!(bytes.iter().all(|&byte| byte == thread));
                        assert_eq!(slabs.owner(class, slot), Some(PageId(u64::from(thread))));
                        give_back(slabs, class, slot);
                    }
                }
                held.into_iter().for_each(|(class, slot)| give_back(slabs, class, slot));
            });
        }
    });
    assert!(Class::all().all(|class| slabs.slabs_of(class) <= 1));
}
