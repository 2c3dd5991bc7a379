//! The word's protocol, in the interleavings that memory ordering allows.
//!
//! What it guards is as weak as it may be: values that are loaded and stored with no order of their own. What only a holder uses is a
//! cell that loom watches, so that two holders without an order between them fail the model.
//!
//! Of each object loom remembers the last access alone, so a load of one's own hides from it that the store behind it races with
//! somebody else's load. Holders therefore only store what readers load, every race is run with each thread as the one that
//! begins, and the tests say what readers must have met.

use std::collections::BTreeSet;
use std::sync::Mutex;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// What readers have met: the versions that they accepted, and `None` for what they did not.
type Met = BTreeSet<Option<u64>>;

/// A partition: the place of two values that change together, and two places where they can be.
struct World {
    word: WordCell,
    place: AtomicU64,
    values: [[AtomicU64; 2]; 2],
    /// The same place, and the version of the values, for holders.
    held: UnsafeCell<(u64, u64)>,
    met: &'static Mutex<Met>,
}

// SAFETY: the cell is used under the lock, which is what the models check.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

/// What is put where nothing is any more.
const GONE: u64 = 77;

impl World {
    fn new(met: &'static Mutex<Met>) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            word: WordCell(zero()),
            place: zero(),
            values: [[zero(), zero()], [zero(), zero()]],
            held: UnsafeCell::new((0, 0)),
            met,
        }
    }

    fn store(&self, place: u64, value: u64) {
        for cell in &self.values[place as usize] {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// Of one who has locked the word: changes place and version.
    fn lock(&self, before: Option<Word>, change: impl Fn(&mut (u64, u64))) -> Option<(Word, (u64, u64))> {
        let before = before?;
        assert!(!before.is_locked() && !before.is_committing());
        let held = self.held.with_mut(|held| {
            // SAFETY: loom fails the model if another thread uses the cell meanwhile.
            let held = unsafe { &mut *held };
            assert_eq!(held.1, before.version(), "a holder sees what the last one left");
            change(held);
            *held
        });
        Some((before, held))
    }

    /// Both values become a new version.
    fn write(&self) {
        let Some((_, (place, version))) = self.lock(self.word.try_lock(), |held| held.1 += 1) else { return };
        self.store(place, version);
        self.word.unlock(version);
    }

    /// The values go to the other place, and theirs to somebody else.
    fn move_away(&self) {
        let Some((before, (place, version))) =
            self.lock(self.word.try_lock_to_move(), |held| held.0 = 1 - held.0)
        else {
            return;
        };
        self.store(place, version);
        self.place.store(place, Ordering::Relaxed);
        self.store(1 - place, GONE);
        self.word.unlock_moved(before);
    }

    /// Locks the word and changes nothing.
    fn give_up(&self) {
        let Some((before, _)) = self.lock(self.word.try_lock(), |_| {}) else { return };
        self.word.unlock_unchanged(before);
    }

    /// Looks once, at the first value first or last; what it accepts is of the version that the word says.
    fn look(&self, order: [usize; 2]) -> Option<u64> {
        let before = self.word.word();
        if before.is_locked() {
            return None;
        }
        let place = &self.values[self.place.load(Ordering::Relaxed) as usize];
        let values = order.map(|n| place[n].load(Ordering::Relaxed));
        self.word.is_unchanged(before).then(|| {
            assert_eq!(values, [before.version(); 2]);
            before.version()
        })
    }

    fn read(&self) {
        let found = self.look([0, 1]);
        self.met.lock().unwrap().insert(found);
    }

    /// What it has accepted never goes back.
    fn read_twice(&self) {
        let (first, second) = (self.look([0, 1]), self.look([1, 0]));
        assert!(first.is_none() || second.is_none() || first <= second, "{first:?}, then {second:?}");
        self.met.lock().unwrap().extend([first, second]);
    }
}

/// Runs the steps in threads of their own, each once in the thread that begins. Returns what readers have met.
fn race<const N: usize>(mut steps: [fn(&World); N]) -> Met {
    let met: &'static Mutex<Met> = Box::leak(Box::default());
    for _ in 0..N {
        steps.rotate_left(1);
        let mut model = loom::model::Builder::new();
        // As with the entries.
        model.preemption_bound = Some(3);
        model.check(move || {
            let world = Arc::new(World::new(met));
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
            assert!(world.look([0, 1]).is_some(), "nobody holds it");
        });
    }
    met.lock().unwrap().clone()
}

fn versions<const N: usize>(versions: [u64; N]) -> Met {
    versions.into_iter().map(Some).chain([None]).collect()
}

#[test]
fn a_reader_accepts_one_version() {
    assert_eq!(race([World::write, World::read_twice]), versions([0, 1]));
}

#[test]
fn a_reader_accepts_nothing_that_was_moved_meanwhile() {
    assert_eq!(race([World::move_away, World::read_twice]), versions([0]));
}

#[test]
fn a_reader_and_two_writers() {
    assert_eq!(race([World::write, World::write, World::read]), versions([0, 1, 2]));
}

#[test]
fn a_reader_a_writer_and_a_mover() {
    assert_eq!(race([World::write, World::move_away, World::read]), versions([0, 1]));
}

#[test]
fn a_reader_and_one_that_moves_and_writes_and_moves() {
    let change = |world: &World| {
        world.move_away();
        world.write();
        world.move_away();
    };
    assert_eq!(race([change, World::read]), versions([0, 1]));
}

#[test]
fn a_reader_a_writer_and_one_that_gives_up() {
    assert_eq!(race([World::write, World::give_up, World::read]), versions([0, 1]));
}

#[test]
fn two_writers_and_a_mover_hold_it_in_turn() {
    assert_eq!(race([World::write, World::move_away, World::write]), Met::new());
}
