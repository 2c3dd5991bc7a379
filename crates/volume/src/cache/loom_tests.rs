//! A page between threads that store to it, commit, evict and cut, in every order of their locks.
//!
//! | invariant | shown by |
//! |---|---|
//! | only a clean page leaves | a later store, and the end, find all stores before it |
//! | a page that changed is in the list of the next commit, once, or in the commit under way | `World::check_list` |
//! | a commit that fails gives all of it back | all stores are in RAM then, and in the list |
//! | the table points to bytes that were copied whole | both halves of a store are on flash, or none |
//! | what was cut does not come back | the end finds zeros |
//!
//! The volume is real: its locks are loom's, its device is memory. Two rules keep a page that is not clean: its stage, and that a list holds it. The model
//! fails when both are broken, and not when one is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aquifer_device::{FaultKind, FaultPlan, Faulty, Forgetful, Operation};
use loom::thread;

use super::*;
use crate::block::Trim;
use crate::core::Core;
use crate::medium::DeviceMedium;
use crate::volume::{OpenOptions, Volume};
use crate::word::PAGE_BYTES;

const INO: Ino = Ino::FIRST_FREE;
const SEGMENT_PAGES: u32 = 8;
/// How often a thread loses its turn where it need not wait.
const PREEMPTIONS: usize = 2;
const STACK_WORDS: usize = 64 << 10;
/// Where the second half of a store is.
const HALF: usize = PAGE_BYTES / 2;

fn key() -> PageKey {
    PageKey::data(INO, 0)
}

/// What of a commit fails.
type Fault = Option<Operation>;

fn medium(device: &Arc<Faulty<Forgetful>>) -> Box<DeviceMedium<Arc<Faulty<Forgetful>>>> {
    Box::new(DeviceMedium::new(Arc::clone(device), SEGMENT_PAGES).expect("a medium"))
}

fn open(device: &Arc<Faulty<Forgetful>>) -> Volume {
    Volume::open(medium(device), OpenOptions { ram_bytes: 1 << 20, is_read_only: false }).expect("opened")
}

/// A volume that has the page, with store 0 in it.
fn image() -> Arc<Forgetful> {
    let made = Arc::new(std::sync::Mutex::new(None));
    let image = Arc::clone(&made);
    loom::model(move || {
        let image = Arc::clone(&image);
        let make = move || {
            let device = Arc::new(Faulty::new(Forgetful::new(1 << 20, 512), FaultPlan::new(0)));
            Volume::create(medium(&device), (0, 0)).expect("created");
            let volume = open(&device);
            store(volume.core(), 0).expect("stored");
            volume.close().expect("closed");
            *image.lock().expect("nobody panics") = Some(device.inner().copy());
        };
        spawn(make).join().expect("made");
    });
    Arc::new(made.lock().expect("nobody panics").take().expect("made"))
}

fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::Builder::new().stack_size(STACK_WORDS).spawn(run).expect("a thread")
}

fn half(state: &FrameState, at: usize) -> u64 {
    let mut bytes = [0; 8];
    state.read(key(), at, &mut bytes).expect("in RAM");
    u64::from_ne_bytes(bytes)
}

/// Stores number `nth` of the page.
fn store(core: &Core, nth: usize) -> Result<()> {
    loop {
        let change = core.begin()?;
        let frame = core.page(key(), None)?;
        let Some(mut state) = frame.changeable()? else {
            // It leaves: the thread that drops it has its turn.
            drop(change);
            thread::yield_now();
            continue;
        };
        change.page(&frame, &mut state)?;
        for at in [8 * nth, HALF + 8 * nth] {
            state.write(key(), at, &(nth as u64 + 1).to_ne_bytes(), core.cache.room())?;
        }
        return Ok(());
    }
}

/// Which of the first three stores the page has, each of them whole.
fn stores(core: &Core) -> [bool; 3] {
    loop {
        let frame = core.page(key(), None).expect("readable");
        let Some(state) = frame.ready().expect("readable") else {
            thread::yield_now();
            continue;
        };
        return std::array::from_fn(|nth| {
            let halves = [half(&state, 8 * nth), half(&state, HALF + 8 * nth)];
            assert_eq!(halves[0], halves[1], "half of store {nth}");
            assert!([0, nth as u64 + 1].contains(&halves[0]), "store {nth} is {}", halves[0]);
            halves[0] > 0
        });
    }
}

/// As [`Volume::punch`] does.
fn cut(core: &Core) -> Result<()> {
    let change = core.begin()?;
    let _taken = core.take_pages(INO);
    core.trims.add(Trim { ino: INO, first: 0, last: 0 });
    core.cache.cut(key(), |state| core.forget_promise(state))?;
    drop(change);
    Ok(())
}

/// What the threads of a model share.
struct World {
    volume: Volume,
}

