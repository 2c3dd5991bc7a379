//! Random operations against a model, in transactions some of which are dropped, on a heap that is opened again now and then.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use aquifer_durable::structures::{BTree, HashMap, Queue};
use aquifer_durable::{DurableHeap, Result, Transaction, Tuning, Typed, Value, durable_struct};
use proptest::prelude::*;

use super::{mix, open_with};

/// What is done to a structure: the last two are for maps only, and a queue takes out whenever a map removes.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Insert(u16),
    Remove(u16),
    Get(u16),
    Range(u16, u16),
}

#[derive(Clone, Debug)]
enum Step {
    Transaction { operations: Vec<Operation>, is_kept: bool },
    Reopen,
}

fn operation(keys: u16) -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (0..keys).prop_map(Operation::Insert),
        4 => (0..keys).prop_map(Operation::Remove),
        2 => (0..keys).prop_map(Operation::Get),
        1 => (0..keys, 0..keys).prop_map(|(from, to)| Operation::Range(from, to)),
    ]
}

/// Few keys, so that they are met again, or many, so that structures get large.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = |keys: u16| {
        prop_oneof![
            20 => (prop::collection::vec(operation(keys), 1..60), prop::bool::weighted(0.8))
                .prop_map(|(operations, is_kept)| Step::Transaction { operations, is_kept }),
            1 => Just(Step::Reopen),
        ]
    };
    prop_oneof![prop::collection::vec(step(30), 1..60), prop::collection::vec(step(2000), 1..60)]
}

