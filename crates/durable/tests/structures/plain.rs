//! Other heaps: the structures need nothing but what the traits promise.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use aquifer_base::HomeAddress;
use aquifer_durable::structures::{BTree, HashMap, Queue};
use aquifer_durable::{Access, Error, Load, Result, Transactional};

use super::mix;

/// Bytes of the root, which every heap has.
const ROOT_BYTES: usize = 16;

/// Objects in a map, one transaction at a time.
struct Plain(Mutex<BTreeMap<u64, Vec<u8>>>);

impl Plain {
    fn new() -> Self {
        Self(Mutex::new(BTreeMap::from([(0, vec![0; ROOT_BYTES])])))
    }

    fn objects(&self) -> usize {
        self.0.lock().expect("no test panics with it").len() - 1
    }
}

struct PlainTransaction<'a> {
    committed: MutexGuard<'a, BTreeMap<u64, Vec<u8>>>,
    objects: BTreeMap<u64, Vec<u8>>,
}

impl PlainTransaction<'_> {
    /// The bytes of an object from `home` on; all must be of one object.
    fn bytes(&mut self, home: HomeAddress, len: usize) -> Result<&mut [u8]> {
        let object = self.objects.range_mut(..=home.0).next_back();
        let bytes = object.and_then(|(&start, bytes)| {
            let from = (home.0 - start) as usize;
            bytes.get_mut(from..from + len)
        });
        bytes.ok_or(Error::NotAllocated(home))
    }
}

impl Load for PlainTransaction<'_> {
    fn load(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(self.bytes(home, out.len())?);
        Ok(())
    }
}

impl Access for PlainTransaction<'_> {
    fn store(&mut self, home: HomeAddress, bytes: &[u8]) -> Result<()> {
        self.bytes(home, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn alloc(&mut self, bytes: u64) -> Result<HomeAddress> {
        let (&last, object) = self.objects.last_key_value().expect("the root is there");
        // With a gap, so that what reaches beyond an object is found.
        let home = last + object.len() as u64 + 64;
        self.objects.insert(home, vec![0; bytes as usize]);
        Ok(HomeAddress(home))
    }

    fn free(&mut self, home: HomeAddress) -> Result<()> {
        self.objects.remove(&home.0).map(drop).ok_or(Error::NoObject(home))
    }

    fn commit(mut self) -> Result<()> {
        *self.committed = self.objects;
        Ok(())
    }
}

impl Transactional for Plain {
    type Transaction<'a> = PlainTransaction<'a>;

    fn begin(&self) -> PlainTransaction<'_> {
        let committed = self.0.lock().expect("no test panics with it");
        let objects = committed.clone();
        PlainTransaction { committed, objects }
    }
}

/// Fills and empties one of each; nothing reaches beyond an object, and nothing is left.
fn fill_and_empty(heap: &impl Transactional) -> Result<()> {
    const COUNT: u64 = 3000;
    let key = |n: u64| (mix(n), n as u16);
    heap.transaction(|tx| {
        let map = HashMap::<(u64, u16), [u8; 5]>::create(tx)?;
        let tree = BTree::<(u64, u16), [u8; 5]>::create(tx)?;
        let queue = Queue::<(u64, u16)>::create(tx)?;
        for n in 0..COUNT {
            assert_eq!(map.insert(tx, key(n), [n as u8; 5])?, None);
            assert_eq!(tree.insert(tx, key(n), [n as u8; 5])?, None);
            queue.push(tx, key(n))?;
        }
        assert_eq!(map.len(tx)?, COUNT);
        assert_eq!(tree.range(tx, ..)?.count() as u64, COUNT);
        while let Some(key) = queue.pop(tx)? {
            assert_eq!(map.remove(tx, key)?, tree.remove(tx, key)?);
        }
        assert!(map.is_empty(tx)? && tree.is_empty(tx)?);
        map.destroy(tx)?;
        tree.destroy(tx)?;
        queue.destroy(tx)
    })
}

#[test]
fn structures_work_on_any_heap() {
    let heap = Plain::new();
    fill_and_empty(&heap).expect("all bytes are of objects");
    assert_eq!(heap.objects(), 0);
}

#[cfg(feature = "in-place")]
#[test]
fn structures_work_on_heaps_in_place() {
    use aquifer_durable::in_place::{InPlaceHeap, Kind};
    use aquifer_durable::persist::MemoryFile;

    for kind in [Kind::Redo, Kind::Undo] {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name, bytes| MemoryFile::open(&dir.path().join(name), bytes).expect("a file");
        let (journal, home) = (file("journal", 16 << 20), file("home", 1 << 30));
        let heap = InPlaceHeap::on(Box::new(journal), Box::new(home), kind).expect("a heap");
        fill_and_empty(&heap).expect("there is room");
    }
}

#[test]
fn one_transaction_may_do_much() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = super::open(&dir.path().join("heap"));
    let empty = heap.usage().live_bytes;
    fill_and_empty(&heap).expect("there is room");
    assert!(heap.usage().live_bytes - empty <= 64);
}