impl World {
    fn new(image: &Forgetful, fault: Fault) -> Arc<Self> {
        let plan = match fault {
            Some(operation) => FaultPlan::new(0).from_nth(operation, 1, FaultKind::Eio),
            None => FaultPlan::new(0),
        };
        let device = Arc::new(Faulty::new(image.copy(), plan));
        device.disarm();
        let volume = open(&device);
        device.arm();
        Arc::new(World { volume })
    }

    fn core(&self) -> &Core {
        self.volume.core()
    }

    fn evict(&self) {
        self.core().cache.make_room_until(0).expect("memory can be given back");
    }

    /// Looks at all pages when no commit is under way.
    fn check_list(&self) {
        let cache = &self.core().cache;
        // A page that was cut away stays there, beside one that came after it.
        let listed: Vec<Arc<Frame>> = lock(&cache.dirty).clone();
        assert_eq!(cache.dirty(), listed.len());
        for shard in &cache.shards {
            for frame in lock(shard).values() {
                let state = frame.lock();
                assert!(matches!(state.stage, Stage::Clean | Stage::Dirty), "{:?}", state.stage);
                let times = listed.iter().filter(|listed| Arc::ptr_eq(listed, frame)).count();
                let is_once = times == usize::from(state.stage.is_dirty());
                assert!(is_once, "{:?} is {times} times in the list", state.stage);
            }
        }
    }

    /// Says that the page has just these stores: in RAM, and after a commit on flash.
    fn check(&self, expected: [bool; 3]) {
        self.check_list();
        assert_eq!(stores(self.core()), expected);
        match self.core().commit() {
            Ok(()) => {
                self.check_list();
                assert_eq!(self.core().cache.dirty(), 0);
                self.evict();
                assert!(self.core().cache.peek(key()).is_none(), "a clean page can leave");
            }
            Err(_) => {
                self.check_list();
                self.evict();
            }
        }
        assert_eq!(stores(self.core()), expected);
    }
}

/// Runs `model` in all orders of its locks in which threads are interrupted twice.
fn explore(fault: Fault, model: impl Fn(Arc<World>) + Sync + Send + 'static) {
    let (image, model) = (image(), Arc::new(model));
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.max_branches = 100_000;
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        let (image, model) = (Arc::clone(&image), Arc::clone(&model));
        // Opening a volume needs more stack than loom's first thread has.
        spawn(move || model(World::new(&image, fault))).join().expect("the model holds");
    });
    let runs = runs.load(Relaxed);
    println!("{runs} orders");
    assert!(runs > 100, "{runs} orders show nothing");
}

fn with<T: Send + 'static>(
    world: &Arc<World>,
    run: impl FnOnce(&World) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let world = Arc::clone(world);
    spawn(move || run(&world))
}

/// One thread stores twice, the second time to what the first has left; one commits, one evicts.
fn stores_beside_commit_and_eviction(fault: Fault) {
    explore(fault, |world| {
        let commits = with(&world, |world| world.core().commit().is_ok());
        let evicts = with(&world, World::evict);
        let stored = [1, 2].map(|nth| {
            let is_stored = store(world.core(), nth).is_ok();
            let found = stores(world.core());
            assert!(found[0] && found[nth] == is_stored, "{found:?}");
            is_stored
        });
        commits.join().expect("no panic");
        evicts.join().expect("no panic");
        world.check([true, stored[0], stored[1]]);
    });
}

/// One thread stores, one commits; one cuts the page away and stores once more.
fn a_cut_beside_store_and_commit(fault: Fault) {
    explore(fault, |world| {
        let stores_once = with(&world, |world| store(world.core(), 1).is_ok());
        let commits = with(&world, |world| world.core().commit().is_ok());
        let is_cut = cut(world.core()).is_ok();
        let is_stored = store(world.core(), 2).is_ok();
        let was_stored = stores_once.join().expect("no panic");
        commits.join().expect("no panic");
        let found = stores(world.core());
        assert_eq!((found[0], found[2]), (!is_cut, is_stored));
        assert!(found[1] == was_stored || is_cut, "{found:?}");
        world.check(found);
    });
}

#[test]
fn no_store_is_lost_beside_a_commit_and_eviction() {
    stores_beside_commit_and_eviction(None);
}

#[test]
fn nor_beside_a_commit_that_cannot_write() {
    stores_beside_commit_and_eviction(Some(Operation::Write));
}

#[test]
fn nor_beside_a_commit_that_cannot_sync() {
    stores_beside_commit_and_eviction(Some(Operation::Sync));
}

#[test]
fn what_is_cut_beside_a_commit_does_not_come_back() {
    a_cut_beside_store_and_commit(None);
}

#[test]
fn nor_beside_a_commit_that_fails() {
    a_cut_beside_store_and_commit(Some(Operation::Sync));
}
