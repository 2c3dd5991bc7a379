//! The protocol of one entry and of one bucket, in every interleaving that memory ordering allows.
//!
//! A slot's bytes are a cell that loom watches: two threads that use it without an order between them fail
//! the model. So the model also proves that a thread that takes an entry sees what the last holder wrote.
//!
//! Pages 0, 1, 512 and 513 are told apart by their tags; other pages would need more than one bucket.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

const PAGE: PageId = PageId(1);

/// A table of one bucket, and slots whose use is watched.
struct World {
    table: EntryTable,
    /// How often each slot was given back.
    freed: [AtomicU64; 2],
    bytes: [UnsafeCell<u64>; 2],
}

// SAFETY: the cells are used under the entry that names their slot, which is what the models check.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Self {
        Self {
            table: EntryTable::with_buckets(1),
            freed: std::array::from_fn(|_| AtomicU64::new(0)),
            bytes: std::array::from_fn(|_| UnsafeCell::new(0)),
        }
    }

    /// With `PAGE` in slot 0.
    fn with_page(dirty: bool) -> Self {
        let world = Self::new();
        let locked = world.table.lock(PAGE).unwrap();
        let entry = locked.entry().cached(0).with_dirty(dirty);
        locked.release(entry);
        world
    }

    /// With `PAGE` in slot 0, mapped, as a fault leaves it.
    fn with_mapped_page() -> Self {
        let world = Self::new();
        let locked = world.table.lock(PAGE).unwrap();
        let entry = locked.entry().mapped(0, true);
        locked.release(entry);
        world
    }

    /// Uses the bytes of a slot, as only the holder of its entry may.
    fn write(&self, slot: u32) {
        // SAFETY: loom fails the model if another thread uses the cell meanwhile.
        self.bytes[slot as usize].with_mut(|bytes| unsafe { *bytes += 1 });
    }

    fn give_back(&self, slot: u32) {
        self.write(slot);
        assert_eq!(
            self.freed[slot as usize].fetch_add(1, Ordering::Relaxed),
            0,
            "slot {slot} is free already"
        );
    }

    /// Finds the page in its slot, or fills slot 1; maps it.
    fn fault(&self) {
        let locked = self.table.lock(PAGE).unwrap();
        let slot = locked.before().and_then(Entry::slot).unwrap_or(1);
        self.write(slot);
        let entry = locked.entry().mapped(slot, true);
        locked.release(entry);
    }

    /// Takes a clean cached page out of RAM; whether it was there.
    fn evict(&self) -> bool {
        let may_leave = |entry: Entry| entry.state() == State::Cached && !entry.is_dirty();
        let Some(locked) = self.table.try_lock_if(PAGE, may_leave) else { return false };
        self.give_back(locked.entry().slot().unwrap());
        locked.remove();
        true
    }

    /// Frees the page, wherever it is.
    fn free(&self) {
        let Some(locked) = self.table.lock_resident(PAGE) else { return };
        self.give_back(locked.entry().slot().unwrap());
        locked.remove();
    }

    /// Writes a dirty cached page back.
    fn clean(&self) {
        let may_be_written = |entry: Entry| entry.state() == State::Cached && entry.is_dirty();
        let Some(locked) = self.table.try_lock_if(PAGE, may_be_written) else { return };
        let slot = locked.entry().slot().unwrap();
        self.write(slot);
        let entry = locked.entry().cached(slot).with_dirty(false);
        locked.release(entry);
    }

    /// The page has at most one entry, and it names a slot that was not given back.
    fn check(&self) {
        assert!(self.table.count() <= 1);
        if let Some(entry) = self.table.find(PAGE) {
            assert!(entry.state() != State::Moving);
            assert_eq!(self.freed[entry.slot().unwrap() as usize].load(Ordering::Relaxed), 0);
        }
    }
}

/// Tries every interleaving with at most three switches away from a thread that could go on. Musuvathi and
/// Qadeer (PLDI 2007) needed no more than two for any bug they found.
fn model(world: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(world);
}

/// Runs the steps in threads of their own, the last one in this thread, and checks the world at the end.
fn race<const N: usize>(world: World, steps: [fn(&World); N]) {
    let world = Arc::new(world);
    let (last, others) = steps.split_last().expect("something to do");
    let threads: Vec<_> = others
        .iter()
        .map(|&step| {
            let world = world.clone();
            thread::spawn(move || step(&world))
        })
        .collect();
    last(&world);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    world.check();
}

#[test]
fn two_faults_and_an_eviction_of_a_clean_page() {
    model(|| {
        race(World::with_page(false), [World::fault, World::fault, |world| _ = world.evict()]);
    });
}

#[test]
fn two_faults_of_a_page_that_is_not_in_ram() {
    model(|| race(World::new(), [World::fault, World::fault]));
}

#[test]
fn a_fault_an_eviction_and_a_free() {
    model(|| race(World::with_page(false), [World::fault, World::free, |world| _ = world.evict()]));
}

