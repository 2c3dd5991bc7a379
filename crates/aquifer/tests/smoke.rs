//! Data many times larger than RAM, written and read back.

mod common;

use aquifer::{Heap, Options};
use common::{Object, long_or};

fn heap(ram: u64, flash: u64) -> Heap {
    Heap::open(Options::new().ram_bytes(ram).flash_bytes(flash)).unwrap()
}

#[test]
fn keeps_sixteen_times_more_than_ram() {
    let heap = heap(long_or(16 << 20, 8 << 20) as u64, 600 << 20);
    let count = long_or(2 << 20, 1 << 20);
    let array = heap.array(count, 128).unwrap();
    for n in 0..count {
        let words = array.element(n).cast::<u64>();
        // SAFETY: the element has 128 bytes and is ours.
        unsafe {
            *words = n as u64;
            *words.add(15) = !(n as u64);
        }
    }
    let mut n = 1usize;
    for _ in 0..100_000 {
        n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let index = (n >> 20) % count;
        let words = array.element(index).cast::<u64>();
        // SAFETY: as above.
        let (first, last) = unsafe { (*words, *words.add(15)) };
        assert_eq!((first, last), (index as u64, !(index as u64)));
    }
    let stats = heap.stats();
    assert!(stats.misses > 50_000, "{stats:?}");
    assert!(stats.ram_used_bytes <= stats.ram_budget_bytes, "{stats:?}");
    heap.check().unwrap();
    heap.free(array.base()).unwrap();
    assert_eq!(heap.stats().flash_live_bytes, 0);
    heap.check().unwrap();
}

/// Sizes beside the steps of the cache's slots; those above 3584 bytes take a whole page.
#[test]
fn elements_may_have_any_size() {
    let heap = heap(16 << 20, 200 << 20);
    for bytes in [1793, 3583, 3584, 3585, 4000, 4095, 4096] {
        let array = heap.array((24 << 20) / bytes, bytes).unwrap();
        let mut elements: Vec<_> = (0..array.len()).map(|n| Object::new(array.element(n), bytes)).collect();
        for _ in 0..2 {
            elements.iter_mut().step_by(2).for_each(Object::write);
            elements.iter().for_each(Object::check);
        }
        heap.check().unwrap();
        heap.free(array.base()).unwrap();
    }
    assert!(heap.stats().misses > 20_000, "{:?}", heap.stats());
}

/// Of data that fit, pages leave their addresses, not RAM: nothing is written, so nobody has to look for what to write.
#[test]
fn what_fits_in_ram_is_not_written() {
    let heap = heap(16 << 20, 64 << 20);
    let mut objects: Vec<_> = (0..20_000).map(|_| Object::new(heap.allocate(128).unwrap(), 128)).collect();
    for _ in 0..3 {
        objects.iter_mut().for_each(Object::write);
    }
    objects.iter().for_each(Object::check);
    let stats = heap.stats();
    assert!(stats.evicted_pages > 20_000, "they leave the page buffer: {stats:?}");
    assert_eq!((stats.misses, stats.objects_written), (0, 0));
}