/// A structure and what it is to be like.
trait Model: Clone {
    type Handle: Value;
    fn create(tx: &mut Transaction<'_>) -> Result<Self::Handle>;
    /// Does the same to both; the answers must be the same.
    fn apply(
        &mut self,
        handle: Self::Handle,
        tx: &mut Transaction<'_>,
        operation: Operation,
        salt: u64,
    ) -> Result<()>;
    /// Whether both have the same content.
    fn compare(&self, handle: Self::Handle, tx: &mut Transaction<'_>) -> Result<()>;
    fn destroy(handle: Self::Handle, tx: &mut Transaction<'_>) -> Result<()>;
}

fn run<M: Model>(model: M, steps: &[Step]) {
    run_with(model, steps, &[Tuning::ALL]);
}

/// Runs the steps, with another tuning whenever the heap is opened; in the end the structure must have taken all of its objects with it.
fn run_with<M: Model>(mut model: M, steps: &[Step], tunings: &[Tuning]) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let mut tunings = tunings.iter().copied().cycle();
    let mut open = || open_with(&path, tunings.next().expect("there is one"));
    let mut heap = open();
    let empty = heap.usage().live_bytes;
    let handle = heap.transaction(|tx| {
        let handle = M::create(tx)?;
        let root = tx.create(handle)?;
        tx.set_root_ref(root)?;
        Ok(handle)
    });
    let mut handle = handle.expect("room");
    for (n, step) in steps.iter().enumerate() {
        match step {
            Step::Reopen => {
                drop(heap);
                heap = open();
                let found = heap.transaction(|tx| {
                    let root = tx.root_ref::<M::Handle>()?.expect("it was set");
                    tx.get(root)
                });
                handle = found.expect("it is there");
            }
            Step::Transaction { operations, is_kept } => {
                let next = transaction(&heap, &model, handle, operations, *is_kept, n as u64);
                model = if *is_kept { next } else { model };
            }
        }
        heap.transaction(|tx| model.compare(handle, tx)).expect("it can be read");
    }
    let end = heap.transaction(|tx| {
        M::destroy(handle, tx)?;
        let root = tx.root_ref::<M::Handle>()?.expect("it was set");
        tx.delete(root)
    });
    end.expect("it is all freed");
    // The root's own 8 bytes, and two of the table for each size that had no area yet.
    let left = heap.usage().live_bytes - empty;
    assert!(left <= 64, "{left} bytes are left");
}

/// The model after a transaction, which is dropped if it is not kept.
fn transaction<M: Model>(
    heap: &DurableHeap,
    model: &M,
    handle: M::Handle,
    operations: &[Operation],
    is_kept: bool,
    salt: u64,
) -> M {
    let mut tx = heap.begin();
    let mut next = model.clone();
    for &operation in operations {
        next.apply(handle, &mut tx, operation, salt).expect("there is room");
    }
    next.compare(handle, &mut tx).expect("it sees what it did");
    if is_kept {
        tx.commit().expect("there is room, and nobody else");
    }
    next
}

/// Keys and values of some size.
trait Sample: Value + Ord + Debug {
    fn sample(number: u64) -> Self;
}

impl Sample for u16 {
    fn sample(number: u64) -> Self {
        number as u16
    }
}

impl Sample for u64 {
    fn sample(number: u64) -> Self {
        mix(number)
    }
}

impl<const N: usize> Sample for [u8; N] {
    fn sample(number: u64) -> Self {
        std::array::from_fn(|n| mix(number + n as u64 / 8) as u8)
    }
}

impl Sample for () {
    fn sample(_: u64) {}
}

durable_struct! {
    /// A struct whose fields are not at multiples of four.
    #[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
    struct Odd {
        a: u8,
        b: u16,
        c: (bool, u32),
    }
}

impl Sample for Odd {
    fn sample(number: u64) -> Self {
        let mixed = mix(number);
        Odd { a: mixed as u8, b: number as u16, c: (mixed >> 32 & 1 == 1, mixed as u32) }
    }
}

#[derive(Clone, Debug)]
struct Mapped<K, V>(BTreeMap<K, V>);

#[derive(Clone, Debug)]
struct Sorted<K, V>(BTreeMap<K, V>);

#[derive(Clone, Debug)]
struct Queued<T>(VecDeque<T>);

impl<K: Sample, V: Sample> Model for Mapped<K, V> {
    type Handle = HashMap<K, V>;

    fn create(tx: &mut Transaction<'_>) -> Result<Self::Handle> {
        HashMap::create(tx)
    }

    fn apply(
        &mut self,
        map: HashMap<K, V>,
        tx: &mut Transaction<'_>,
        operation: Operation,
        salt: u64,
    ) -> Result<()> {
        match operation {
            Operation::Insert(key) => {
                let (key, value) = (K::sample(key.into()), V::sample(salt << 16 | u64::from(key)));
                assert_eq!(map.insert(tx, key, value)?, self.0.insert(key, value));
            }
            Operation::Remove(key) => {
                let key = K::sample(key.into());
                assert_eq!(map.remove(tx, key)?, self.0.remove(&key));
            }
            Operation::Get(key) | Operation::Range(key, _) => {
                let key = K::sample(key.into());
                assert_eq!(map.get(tx, key)?, self.0.get(&key).copied());
                assert_eq!(map.contains_key(tx, key)?, self.0.contains_key(&key));
            }
        }
        Ok(())
    }

    fn compare(&self, map: HashMap<K, V>, tx: &mut Transaction<'_>) -> Result<()> {
        let mut entries = map.iter(tx)?.collect::<Result<Vec<_>>>()?;
        entries.sort_unstable();
        assert!(entries.iter().copied().eq(self.0.iter().map(|(&key, &value)| (key, value))));
        assert_eq!(map.len(tx)?, self.0.len() as u64);
        assert_eq!(map.is_empty(tx)?, self.0.is_empty());
        Ok(())
    }

    fn destroy(map: HashMap<K, V>, tx: &mut Transaction<'_>) -> Result<()> {
        map.destroy(tx)
    }
}

impl<K: Sample, V: Sample> Model for Sorted<K, V> {
    type Handle = BTree<K, V>;

    fn create(tx: &mut Transaction<'_>) -> Result<Self::Handle> {
        BTree::create(tx)
    }

    fn apply(
        &mut self,
        tree: BTree<K, V>,
        tx: &mut Transaction<'_>,
        operation: Operation,
        salt: u64,
    ) -> Result<()> {
        match operation {
            Operation::Insert(key) => {
                let (key, value) = (K::sample(key.into()), V::sample(salt << 16 | u64::from(key)));
                assert_eq!(tree.insert(tx, key, value)?, self.0.insert(key, value));
            }
            Operation::Remove(key) => {
                let key = K::sample(key.into());
                assert_eq!(tree.remove(tx, key)?, self.0.remove(&key));
            }
            Operation::Get(key) => {
                let key = K::sample(key.into());
                assert_eq!(tree.get(tx, key)?, self.0.get(&key).copied());
                assert_eq!(tree.contains_key(tx, key)?, self.0.contains_key(&key));
            }
            Operation::Range(from, to) => {
                let (from, to) = (K::sample(from.into()), K::sample(to.into()));
                let (from, to) = (from.min(to), from.max(to));
                compare_range(tx, tree, &self.0, from..to)?;
                compare_range(tx, tree, &self.0, from..=to)?;
                compare_range(tx, tree, &self.0, ..to)?;
                let behind = (std::ops::Bound::Excluded(from), std::ops::Bound::Unbounded);
                compare_range(tx, tree, &self.0, behind)?;
            }
        }
        Ok(())
    }

    fn compare(&self, tree: BTree<K, V>, tx: &mut Transaction<'_>) -> Result<()> {
        compare_range(tx, tree, &self.0, ..)?;
        assert_eq!(tree.first(tx)?.as_ref().map(|(key, _)| key), self.0.keys().next());
        assert_eq!(tree.is_empty(tx)?, self.0.is_empty());
        Ok(())
    }

    fn destroy(tree: BTree<K, V>, tx: &mut Transaction<'_>) -> Result<()> {
        tree.destroy(tx)
    }
}

fn compare_range<K: Sample, V: Sample>(
    tx: &mut Transaction<'_>,
    tree: BTree<K, V>,
    model: &BTreeMap<K, V>,
    range: impl std::ops::RangeBounds<K> + Clone,
) -> Result<()> {
    let entries = tree.range(tx, range.clone())?.collect::<Result<Vec<_>>>()?;
    assert!(entries.iter().copied().eq(model.range(range).map(|(&key, &value)| (key, value))));
    Ok(())
}

impl<T: Sample> Model for Queued<T> {
    type Handle = Queue<T>;

    fn create(tx: &mut Transaction<'_>) -> Result<Self::Handle> {
        Queue::create(tx)
    }

    fn apply(
        &mut self,
        queue: Queue<T>,
        tx: &mut Transaction<'_>,
        operation: Operation,
        salt: u64,
    ) -> Result<()> {
        match operation {
            Operation::Insert(number) => {
                let value = T::sample(salt << 16 | u64::from(number));
                queue.push(tx, value)?;
                self.0.push_back(value);
            }
            Operation::Remove(_) => assert_eq!(queue.pop(tx)?, self.0.pop_front()),
            Operation::Get(_) | Operation::Range(..) => {
                assert_eq!(queue.front(tx)?, self.0.front().copied());
            }
        }
        Ok(())
    }

    fn compare(&self, queue: Queue<T>, tx: &mut Transaction<'_>) -> Result<()> {
        let values = queue.iter(tx)?.collect::<Result<Vec<_>>>()?;
        assert_eq!(values, Vec::from(self.0.clone()));
        for n in (0..values.len() + 2).step_by(1 + values.len() / 9) {
            assert_eq!(queue.nth(tx, n as u64)?, self.0.get(n).copied());
        }
        assert_eq!(queue.nth(tx, u64::MAX)?, None);
        assert_eq!(queue.len(tx)?, self.0.len() as u64);
        assert_eq!(queue.is_empty(tx)?, self.0.is_empty());
        Ok(())
    }

    fn destroy(queue: Queue<T>, tx: &mut Transaction<'_>) -> Result<()> {
        queue.destroy(tx)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_hash_map_is_as_the_model(steps in steps()) {
        run(Mapped::<u64, u64>(BTreeMap::new()), &steps);
    }

    #[test]
    fn a_hash_map_of_odd_sizes_is_as_the_model(steps in steps()) {
        run(Mapped::<Odd, [u8; 3]>(BTreeMap::new()), &steps);
        run(Mapped::<u16, ()>(BTreeMap::new()), &steps);
    }

    #[test]
    fn a_hash_map_of_large_entries_is_as_the_model(steps in steps()) {
        run(Mapped::<[u8; 24], [u8; 700]>(BTreeMap::new()), &steps);
    }

    #[test]
    fn a_tree_is_as_the_model(steps in steps()) {
        run(Sorted::<u64, u64>(BTreeMap::new()), &steps);
    }

    #[test]
    fn a_tree_of_odd_sizes_is_as_the_model(steps in steps()) {
        run(Sorted::<Odd, [u8; 3]>(BTreeMap::new()), &steps);
        run(Sorted::<u16, ()>(BTreeMap::new()), &steps);
    }

    #[test]
    fn a_tree_of_large_entries_is_as_the_model(steps in steps()) {
        run(Sorted::<[u8; 24], [u8; 300]>(BTreeMap::new()), &steps);
    }

    #[test]
    fn all_are_as_their_models_without_an_optimisation(steps in steps()) {
        for tuning in Tuning::WITHOUT_ONE.into_iter().chain([Tuning::NONE]) {
            run_with(Mapped::<Odd, [u8; 3]>(BTreeMap::new()), &steps, &[tuning]);
            run_with(Sorted::<u64, u64>(BTreeMap::new()), &steps, &[tuning]);
            run_with(Queued::<u64>(VecDeque::new()), &steps, &[tuning]);
        }
    }

    #[test]
    fn a_heap_may_be_opened_with_other_optimisations(steps in steps()) {
        let tunings = [Tuning::NONE, Tuning::ALL];
        run_with(Mapped::<u64, u64>(BTreeMap::new()), &steps, &tunings);
        run_with(Queued::<Odd>(VecDeque::new()), &steps, &tunings);
    }

    #[test]
    fn a_queue_is_as_the_model(steps in steps()) {
        run(Queued::<u64>(VecDeque::new()), &steps);
    }

    #[test]
    fn a_queue_of_other_sizes_is_as_the_model(steps in steps()) {
        run(Queued::<Odd>(VecDeque::new()), &steps);
        run(Queued::<[u8; 1500]>(VecDeque::new()), &steps);
    }
}