#[test]
fn the_writer_an_eviction_and_a_free() {
    model(|| race(World::with_page(true), [World::clean, World::free, |world| _ = world.evict()]));
}

#[test]
fn a_dirty_page_is_never_evicted_before_the_writer_has_it() {
    model(|| {
        race(
            World::with_page(true),
            [World::clean, |world| {
                if world.evict() {
                    // Only the writer's turn made it clean, and its bytes are in order before ours.
                    assert_eq!(
                        world.bytes[0].with(|bytes| {
                            // SAFETY: the page is gone, so its slot is ours.
                            unsafe { *bytes }
                        }),
                        2
                    );
                }
            }],
        );
    });
}

/// The word is the same before and after the other's turn, so comparing it must also bring in what that did.
#[test]
fn two_faults_of_a_mapped_page() {
    model(|| race(World::with_mapped_page(), [World::fault, World::fault]));
}

/// An evicted page that comes back to the same slot finds the evicting thread done with it.
#[test]
fn a_slot_that_is_used_again() {
    model(|| {
        let come_back = |world: &World| {
            let locked = world.table.lock(PAGE).unwrap();
            world.write(0);
            let entry = locked.entry().cached(0);
            locked.release(entry);
        };
        let evict = |world: &World| {
            if let Some(locked) = world.table.lock_resident(PAGE) {
                world.write(0);
                locked.remove();
            }
        };
        race(World::with_page(false), [evict, come_back]);
    });
}

/// A prefetch and a fault bring in one page: one of them makes the entry.
#[test]
fn a_prefetch_and_a_fault_of_one_page() {
    model(|| {
        race(
            World::new(),
            [World::fault, |world| {
                if let Some(locked) = world.table.try_insert(PAGE) {
                    assert_eq!(locked.before(), None);
                    world.write(0);
                    let entry = locked.entry().cached(0);
                    locked.release(entry);
                }
            }],
        );
    });
}

/// Two pages want the last vacancy of their bucket: one gets it, the other is told that the table is full,
/// or gets the place of the page that it evicts.
#[test]
fn two_pages_compete_for_the_last_vacancy() {
    model(|| {
        let table = Arc::new(EntryTable::with_buckets(1));
        let evicted = Arc::new(AtomicU64::new(0));
        let resident = table.lock(PageId(512)).unwrap();
        let entry = resident.entry().cached(0);
        resident.release(entry);
        let come_in = |table: &EntryTable, evicted: &AtomicU64, page: PageId| -> bool {
            for _ in 0..2 {
                if let Ok(locked) = table.lock(page) {
                    assert_eq!(locked.before(), None, "nobody else brings it in");
                    let entry = locked.entry().cached(page.0 as u32);
                    locked.release(entry);
                    return true;
                }
                let old = table.try_lock_if(PageId(512), |entry| entry.state() == State::Cached);
                if let Some(locked) = old {
                    locked.remove();
                    evicted.fetch_add(1, Ordering::Relaxed);
                }
            }
            false
        };
        let other = {
            let (table, evicted) = (table.clone(), evicted.clone());
            thread::spawn(move || come_in(&table, &evicted, PageId(1)))
        };
        let came = [come_in(&table, &evicted, PageId(0)), other.join().unwrap()];
        let evicted = evicted.load(Ordering::Relaxed);
        let count = came.iter().filter(|&&came| came).count() as u64;
        assert!(count >= 1 && count <= 1 + evicted && evicted <= 1);
        assert_eq!(table.count() as u64, 1 - evicted + count);
        for (page, came) in came.into_iter().enumerate() {
            let slot = table.find(PageId(page as u64)).and_then(Entry::slot);
            assert_eq!(slot, came.then_some(page as u32));
        }
    });
}

/// A thread that walks the rivals of a page sees whole entries, of pages that are or were there.
#[test]
fn a_walk_meets_a_removal_and_an_insertion() {
    model(|| {
        let table = Arc::new(EntryTable::with_buckets(1));
        let change = {
            let table = table.clone();
            thread::spawn(move || {
                let locked = table.lock(PageId(0)).unwrap();
                let entry = locked.entry().cached(0);
                locked.release(entry);
                let locked = table.lock_resident(PageId(0)).unwrap();
                locked.remove();
                let locked = table.lock(PageId(513)).unwrap();
                let entry = locked.entry().cached(513);
                locked.release(entry);
            })
        };
        table.for_each_rival(PageId(1), &mut |page, entry| {
            assert!([0, 513].contains(&page.0), "{page:?}");
            assert!(entry.slot().is_none_or(|slot| u64::from(slot) == page.0), "{page:?} {entry:?}");
        });
        change.join().unwrap();
        assert_eq!(table.find(PageId(0)), None);
        assert_eq!(table.find(PageId(513)).and_then(Entry::slot), Some(513));
    });
}
