//! Which objects there are and how large, against a model; and accesses that reach beyond an object.

use std::collections::BTreeMap;

use aquifer_base::HomeAddress;
use aquifer_durable::structures::HashMap;
use aquifer_durable::{Backing, DurableHeap, Error, Options, Ref, Result, Transaction, Typed};
use proptest::prelude::*;

type Model = BTreeMap<HomeAddress, u64>;

fn open(path: &std::path::Path) -> DurableHeap {
    let options = Options {
        capacity_bytes: 64 << 20,
        chunk_bytes: 64 << 10,
        backing: Backing::Memory,
        ..Options::default()
    };
    DurableHeap::open(path, &options).expect("opens")
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Alloc(u64),
    Free(usize),
    /// Bytes from an offset of an object, or from its end.
    Store(usize, u64, bool),
}

#[derive(Clone, Debug)]
enum Step {
    Transaction { operations: Vec<Operation>, is_kept: bool },
    Reopen,
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1..200u64, 2 => 4080..4110u64, 2 => 4000..40_000u64, 1 => 1_000_000..1_100_000u64]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let operation = prop_oneof![
        5 => bytes().prop_map(Operation::Alloc),
        3 => any::<usize>().prop_map(Operation::Free),
        3 => (any::<usize>(), 0..300u64, any::<bool>()).prop_map(|(n, at, end)| Operation::Store(n, at, end)),
    ];
    let step = prop_oneof![
        12 => (prop::collection::vec(operation, 1..25), any::<bool>())
            .prop_map(|(operations, is_kept)| Step::Transaction { operations, is_kept }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..30)
}

fn all(tx: &mut Transaction<'_>) -> Result<Model> {
    let (mut found, mut after) = (Model::new(), HomeAddress(0));
    while let Some(object) = tx.next_object(after)? {
        assert!(object > after);
        found.insert(object, tx.size(object)?);
        after = object;
    }
    Ok(found)
}

fn apply(tx: &mut Transaction<'_>, model: &mut Model, operation: Operation) -> Result<()> {
    let nth = |n: usize| model.iter().nth(n % model.len().max(1)).map(|(&home, &bytes)| (home, bytes));
    match operation {
        Operation::Alloc(bytes) => {
            model.insert(tx.alloc(bytes)?, bytes.next_multiple_of(4));
        }
        Operation::Free(n) => {
            if let Some((home, _)) = nth(n) {
                tx.free(home)?;
                model.remove(&home);
            }
        }
        Operation::Store(n, at, is_from_end) => {
            let Some((home, bytes)) = nth(n) else { return Ok(()) };
            let at = if is_from_end { bytes.saturating_sub(at) } else { at };
            let outcome = tx.place(home, at, 9).and_then(|at| tx.store(at, &[7; 9]));
            assert_eq!(outcome.is_ok(), at + 9 <= bytes, "9 bytes at {at} of {bytes}: {outcome:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn objects_are_those_of_the_model(steps in steps()) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("heap");
        let (mut heap, mut model) = (open(&path), Model::new());
        for step in steps {
            match step {
                Step::Reopen => {
                    drop(heap);
                    heap = open(&path);
                }
                Step::Transaction { operations, is_kept } => {
                    let (mut tx, mut next) = (heap.begin(), model.clone());
                    for operation in operations {
                        apply(&mut tx, &mut next, operation).expect("there is room");
                    }
                    assert_eq!(all(&mut tx).expect("nobody else"), next);
                    if is_kept {
                        tx.commit().expect("there is room");
                        model = next;
                    }
                }
            }
            assert_eq!(heap.transaction(all).expect("nobody else"), model);
        }
    }
}

/// A value of another type may be larger than the object that the reference leads to.
#[test]
fn a_value_that_is_larger_than_the_object_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = open(&dir.path().join("heap"));
    let made = heap.transaction(|tx| Ok([tx.create(1u64)?, tx.create(2u64)?]));
    let [first, second] = made.expect("room");
    let wrong = Ref::<[u64; 2]>::from_home(first.home().min(second.home()));
    let stored = heap.transaction(|tx| tx.set(wrong, [7, 7]));
    assert!(matches!(stored, Err(Error::Beyond { .. })), "{stored:?}");
    let loaded = heap.transaction(|tx| tx.get(wrong));
    assert!(matches!(loaded, Err(Error::Beyond { .. })), "{loaded:?}");
    assert_eq!(heap.transaction(|tx| Ok([tx.get(first)?, tx.get(second)?])).expect("both"), [1, 2]);
}

/// Another transaction that frees the object is a conflict for one that has seen it, not a wrong reference.
#[test]
fn a_store_to_an_object_that_was_freed_meanwhile_is_a_conflict() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = open(&dir.path().join("heap"));
    let object = heap.transaction(|tx| {
        let object = tx.alloc(8)?;
        tx.set_root(object)?;
        Ok(object)
    });
    let object = object.expect("room");
    let mut tx = heap.begin();
    assert_eq!(tx.root().expect("nobody yet"), Some(object));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            heap.transaction(|tx| {
                tx.free(object)?;
                tx.set_root(HomeAddress(0))
            })
            .expect("room");
        });
    });
    assert!(matches!(tx.store_u64(object, 1), Err(Error::Conflict)));
}

/// What only reads works on a transaction that can do nothing else, and on a heap that was opened so.
#[test]
fn structures_are_read_without_a_transaction_that_changes() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = open(&path);
    let made = heap.transaction(|tx| {
        let map = HashMap::<u64, u64>::create(tx)?;
        map.insert(tx, 1, 2)?;
        let root = tx.create(map)?;
        tx.set_root_ref(root)?;
        Ok((map, root))
    });
    let (map, root) = made.expect("room");
    let read = |heap: &DurableHeap| {
        heap.read(|tx| {
            let map = tx.root_ref::<HashMap<u64, u64>>()?.expect("it was set");
            let map = tx.get(map)?;
            assert_eq!(tx.size(root.home())?, 8);
            map.iter(tx)?.collect::<Result<Vec<_>>>()
        })
    };
    assert_eq!(read(&heap).expect("it can be read"), [(1, 2)]);
    drop(heap);
    let heaps = [0, 1].map(|_| DurableHeap::open_read_only(&path).expect("several may"));
    for heap in &heaps {
        assert_eq!(read(heap).expect("it can be read"), [(1, 2)]);
        for change in [
            heap.transaction(|tx| map.insert(tx, 3, 4).map(drop)),
            heap.transaction(|tx| tx.alloc(4).map(drop)),
            heap.transaction(|tx| tx.delete(root)),
        ] {
            assert!(matches!(change, Err(Error::ReadOnly)), "{change:?}");
        }
    }
}
