//! Objects or a map on any heap with transactions.

use std::path::PathBuf;

use aquifer_base::HomeAddress;
use aquifer_durable::{Access, Transactional};

use super::chained_map::ChainedMap;
use super::{OBJECTS, Persisted, SECOND_WORD, Setup, Store, failed, first_bytes};
use crate::durable::load::Workload;
use crate::error::Result;

/// What a heap has persisted so far, where it counts that.
pub type Count<H> = fn(&H) -> Option<Persisted>;

enum Contents {
    Objects(Vec<HomeAddress>),
    Map(ChainedMap),
}

/// A heap with what a workload needs in it.
pub struct Heap<H> {
    heap: H,
    contents: Contents,
    count: Count<H>,
    path: PathBuf,
}

impl<H: Transactional> Heap<H> {
    /// Puts what `workload` needs into an empty heap; `path` is its file, for messages.
    ///
    /// # Errors
    /// The heap's.
    pub fn fill(heap: H, path: PathBuf, workload: Workload, count: Count<H>) -> Result<Self> {
        let contents = match workload {
            Workload::TwoWords => {
                let objects = (0..OBJECTS as u64).map(|index| heap.transaction(|tx| object(tx, index)));
                objects.collect::<aquifer_durable::Result<_>>().map(Contents::Objects)
            }
            Workload::Insert => heap.transaction(|tx| ChainedMap::create(tx)).map(Contents::Map),
        };
        let contents = contents.map_err(|error| failed("filling", &path, error))?;
        Ok(Self { heap, contents, count, path })
    }

    fn object(&self, index: u64) -> HomeAddress {
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
    fn run<T>(&self, body: impl FnMut(&mut H::Transaction<'_>) -> aquifer_durable::Result<T>) -> Result<T> {
        self.heap.transaction(body).map_err(|error| failed("using", &self.path, error))
    }
}

fn object(access: &mut impl Access, index: u64) -> aquifer_durable::Result<HomeAddress> {
    let bytes = first_bytes(index);
    let home = access.alloc(bytes.len() as u64)?;
    access.store(home, &bytes)?;
    Ok(home)
}

impl<H: Transactional> Store for Heap<H> {
    fn update(&self, index: u64) -> Result<()> {
        let first = self.object(index);
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

    fn words(&self, index: u64) -> Result<(u64, u64)> {
        let home = self.object(index);
        self.run(|tx| Ok((tx.load_u64(home)?, tx.load_u64(home.plus_bytes(SECOND_WORD as u64))?)))
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        let map = self.map();
        self.run(|tx| map.get(tx, key))
    }

    fn persisted(&self) -> Option<Persisted> {
        (self.count)(&self.heap)
    }
}

/// The file of a heap.
pub fn path(setup: &Setup) -> PathBuf {
    setup.dir.join("heap")
}
