//! The heap in place keeps what the durable heap keeps: the same transactions on both, and on a model.

use std::collections::BTreeMap;
use std::path::Path;

use aquifer_base::HomeAddress;
use aquifer_durable::in_place::{InPlaceHeap, Kind};
use aquifer_durable::persist::MemoryFile;
use aquifer_durable::{Access, DurableHeap, Error, Load, Options, Transactional};

fn in_place(dir: &Path, kind: Kind) -> InPlaceHeap {
    let file = |name: &str, bytes| MemoryFile::open(&dir.join(name), bytes).expect("a file");
    InPlaceHeap::on(Box::new(file("journal", 16 << 20)), Box::new(file("home", 1 << 30)), kind)
        .expect("a heap")
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

type Model = BTreeMap<HomeAddress, Vec<u8>>;

/// Some transactions, one in eight of which is given up, and what is there then.
fn run(heap: &impl Transactional, model: &mut Model, random: &mut Random) {
    for _ in 0..300 {
        let (mut next, is_kept) = (model.clone(), random.below(8) > 0);
        let seed = random.below(1 << 40) + 1;
        let outcome = heap.transaction(|tx| {
            next = model.clone();
            let mut random = Random(seed);
            for _ in 0..1 + random.below(6) {
                step(tx, &mut next, &mut random)?;
            }
            if is_kept { Ok(()) } else { Err(Error::NotAllocated(HomeAddress(0))) }
        });
        match outcome {
            Ok(()) => *model = next,
            Err(error) => assert!(!is_kept, "{error}"),
        }
    }
}

fn step(tx: &mut impl Access, model: &mut Model, random: &mut Random) -> Result<(), Error> {
    let chosen = model.keys().nth(random.below(model.len().max(1) as u64) as usize).copied();
    match (random.below(4), chosen) {
        (0 | 1, Some(home)) => {
            let len = model[&home].len() as u64;
            let at = random.below(len);
            let bytes = vec![random.below(256) as u8; 1 + random.below(len - at) as usize];
            tx.store(home.plus_bytes(at), &bytes)?;
            let object = model.get_mut(&home).expect("chosen from it");
            object[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
        }
        (2, Some(home)) if model.len() > 20 => {
            tx.free(home)?;
            model.remove(&home);
        }
        _ => {
            let bytes = [1, 8, 100, 5000][random.below(4) as usize];
            assert!(model.insert(tx.alloc(bytes)?, vec![0; bytes as usize]).is_none());
        }
    }
    Ok(())
}

fn check(heap: &impl Transactional, model: &Model) {
    for (&home, bytes) in model {
        let mut found = vec![1; bytes.len()];
        heap.transaction(|tx| tx.load(home, &mut found)).expect("allocated");
        assert_eq!(found, *bytes);
    }
}

#[test]
fn keeps_what_the_durable_heap_keeps() {
    for kind in [Kind::Redo, Kind::Undo] {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut model, mut random) = (Model::new(), Random(7));
        for _ in 0..5 {
            let heap = in_place(dir.path(), kind);
            check(&heap, &model);
            run(&heap, &mut model, &mut random);
            check(&heap, &model);
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let heap = DurableHeap::open(&dir.path().join("heap"), &Options::default()).expect("a heap");
    let mut model = Model::new();
    run(&heap, &mut model, &mut Random(7));
    check(&heap, &model);
}

/// A transaction of two words in old objects: what the table in `in_place.rs` says.
#[test]
fn waits_as_often_as_it_must() {
    for (kind, expected) in [(Kind::Redo, 3), (Kind::Undo, 4)] {
        let dir = tempfile::tempdir().expect("a directory");
        let heap = in_place(dir.path(), kind);
        let home = heap.transaction(|tx| tx.alloc(128)).expect("room");
        let fences = || heap.persists().map(|persist| persist.counts().fences()).iter().sum::<u64>();
        let before = fences();
        heap.transaction(|tx| {
            tx.store_u64(home, 1)?;
            tx.store_u64(home.plus_bytes(64), 2)
        })
        .expect("allocated");
        assert_eq!(fences() - before, expected, "{kind:?}");
    }
}

#[test]
fn what_is_not_allocated_is_not_freed() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = in_place(dir.path(), Kind::Redo);
    let home = heap.transaction(|tx| tx.alloc(100)).expect("room");
    heap.transaction(|tx| tx.free(home)).expect("allocated");
    assert!(matches!(heap.transaction(|tx| tx.free(home)), Err(Error::NoObject(_))));
    assert!(matches!(heap.transaction(|tx| tx.free(home.plus_bytes(4))), Err(Error::NoObject(_))));
}
