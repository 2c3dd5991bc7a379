//! Objects, or a hash map with chains, on any heap with transactions: the same steps for all that are compared.
//!
//! Keys are random, so their highest bits are hash enough. A node is its key, its value and the address of the next one.

use std::path::PathBuf;

use aquifer_base::HomeAddress;
use aquifer_durable::{Access, Load, Result as HeapResult};

use super::{BUCKET_SHIFT, BUCKETS, OBJECT_BYTES, OBJECTS, SECOND_WORD, Store, first_bytes};
use crate::durable::directory::{Setup, failed};
use crate::durable::heaps::{Measured, Persisted};
use crate::durable::transactions::Workload;
use crate::error::Result;

enum Contents {
    Objects(Vec<HomeAddress>),
    Map(ChainedMap),
}

/// A heap with what a workload needs in it.
pub struct Heap<H> {
    heap: H,
    contents: Contents,
    path: PathBuf,
}

impl<H: Measured> Heap<H> {
    /// Puts what `workload` needs into an empty heap.
    pub fn fill(heap: H, setup: &Setup, workload: Workload) -> Result<Self> {
        let object = |index| {
            let bytes = first_bytes(setup.payload, index);
            heap.transaction(|tx| {
                let home = tx.alloc(bytes.len() as u64)?;
                tx.store(home, &bytes).map(|()| home)
            })
        };
        let contents = match workload {
            Workload::TwoWords => {
                (0..OBJECTS as u64).map(object).collect::<HeapResult<_>>().map(Contents::Objects)
            }
            Workload::Insert => heap.transaction(|tx| ChainedMap::create(tx)).map(Contents::Map),
        };
        let contents = contents.map_err(|error| setup.failed("filling", error))?;
        Ok(Self { heap, contents, path: setup.path() })
    }

    fn home(&self, index: u64) -> HomeAddress {
        match &self.contents {
            Contents::Objects(objects) => objects[index as usize],
            Contents::Map(_) => panic!("a heap for inserts has no objects"),
        }
    }

    fn map(&self) -> ChainedMap {
        match self.contents {
            Contents::Map(map) => map,
            Contents::Objects(_) => panic!("a heap of objects has no map"),
        }
    }

    #[inline]
    fn run<T>(&self, body: impl FnMut(&mut H::Transaction<'_>) -> HeapResult<T>) -> Result<T> {
        self.heap.transaction(body).map_err(|error| failed("using", &self.path, error))
    }
}

impl<H: Measured + Sync> Store for Heap<H> {
    fn update(&self, index: u64) -> Result<()> {
        let first = self.home(index);
        let second = first.plus_bytes(SECOND_WORD as u64);
        self.run(|tx| {
            let word = tx.load_u64(first)?;
            tx.store_u64(first, word.wrapping_add(1))?;
            let word = tx.load_u64(second)?;
            tx.store_u64(second, word.wrapping_sub(1))
        })
    }

    fn insert(&self, key: u64, value: u64) -> Result<()> {
        let map = self.map();
        self.run(|tx| map.insert(tx, key, value))
    }

    fn object(&self, index: u64) -> Result<[u8; OBJECT_BYTES]> {
        let (home, mut bytes) = (self.home(index), [0; OBJECT_BYTES]);
        self.run(|tx| tx.load(home, &mut bytes))?;
        Ok(bytes)
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        let map = self.map();
        self.run(|tx| map.get(tx, key))
    }

    fn persisted(&self) -> Option<Persisted> {
        self.heap.persisted()
    }
}

const WORD: u64 = 8;
const NODE_BYTES: usize = 24;

/// Where the buckets are: an array of addresses of first nodes.
#[derive(Clone, Copy)]
struct ChainedMap(HomeAddress);

struct Node {
    key: u64,
    value: u64,
    next: u64,
}

impl Node {
    fn load(access: &mut impl Access, home: u64) -> HeapResult<Self> {
        let mut bytes = [0; NODE_BYTES];
        access.load(HomeAddress(home), &mut bytes)?;
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Ok(Self { key: word(0), value: word(8), next: word(16) })
    }

    fn bytes(&self) -> [u8; NODE_BYTES] {
        let mut bytes = [0; NODE_BYTES];
        for (target, word) in bytes.chunks_exact_mut(8).zip([self.key, self.value, self.next]) {
            target.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

impl ChainedMap {
    /// An empty map.
    fn create(access: &mut impl Access) -> HeapResult<Self> {
        Ok(Self(access.alloc(BUCKETS * WORD)?))
    }

    fn bucket(self, key: u64) -> HomeAddress {
        self.0.plus_bytes((key >> BUCKET_SHIFT) * WORD)
    }

    /// The first node of the key's bucket, and the key's node with its address.
    fn find(self, access: &mut impl Access, key: u64) -> HeapResult<(u64, Option<(u64, Node)>)> {
        let first = access.load_u64(self.bucket(key))?;
        let mut home = first;
        while home != 0 {
            let node = Node::load(access, home)?;
            if node.key == key {
                return Ok((first, Some((home, node))));
            }
            home = node.next;
        }
        Ok((first, None))
    }

    /// What is under `key`.
    fn get(self, access: &mut impl Access, key: u64) -> HeapResult<Option<u64>> {
        Ok(self.find(access, key)?.1.map(|(_, node)| node.value))
    }

    /// Puts `value` under `key`.
    fn insert(self, access: &mut impl Access, key: u64, value: u64) -> HeapResult<()> {
        let (next, found) = self.find(access, key)?;
        if let Some((home, node)) = found {
            return access.store(HomeAddress(home), &Node { value, ..node }.bytes());
        }
        let home = access.alloc(NODE_BYTES as u64)?;
        access.store(home, &Node { key, value, next }.bytes())?;
        access.store_u64(self.bucket(key), home.0)
    }
}

#[cfg(test)]
mod tests {
    use aquifer_durable::{DurableHeap, Options};

    use super::*;

    #[test]
    fn keys_of_one_bucket_are_kept_apart() {
        let path = std::env::temp_dir().join(format!("aquifer-chained-map-{}", std::process::id()));
        let heap = DurableHeap::open(&path, &Options::default()).expect("a temporary file");
        let map = heap.transaction(|tx| ChainedMap::create(tx)).expect("room");
        let keys = [0, 1, (1 << BUCKET_SHIFT) - 1, 1 << BUCKET_SHIFT, u64::MAX];
        for value in [3, 4] {
            for key in keys {
                heap.transaction(|tx| map.insert(tx, key, key ^ value)).expect("room");
            }
            for key in keys {
                assert_eq!(heap.transaction(|tx| map.get(tx, key)).expect("it is read"), Some(key ^ value));
            }
        }
        assert_eq!(heap.transaction(|tx| map.get(tx, 2)).expect("it is read"), None);
        drop(heap);
        std::fs::remove_file(&path).expect("was created");
    }
}
