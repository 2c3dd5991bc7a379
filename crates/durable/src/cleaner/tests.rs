use std::sync::mpsc;
use std::thread;

use aquifer_base::HomeAddress;
use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_map::partitions::{Hint, Source};

use super::*;
use crate::{Backing, DurableHeap, Options};

const CHUNK_BYTES: u32 = 64 << 10;
const OBJECT_BYTES: u64 = 96;

fn options(chunks: u64) -> Options {
    Options {
        capacity_bytes: 4096 + chunks * u64::from(CHUNK_BYTES),
        chunk_bytes: CHUNK_BYTES,
        backing: Backing::Memory,
        cleans_ahead: false,
        ..Options::default()
    }
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        (1..items.len()).for_each(|n| items.swap(n, self.below(n as u64 + 1) as usize));
    }
}

/// Where the log has the first byte of an object.
fn source(core: &Core, home: HomeAddress) -> Source {
    core.map.find(home.partition(), home.offset_bytes() / LOG_GRAIN_BYTES, &mut Hint::default()).source
}

/// One pass by `policy`; returns its victims, those of them that it released, and the chunks that it was promised and has opened.
fn pass(core: &Core, policy: &dyn VictimPolicy) -> (usize, u64, usize, usize) {
    let mut place = core.places.try_take(&core.log).expect("nobody cleans");
    let (cleaned, opened) = (core.cleaned().chunks, place.session.opened);
    core.clean_by(policy, &mut place).expect("there is room");
    let released = core.cleaned().chunks - cleaned;
    (place.victims.len(), released, place.filled, (place.session.opened - opened) as usize)
}

/// Objects that were written one by one in no order, of which some were freed, lie in the order of their homes in the several chunks that
/// one pass fills, and what was freed stays so when the log is read again.
#[test]
fn a_pass_merges_several_victims_and_keeps_frees() {
    const OBJECTS: usize = 150_000;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    // Nothing is cleaned before half of the objects are gone.
    let options = || Options { utilisation_percent: 20, ..options(1024) };
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    let mut homes = Vec::new();
    for _ in 0..OBJECTS / 100 {
        let allocated =
            heap.transaction(|tx| (0..100).map(|_| tx.alloc(OBJECT_BYTES)).collect::<Result<Vec<_>>>());
        homes.extend(allocated.expect("room"));
    }
    let mut rng = Rng(3);
    rng.shuffle(&mut homes);
    for home in &homes {
        heap.transaction(|tx| tx.store(*home, &[home.0 as u8 | 1; OBJECT_BYTES as usize])).expect("room");
    }
    let freed = homes.split_off(OBJECTS / 2);
    freed.iter().for_each(|&home| heap.transaction(|tx| tx.free(home)).expect("an object"));
    let core = heap.core();
    let (passes, _) = core.log.passes();
    assert!(passes.chunks > 1, "{passes:?}");

    homes.sort_unstable();
    // The first victims are empty: what was allocated in them was written since.
    let (opened, moved) = (0..200)
        .find_map(|_| {
            let before: Vec<_> = homes.iter().map(|&home| source(core, home)).collect();
            let (victims, released, filled, opened) = pass(core, &Greedy);
            assert!(opened <= filled && released <= victims as u64, "{opened} of {filled} chunks");
            let after = homes.iter().map(|&home| source(core, home));
            let moved: Vec<_> = after.zip(before).filter(|(after, before)| after != before).collect();
            (opened > 1 && released > 2 && moved.len() > 500).then_some((opened, moved))
        })
        .expect("a pass fills several chunks out of several victims");
    let grain =
        |(after, _)| if let Source::Log(grain) = after { grain } else { panic!("{after:?} has no bytes") };
    let moved: Vec<_> = moved.into_iter().map(grain).collect();
    // Only where a chunk ends the next one may lie before it.
    let breaks = moved.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(breaks < opened, "{breaks} breaks of the order in {opened} chunks");

    while heap.clean().expect("there is room") {}
    assert_eq!(heap.cleaned().damaged_chunks, 0);
    drop(heap);
    let heap = DurableHeap::open(&path, &options()).expect("opens again");
    for home in homes {
        let mut bytes = [0; OBJECT_BYTES as usize];
        heap.transaction(|tx| tx.load(home, &mut bytes)).expect("it is there");
        assert_eq!(bytes, [home.0 as u8 | 1; OBJECT_BYTES as usize], "{home:?}");
    }
    for home in freed {
        let found = heap.transaction(|tx| tx.load_u64(home));
        assert!(matches!(found, Err(Error::NotAllocated(_))), "{home:?} was freed: {found:?}");
    }
}

