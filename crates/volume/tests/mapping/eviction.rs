//! Which mapped pages stay when not all can.

use std::sync::atomic::Ordering;

use aquifer_volume::{PAGE_BYTES, Protection};

use super::{RAM_BYTES, Rig, make, words};

/// Pages that are loaded all the time.
const HOT: usize = 200;
/// Pages that are loaded again only when more than the RAM has gone by.
const WARM: usize = 1000;
const WORDS_OF_PAGE: usize = PAGE_BYTES / 8;

/// Loads leave no trace in a page that is mapped; still the pages that are used most must stay.
fn loads_are_seen(is_to_share: bool) {
    let rig = Rig::new();
    let volume = rig.open();
    let size_bytes = 40 << 20;
    assert!((HOT + WARM) * PAGE_BYTES < size_bytes && (HOT + WARM) * (PAGE_BYTES + 256) > RAM_BYTES as usize);
    let ino = make(&volume, "file", size_bytes as u64);
    for page in 0..(size_bytes / PAGE_BYTES) as u64 {
        volume.write(ino, page * PAGE_BYTES as u64, &page.to_le_bytes()).expect("write");
    }
    volume.sync().expect("sync");
    let map = if is_to_share { aquifer_volume::Volume::map_to_share } else { aquifer_volume::Volume::map };
    let mapping = map(&volume, ino, 0, size_bytes, Protection::Read).expect("map");
    let load = |page: usize| {
        assert_eq!(words(&mapping)[page * WORDS_OF_PAGE].load(Ordering::Relaxed), page as u64);
    };
    let reads = || volume.stats().pages_read;
    // The distances and the order keep pages from being read ahead.
    let hot = |nth: usize| nth % HOT * 7 % HOT * 10;
    let warm = |nth: usize| 3 + nth % WARM * 17 % WARM * 10;
    let (mut hot_loads, mut hot_reads) = (0, 0);
    for step in 0..20 * WARM {
        load(warm(step));
        let before = reads();
        (0..5).for_each(|nth| load(hot(step * 5 + nth)));
        if step >= 10 * WARM {
            hot_loads += 5;
            hot_reads += reads() - before;
        }
    }
    assert!(hot_reads * 1000 < hot_loads, "{hot_reads} of {hot_loads} loads of hot pages came from flash");
}

#[test]
fn loads_of_one_view_are_seen() {
    loads_are_seen(false);
}

#[test]
fn loads_of_shared_memory_are_seen() {
    loads_are_seen(true);
}
