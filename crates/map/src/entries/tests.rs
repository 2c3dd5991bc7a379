//! The table against a map, and how full it gets.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

#[test]
fn fills_to_its_capacity_with_scattered_and_with_dense_pages() {
    for stride in [1u64, 97, 512, 4099] {
        let table = EntryTable::new(100_000);
        let mut refused = 0;
        for n in 0..100_000u64 {
            let Ok(locked) = table.lock(PageId(n * stride)) else {
                refused += 1;
                continue;
            };
            let entry = locked.entry().cached(n as u32);
            locked.release(entry);
            assert_eq!(
                table.find(PageId(n * stride)).and_then(Entry::slot),
                Some(n as u32),
                "stride {stride}"
            );
        }
        assert!(refused < 1000, "{refused} of 100000 pages {stride} apart found no room");
        let mut seen = 0;
        table.for_each(&mut |page, entry| {
            assert_eq!(entry.slot().map(|slot| u64::from(slot) * stride), Some(page.0));
            seen += 1;
        });
        assert_eq!(seen + refused, 100_000);
    }
}

#[test]
fn walks_a_leaf() {
    let table = EntryTable::new(1000);
    for page in [0, 5, 511, 512, 600] {
        let locked = table.lock(PageId(page)).unwrap();
        let entry = locked.entry().cached(page as u32);
        locked.release(entry);
    }
    let mut seen = Vec::new();
    table.for_each_of_leaf(LeafId(0), &mut |page, _| seen.push(page.0));
    seen.sort_unstable();
    assert_eq!(seen, [0, 5, 511]);
}

#[test]
fn walks_find_pages_in_either_bucket() {
    let table = EntryTable::new(4000);
    let mut kept = std::collections::BTreeSet::new();
    for page in 0..4000 {
        let Ok(locked) = table.lock(PageId(page)) else { continue };
        let entry = locked.entry().cached(page as u32);
        locked.release(entry);
        kept.insert(page);
    }
    assert!(kept.iter().any(|&page| table.find(PageId(page)).is_some_and(Entry::is_second)), "too empty");
    let mut seen = std::collections::BTreeSet::new();
    (0..8).for_each(|leaf| table.for_each_of_leaf(LeafId(leaf), &mut |page, _| assert!(seen.insert(page.0))));
    assert_eq!(seen, kept);
}

proptest! {
    #[test]
    fn agrees_with_a_map(ops in proptest::collection::vec((0u64..3000, 0u32..3), 1..2000)) {
        let table = EntryTable::new(4000);
        let mut model = HashMap::new();
        for (page, op) in ops {
            let id = PageId(page * 37);
            match op {
                0 => {
                    let locked = table.lock(id).unwrap();
                    prop_assert_eq!(locked.before().and_then(Entry::slot), model.insert(page, page as u32));
                    let entry = locked.entry().cached(page as u32);
                    locked.release(entry);
                }
                1 => {
                    let locked = table.lock_resident(id);
                    prop_assert_eq!(locked.is_some(), model.remove(&page).is_some());
                    if let Some(locked) = locked { locked.remove() }
                }
                _ => prop_assert_eq!(table.find(id).and_then(Entry::slot), model.get(&page).copied()),
            }
        }
    }
}
