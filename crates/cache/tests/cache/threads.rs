//! Many threads, and slots whose bytes tell whose they are.

use std::sync::atomic::{AtomicBool, Ordering};

use aquifer_base::PageId;
use aquifer_cache::SlotId;
use aquifer_map::Entry;

use crate::POLICIES;
use crate::ram::{Ram, class};

const THREADS: u64 = 4;
const PAGES: u64 = 12_000;
const ROUNDS: u64 = 15_000;

/// The size of a page is its own for good, as it is by its leaf.
fn bytes_of(page: u64) -> usize {
    [24, 128, 500, 1500, 4096][page as usize % 5]
}

/// Fills the slot of a page that comes in, or finds what was written when it did.
fn visit(ram: &Ram, page: u64, dirty: bool) {
    let locked = ram.entries.lock(PageId(page)).expect("the table is large");
    let bytes = bytes_of(page);
    let slot = match locked.before().and_then(Entry::slot) {
        Some(slot) => SlotId(slot),
        None => {
            let Some(slot) = ram.cache.allocate(class(bytes), PageId(page), &ram.entries) else {
                locked.remove();
                std::thread::yield_now();
                return;
            };
            // SAFETY: the slot belongs to the page whose entry we hold and has room for its bytes.
            unsafe { ram.cache.pointer(slot).write_bytes(page as u8, bytes) };
            slot
        }
    };
    ram.cache.touch(slot);
    // SAFETY: as above.
    let found = unsafe { std::slice::from_raw_parts(ram.cache.pointer(slot), bytes) };
    assert!(found.iter().all(|&byte| byte == page as u8), "page {page} has the bytes of another");
    assert_eq!(ram.cache.owner(slot), Some(PageId(page)));
    let entry = locked.entry().cached(slot.0);
    let was_dirty = entry.is_dirty();
    locked.release(entry.with_dirty(was_dirty || dirty));
}

#[test]
fn a_page_keeps_its_bytes_whatever_the_others_do() {
    for policy in POLICIES {
        let ram = Ram::new(policy);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (1..=THREADS)
                .map(|thread| {
                    let ram = &ram;
                    scope.spawn(move || {
                        let mut seed = thread;
                        for round in 0..ROUNDS {
                            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
                            // The sizes in use change over time, so that slabs must move.
                            let page = (seed >> 33) % PAGES;
                            let page = if round / 3000 % 2 == 0 { page } else { page / 5 * 5 + 3 };
                            match seed >> 60 {
                                0 => ram.free(page),
                                1 => drop(ram.cache.evict_page(PageId(page), &ram.entries)),
                                2 => visit(ram, page, true),
                                _ => visit(ram, page, false),
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    ram.writer_pass(256);
                    std::thread::yield_now();
                }
            });
            workers.into_iter().for_each(|worker| worker.join().expect("no assertion failed"));
            done.store(true, Ordering::Release);
        });
        ram.check();
        assert!(ram.cache.evicted() > 0, "{policy:?}");
    }
}