/// Of what was written whole every second grain is left: copies take half as much room again. A pass fills no more than it was promised, and
/// finishes one victim at least.
#[test]
fn a_pass_of_many_small_runs_fills_what_it_was_promised() {
    const WORDS: u64 = 1 << 20;
    const OTHERS_BYTES: usize = 15 << 20;
    const PART_BYTES: usize = 8 << 10;
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { utilisation_percent: 5, ..options(1024) };
    let heap = DurableHeap::open(&dir.path().join("heap"), &options).expect("opens");
    let fill = |bytes: usize| {
        let home = heap.transaction(|tx| tx.alloc(bytes as u64)).expect("room");
        for first in (0..bytes).step_by(PART_BYTES) {
            let words = (first..first + PART_BYTES).step_by(4).flat_map(|at| (at as u32 / 4).to_le_bytes());
            let bytes: Vec<u8> = words.collect();
            heap.transaction(|tx| tx.store(home.plus_bytes(first as u64), &bytes)).expect("room");
        }
        home
    };
    fill(OTHERS_BYTES);
    fill(OTHERS_BYTES);
    let array = fill(WORDS as usize * 4);
    let word = |n: u64| array.plus_bytes(n * 4);
    for first in (0..WORDS).step_by(1024) {
        let store = |tx: &mut crate::Transaction<'_>| {
            (first..first + 1024).step_by(2).try_for_each(|n| tx.store(word(n), &(!n as u32).to_le_bytes()))
        };
        heap.transaction(store).expect("room");
    }
    let core = heap.core();
    let mut place = core.places.try_take(&core.log).expect("nobody cleans");
    assert!(core.choose_victims(&Greedy, &mut place));
    let (victims, opened) =
        (core.collect_all(&mut place, &core.log.oldest(&core.clock)).expect("sound"), place.session.opened);
    let (_, has_room) = core.copy_survivors(&mut place, &victims).expect("there is room");
    let opened = (place.session.opened - opened) as usize;
    assert!(!has_room && opened <= place.filled, "{opened} of {} chunks are filled", place.filled);
    let released =
        core.release_all(&victims, has_room, &core.log.oldest(&core.clock)).expect("the memory is sound");
    assert!((1..victims.len()).contains(&released), "{released} of {} were finished", victims.len());
    drop(place);
    assert!(heap.clean().expect("there is room"), "what was left over is cleaned next");
    assert_eq!(heap.cleaned().damaged_chunks, 0);
    for n in 0..WORDS {
        let mut bytes = [0; 4];
        heap.transaction(|tx| tx.load(word(n), &mut bytes)).expect("it is there");
        assert_eq!(u32::from_le_bytes(bytes), if n % 2 == 0 { !n as u32 } else { n as u32 }, "word {n}");
    }
}

/// A thread that finds all places taken gets the first chunk that becomes free, while the passes go on.
#[test]
fn a_writer_waits_for_a_chunk_and_not_for_a_pass() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = DurableHeap::open(&dir.path().join("heap"), &options(16)).expect("opens");
    let core = heap.core();
    let taken: Vec<_> = std::iter::from_fn(|| core.log.take(Purpose::Clean).expect("it grows")).collect();
    let passes: Vec<_> = std::iter::from_fn(|| core.places.try_take(&core.log)).collect();
    assert!(!passes.is_empty());
    thread::scope(|scope| {
        let (told, hears) = mpsc::channel();
        scope.spawn(move || told.send(core.take_cleaned(Purpose::Write)).expect("somebody hears"));
        while core.places.common().waiting() == 0 {
            thread::yield_now();
        }
        assert!(hears.try_recv().is_err(), "there was no chunk");
        taken.iter().for_each(|&id| core.log.put_back(id));
        core.places.turn();
        let found = hears.recv().expect("it does not panic").expect("the memory is sound");
        assert!(found.is_some_and(|id| taken.contains(&id)), "{found:?}");
    });
    drop(passes);
}

/// The last pass that ends without a gain leaves nobody waiting.
#[test]
fn nobody_waits_when_the_last_pass_has_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = DurableHeap::open(&dir.path().join("heap"), &options(16)).expect("opens");
    let core = heap.core();
    let taken: Vec<_> = std::iter::from_fn(|| core.log.take(Purpose::Clean).expect("it grows")).collect();
    let passes: Vec<_> = std::iter::from_fn(|| core.places.try_take(&core.log)).collect();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| core.take_cleaned(Purpose::Write));
        while core.places.common().waiting() == 0 {
            thread::yield_now();
        }
        drop(passes);
        let found = waiter.join().expect("it does not panic").expect("the memory is sound");
        assert_eq!(found, None, "there is nothing to clean");
    });
    taken.iter().for_each(|&id| core.log.put_back(id));
}

/// Passes at the same time have different victims, and no room is promised twice.
#[test]
fn passes_share_victims_and_room() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = DurableHeap::open(&dir.path().join("heap"), &options(512)).expect("opens");
    let homes: Vec<_> = (0..4000).map(|_| heap.transaction(|tx| tx.alloc(4096)).expect("room")).collect();
    for round in 0..2 {
        for &home in homes.iter().skip(round).step_by(1 + round) {
            heap.transaction(|tx| tx.store(home, &[round as u8; 4096])).expect("room");
        }
    }
    let core = heap.core();
    let mut places = [core.places.try_take(&core.log).expect("nobody cleans"), {
        // Where there is one processor there is one place at a time; here are two all the same.
        core.places.take_another()
    }];
    let (_, left) = core.log.passes();
    let begun = places.each_mut().map(|place| core.choose_victims(&Greedy, place));
    assert_eq!(begun, [true, true]);
    let [first, second] = &places;
    assert!(first.victims.iter().all(|victim| !second.victims.contains(victim)));
    assert!(first.promised() + second.promised() <= left);
    drop(places);
    assert!(
        heap.clean().expect("there is room"),
        "victims of passes that came to nothing are there for others"
    );
}
