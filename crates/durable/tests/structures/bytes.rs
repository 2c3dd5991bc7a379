//! Structures of bytes against those of the standard library; what they leave behind; two threads.

use std::collections::{BTreeMap, VecDeque};

use aquifer_base::HomeAddress;
use aquifer_durable::structures::bytes::{Entry, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use aquifer_durable::structures::{BytesMap, BytesQueue, BytesTree};
use aquifer_durable::{DurableHeap, Error, Result, Transaction, Typed};
use proptest::prelude::*;

use super::{mix, open};

type Bytes = Vec<u8>;
type Model = BTreeMap<Bytes, Bytes>;

#[derive(Clone, Debug)]
enum Operation {
    Put(Bytes, Bytes),
    Remove(Bytes),
    Get(Bytes),
    Step(Bytes),
}

#[derive(Clone, Debug)]
enum Step {
    Transaction { operations: Vec<Operation>, is_kept: bool },
    Reopen,
}

/// Few bytes of few values, zeros among them, and many that begin alike for longer than a node has of them.
fn key() -> impl Strategy<Value = Bytes> {
    let tail = || prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..4);
    prop_oneof![
        tail(),
        (8..14usize, tail()).prop_map(|(len, tail)| [vec![7; len], tail].concat()),
        (500..520usize, tail()).prop_map(|(len, tail)| [vec![8; len], tail].concat()),
        any::<u16>().prop_map(|n| format!("key {}", n % 500).into_bytes()),
        any::<u16>().prop_map(|n| format!("a longer key, the {}th", n % 500).into_bytes()),
    ]
}

fn value() -> impl Strategy<Value = Bytes> {
    let len = prop_oneof![3 => 0..14usize, 2 => 14..300usize, 1 => 3000..9000usize];
    (len, any::<u8>()).prop_map(|(len, fill)| vec![fill; len])
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let operation = prop_oneof![
        6 => (key(), value()).prop_map(|(key, value)| Operation::Put(key, value)),
        4 => key().prop_map(Operation::Remove),
        2 => key().prop_map(Operation::Get),
        2 => key().prop_map(Operation::Step),
    ];
    let step = prop_oneof![
        15 => (prop::collection::vec(operation, 1..80), prop::bool::weighted(0.8))
            .prop_map(|(operations, is_kept)| Step::Transaction { operations, is_kept }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

/// A structure, and what is done to it and to a model at once.
trait Subject: Copy {
    type Model: Clone + Default;
    fn create(tx: &mut Transaction<'_>) -> Result<HomeAddress>;
    fn open(tx: &mut Transaction<'_>, home: HomeAddress) -> Result<Self>;
    fn apply(self, tx: &mut Transaction<'_>, model: &mut Self::Model, operation: &Operation) -> Result<()>;
    fn compare(self, tx: &mut Transaction<'_>, model: &Self::Model) -> Result<()>;
    fn destroy(self, tx: &mut Transaction<'_>) -> Result<()>;
}

fn run<S: Subject>(steps: &[Step]) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (mut heap, mut model) = (open(&path), S::Model::default());
    let made = heap.transaction(|tx| {
        let home = S::create(tx)?;
        tx.set_root(home)
    });
    made.expect("room");
    for step in steps {
        match step {
            Step::Reopen => {
                drop(heap);
                heap = open(&path);
            }
            Step::Transaction { operations, is_kept } => {
                let (mut tx, mut next) = (heap.begin(), model.clone());
                let subject = here::<S>(&mut tx);
                for operation in operations {
                    subject.apply(&mut tx, &mut next, operation).expect("there is room");
                }
                subject.compare(&mut tx, &next).expect("it sees what it did");
                if *is_kept {
                    tx.commit().expect("there is room, and nobody else");
                    model = next;
                }
            }
        }
        heap.transaction(|tx| here::<S>(tx).compare(tx, &model)).expect("it can be read");
    }
    heap.transaction(|tx| here::<S>(tx).destroy(tx)).expect("it is all freed");
    let left = heap.transaction(|tx| tx.next_object(HomeAddress(0))).expect("nobody else");
    assert_eq!(left, None, "an object is left");
}

fn here<S: Subject>(tx: &mut Transaction<'_>) -> S {
    let home = tx.root().expect("nobody else").expect("it was set");
    S::open(tx, home).expect("it is there")
}

fn loaded(tx: &mut Transaction<'_>, entry: Option<Entry>) -> Result<Option<(Bytes, Bytes)>> {
    entry.map(|(key, value)| Ok((key, value.load(tx)?))).transpose()
}

impl Subject for BytesMap {
    type Model = Model;

    fn create(tx: &mut Transaction<'_>) -> Result<HomeAddress> {
        BytesMap::create(tx).map(BytesMap::home)
    }

    fn open(tx: &mut Transaction<'_>, home: HomeAddress) -> Result<Self> {
        BytesMap::open(tx, home)
    }

    fn apply(self, tx: &mut Transaction<'_>, model: &mut Model, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Put(key, value) => {
                assert_eq!(self.put(tx, key, value)?, model.insert(key.clone(), value.clone()).is_none());
            }
            Operation::Remove(key) => assert_eq!(self.remove(tx, key)?, model.remove(key).is_some()),
            Operation::Get(key) => assert_eq!(self.get(tx, key)?.as_ref(), model.get(key)),
            Operation::Step(key) => {
                let found = self.next(tx, Some(key))?;
                assert!(found.is_none_or(|(found, _)| found != *key && model.contains_key(&found)));
            }
        }
        Ok(())
    }

    fn compare(self, tx: &mut Transaction<'_>, model: &Model) -> Result<()> {
        let (mut found, mut after) = (Model::new(), None);
        while let Some((key, value)) = self.next(tx, after.as_deref())? {
            assert_eq!(found.insert(key.clone(), value.load(tx)?), None, "twice: {key:?}");
            after = Some(key);
        }
        assert_eq!(found, *model);
        assert_eq!(self.len(tx)?, model.len() as u64);
        Ok(())
    }

    fn destroy(self, tx: &mut Transaction<'_>) -> Result<()> {
        BytesMap::destroy(self, tx)
    }
}

impl Subject for BytesTree {
    type Model = Model;

    fn create(tx: &mut Transaction<'_>) -> Result<HomeAddress> {
        BytesTree::create(tx).map(BytesTree::home)
    }

    fn open(tx: &mut Transaction<'_>, home: HomeAddress) -> Result<Self> {
        BytesTree::open(tx, home)
    }

    fn apply(self, tx: &mut Transaction<'_>, model: &mut Model, operation: &Operation) -> Result<()> {
        let pair = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
        match operation {
            Operation::Put(key, value) => {
                assert_eq!(self.put(tx, key, value)?, model.insert(key.clone(), value.clone()).is_none());
            }
            Operation::Remove(key) => assert_eq!(self.remove(tx, key)?, model.remove(key).is_some()),
            Operation::Get(key) => assert_eq!(self.get(tx, key)?.as_ref(), model.get(key)),
            Operation::Step(key) => {
                let behind = (std::ops::Bound::Excluded(key.clone()), std::ops::Bound::Unbounded);
                let found = self.next(tx, key)?;
                assert_eq!(loaded(tx, found)?, model.range(behind).next().map(pair));
                let found = self.seek(tx, key)?;
                assert_eq!(loaded(tx, found)?, model.range(key.clone()..).next().map(pair));
                let found = self.previous(tx, key)?;
                assert_eq!(loaded(tx, found)?, model.range(..key.clone()).next_back().map(pair));
            }
        }
        Ok(())
    }

    fn compare(self, tx: &mut Transaction<'_>, model: &Model) -> Result<()> {
        let (mut found, mut entry) = (Vec::new(), self.first(tx)?);
        while let Some((key, value)) = entry {
            found.push((key.clone(), value.load(tx)?));
            entry = self.next(tx, &key)?;
        }
        assert!(found.iter().map(|(key, value)| (key, value)).eq(model));
        let mut entry = self.last(tx)?;
        while let Some((key, _)) = entry {
            assert_eq!(found.pop().map(|(key, _)| key).as_ref(), Some(&key));
            entry = self.previous(tx, &key)?;
        }
        assert!(found.is_empty());
        assert_eq!(self.len(tx)?, model.len() as u64);
        assert_eq!(self.is_empty(tx)?, model.is_empty());
        Ok(())
    }

    fn destroy(self, tx: &mut Transaction<'_>) -> Result<()> {
        BytesTree::destroy(self, tx)
    }
}

impl Subject for BytesQueue {
    type Model = VecDeque<Bytes>;

    fn create(tx: &mut Transaction<'_>) -> Result<HomeAddress> {
        BytesQueue::create(tx).map(BytesQueue::home)
    }

    fn open(tx: &mut Transaction<'_>, home: HomeAddress) -> Result<Self> {
        BytesQueue::open(tx, home)
    }

    fn apply(self, tx: &mut Transaction<'_>, model: &mut Self::Model, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Put(_, value) => {
                model.push_back(value.clone());
                self.push(tx, value)?;
            }
            Operation::Remove(_) => assert_eq!(self.pop(tx)?, model.pop_front()),
            Operation::Get(_) | Operation::Step(_) => {
                let front = self.front(tx)?.map(|value| value.load(tx)).transpose()?;
                assert_eq!(front.as_ref(), model.front());
            }
        }
        Ok(())
    }

    fn compare(self, tx: &mut Transaction<'_>, model: &Self::Model) -> Result<()> {
        let values = self.iter(tx)?.collect::<Result<Vec<_>>>()?;
        let values = values.into_iter().map(|value| value.load(tx)).collect::<Result<Vec<_>>>()?;
        assert!(values.iter().eq(model));
        for n in 0..=values.len() {
            let found = self.nth(tx, n as u64)?.map(|value| value.load(tx)).transpose()?;
            assert_eq!(found.as_ref(), model.get(n));
        }
        assert_eq!(self.len(tx)?, model.len() as u64);
        Ok(())
    }

    fn destroy(self, tx: &mut Transaction<'_>) -> Result<()> {
        BytesQueue::destroy(self, tx)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_map_of_bytes_is_as_the_model(steps in steps()) {
        run::<BytesMap>(&steps);
    }

    #[test]
    fn a_tree_of_bytes_is_as_the_model(steps in steps()) {
        run::<BytesTree>(&steps);
    }

    #[test]
    fn a_queue_of_bytes_is_as_the_model(steps in steps()) {
        run::<BytesQueue>(&steps);
    }
}

fn heap(test: impl FnOnce(&DurableHeap)) {
    let dir = tempfile::tempdir().expect("a directory");
    test(&open(&dir.path().join("heap")));
}

/// Splits and merges of nodes, all of whose keys are long: every copy of a key must be freed.
#[test]
fn long_keys_come_and_go_in_any_order() {
    heap(|heap| {
        let tree = heap.transaction(|tx| BytesTree::create(tx)).expect("room");
        let key = |n: u64| format!("all of these keys begin alike, {:05}", mix(n) % 3000).into_bytes();
        let mut model = Model::new();
        for n in 0..12_000 {
            let key = key(n);
            // More and more, and then fewer and fewer.
            let is_put = mix(n ^ 0xFF) % 12_000 > n;
            let changed =
                heap.transaction(
                    |tx| {
                        if is_put { tree.put(tx, &key, &key[..20]) } else { tree.remove(tx, &key) }
                    },
                );
            let expected = if is_put {
                model.insert(key.clone(), key[..20].to_vec()).is_none()
            } else {
                model.remove(&key).is_some()
            };
            assert_eq!(changed.expect("room"), expected);
        }
        heap.transaction(|tx| tree.compare(tx, &model)).expect("it can be read");
        for key in model.into_keys() {
            assert!(heap.transaction(|tx| tree.remove(tx, &key)).expect("room"));
        }
        let mut objects = Vec::new();
        heap.transaction(|tx| {
            objects.clear();
            while let Some(object) = tx.next_object(objects.last().copied().unwrap_or(HomeAddress(0)))? {
                objects.push(object);
            }
            Ok(())
        })
        .expect("nobody else");
        assert_eq!(objects, [tree.home()], "an empty tree is one object");
    });
}

/// A map shrinks, or grows, while it is walked: nothing is missed or seen twice, whatever moves meanwhile.
#[test]
fn a_map_that_is_walked_may_be_changed() {
    for shrinks in [true, false] {
        heap(|heap| {
            let map = heap.transaction(|tx| BytesMap::create(tx)).expect("room");
            let key = |n: u64| n.to_le_bytes().to_vec();
            for n in 0..2000 {
                heap.transaction(|tx| map.put(tx, &key(n), b"")).expect("room");
            }
            let (mut after, mut seen): (Option<Bytes>, Vec<Bytes>) = (None, Vec::new());
            while let Some((key, _)) = heap.transaction(|tx| map.next(tx, after.as_deref())).expect("nobody")
            {
                if key.len() == 8 {
                    let changed = heap.transaction(|tx| match shrinks {
                        true => map.remove(tx, &key),
                        false => {
                            map.put(tx, &[&key[..], b"another"].concat(), b"")?;
                            map.put(tx, &[&key[..], b"one more"].concat(), b"")
                        }
                    });
                    assert!(changed.expect("room"));
                    seen.push(key.clone());
                }
                after = Some(key);
            }
            seen.sort_unstable_by_key(|key| u64::from_le_bytes(key[..].try_into().expect("8 bytes")));
            assert!(seen.into_iter().eq((0..2000).map(key)));
            let left = if shrinks { 0 } else { 6000 };
            assert_eq!(heap.transaction(|tx| map.len(tx)).expect("nobody"), left);
        });
    }
}

#[test]
fn what_is_too_large_is_refused_and_the_largest_is_kept() {
    heap(|heap| {
        let (key, value) = (vec![1; KEY_BYTES_MAX + 1], vec![2; VALUE_BYTES_MAX + 1]);
        let made = heap
            .transaction(|tx| Ok((BytesMap::create(tx)?, BytesTree::create(tx)?, BytesQueue::create(tx)?)));
        let (map, tree, queue) = made.expect("room");
        let refused = [
            heap.transaction(|tx| map.put(tx, &key, b"").map(drop)),
            heap.transaction(|tx| tree.put(tx, &key, b"").map(drop)),
            heap.transaction(|tx| map.put(tx, b"", &value).map(drop)),
            heap.transaction(|tx| tree.put(tx, b"", &value).map(drop)),
            heap.transaction(|tx| queue.push(tx, &value)),
        ];
        assert!(refused.iter().all(|outcome| matches!(outcome, Err(Error::TooLarge { .. }))), "{refused:?}");
        let (key, value) = (&key[1..], &value[1..]);
        let kept = heap.transaction(|tx| {
            map.put(tx, key, value)?;
            assert_eq!(map.get(tx, key)?.as_deref(), Some(value));
            map.remove(tx, key)?;
            tree.put(tx, key, value)?;
            assert_eq!(tree.get(tx, key)?.as_deref(), Some(value));
            tree.remove(tx, key)?;
            queue.push(tx, value)?;
            assert_eq!(queue.pop(tx)?.as_deref(), Some(value));
            Ok(())
        });
        kept.expect("room");
    });
}

#[test]
fn a_handle_of_something_else_is_refused() {
    heap(|heap| {
        let outcome = heap.transaction(|tx| {
            let (map, tree) = (BytesMap::create(tx)?.home(), BytesTree::create(tx)?.home());
            let (queue, number) = (BytesQueue::create(tx)?.home(), tx.create(7u64)?.home());
            let inside = HomeAddress(tree.0 + 8);
            for wrong in
                [tree, queue, number, inside, HomeAddress(0), HomeAddress(3), HomeAddress(u64::MAX - 7)]
            {
                assert!(matches!(BytesMap::open(tx, wrong), Err(Error::WrongKind { .. })), "{wrong:?}");
            }
            for wrong in [map, queue, number, inside] {
                assert!(matches!(BytesTree::open(tx, wrong), Err(Error::WrongKind { .. })), "{wrong:?}");
            }
            for wrong in [map, tree, number, inside] {
                assert!(matches!(BytesQueue::open(tx, wrong), Err(Error::WrongKind { .. })), "{wrong:?}");
            }
            Ok(())
        });
        outcome.expect("room");
    });
}

#[test]
fn two_threads_each_have_their_keys() {
    heap(|heap| {
        let made = heap.transaction(|tx| Ok((BytesMap::create(tx)?, BytesTree::create(tx)?)));
        let (map, tree) = made.expect("room");
        let key = |thread: u64, n: u64| format!("{:03} of a thread, {thread}", mix(n) % 200).into_bytes();
        let models: Vec<Model> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut model = Model::new();
                        for n in 0..3000 {
                            let (key, is_put) = (key(thread, n), !mix(n ^ thread).is_multiple_of(3));
                            let changed = heap.transaction(|tx| {
                                let changes = if is_put {
                                    [
                                        map.put(tx, &key, &n.to_le_bytes())?,
                                        tree.put(tx, &key, &n.to_le_bytes())?,
                                    ]
                                } else {
                                    [map.remove(tx, &key)?, tree.remove(tx, &key)?]
                                };
                                assert_eq!(changes[0], changes[1]);
                                Ok(changes[0])
                            });
                            let expected = if is_put {
                                model.insert(key, n.to_le_bytes().to_vec()).is_none()
                            } else {
                                model.remove(&key).is_some()
                            };
                            assert_eq!(changed.expect("room"), expected);
                        }
                        model
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        let model = models.into_iter().flatten().collect();
        heap.transaction(|tx| {
            map.compare(tx, &model)?;
            tree.compare(tx, &model)?;
            map.destroy(tx)?;
            tree.destroy(tx)?;
            assert_eq!(tx.next_object(HomeAddress(0))?, None);
            Ok(())
        })
        .expect("it is all freed");
    });
}
