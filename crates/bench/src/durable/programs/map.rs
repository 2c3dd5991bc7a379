//! Random changes of a hash map and of a B+tree.
//!
//! Each thread has a range of keys of its own. An insertion takes any of them, an update or a removal one that is there. With twice as
//! many insertions as removals, half of them are there in the long run: then half of the insertions replace a value.

use aquifer_durable::structures::{BTree, HashMap};
use aquifer_durable::{Access, Result, Transactional};

use super::{Client, Clients, Size, Stored, Values};
use crate::payload::Payload;
use crate::rng::Rng;

/// Keys that are inserted together at first.
const FILLED_TOGETHER: usize = 20;
/// Keys of each thread that are looked up at the end.
const CHECKED: usize = 10_000;
/// Keys of a thread are below this one.
const KEYS_MAX: u64 = 1 << 32;
const ABSENT: u32 = u32::MAX;

/// What both structures can do.
pub(super) trait Map: Copy + Send + 'static {
    type V: Stored;
    fn create<A: Access>(tx: &mut A) -> Result<Self>;
    fn get<A: Access>(self, tx: &mut A, key: u64) -> Result<Option<Self::V>>;
    fn insert<A: Access>(self, tx: &mut A, key: u64, value: Self::V) -> Result<Option<Self::V>>;
    fn remove<A: Access>(self, tx: &mut A, key: u64) -> Result<Option<Self::V>>;
}

macro_rules! map {
    ($structure:ident) => {
        impl<V: Stored> Map for $structure<u64, V> {
            type V = V;

            fn create<A: Access>(tx: &mut A) -> Result<Self> {
                Self::create(tx)
            }

            fn get<A: Access>(self, tx: &mut A, key: u64) -> Result<Option<V>> {
                Self::get(self, tx, key)
            }

            fn insert<A: Access>(self, tx: &mut A, key: u64, value: V) -> Result<Option<V>> {
                Self::insert(self, tx, key, value)
            }

            fn remove<A: Access>(self, tx: &mut A, key: u64) -> Result<Option<V>> {
                Self::remove(self, tx, key)
            }
        }
    };
}

map!(HashMap);
map!(BTree);

/// The keys of one thread, and what each should have.
struct MapClient<M: Map> {
    map: M,
    first_key: u64,
    /// Which keys are there, in any order, and where in that order each is.
    present: Vec<u32>,
    places: Vec<u32>,
    stamps: Vec<u64>,
    values: Values<M::V>,
    rng: Rng,
    now: u64,
    updates_only: bool,
}

/// The clients of one map.
pub(super) fn clients<M: Map, H: Transactional>(
    heap: &H,
    size: Size,
    payload: Payload,
    updates_only: bool,
) -> Result<Clients<H>> {
    let map = heap.transaction(|tx| M::create(tx))?;
    let client = |thread| -> Result<Box<dyn Client<H>>> {
        let keys = 2 * (size.entries / size.threads).max(1) as usize;
        let mut client = MapClient {
            map,
            first_key: thread * KEYS_MAX,
            present: Vec::with_capacity(keys),
            places: vec![ABSENT; keys],
            stamps: vec![0; keys],
            values: Values::new(payload),
            rng: Rng::new(size.seed << 8 | thread),
            now: 1,
            updates_only,
        };
        client.fill(heap)?;
        Ok(Box::new(client))
    };
    (0..size.threads).map(client).collect()
}

impl<M: Map> MapClient<M> {
    /// Inserts half of the keys, in no order.
    fn fill(&mut self, heap: &impl Transactional) -> Result<()> {
        let mut keys: Vec<u32> = (0..self.places.len() as u32).collect();
        let half = keys.len() / 2;
        for n in 0..half {
            let other = n + self.rng.below((2 * half - n) as u64) as usize;
            keys.swap(n, other);
        }
        for keys in keys[..half].chunks(FILLED_TOGETHER) {
            heap.transaction(|tx| {
                for &key in keys {
                    self.map.insert(tx, self.key(key), self.values.of(self.now))?;
                }
                Ok(())
            })?;
            keys.iter().for_each(|&key| self.has_inserted(key));
        }
        Ok(())
    }

    fn key(&self, key: u32) -> u64 {
        self.first_key + u64::from(key)
    }

    fn has_inserted(&mut self, key: u32) {
        self.stamps[key as usize] = self.now;
        if self.places[key as usize] == ABSENT {
            self.places[key as usize] = self.present.len() as u32;
            self.present.push(key);
        }
    }

    fn has_removed(&mut self, key: u32) {
        let place = std::mem::replace(&mut self.places[key as usize], ABSENT);
        self.present.swap_remove(place as usize);
        if let Some(&moved) = self.present.get(place as usize) {
            self.places[moved as usize] = place;
        }
    }

    fn any_key(&mut self) -> u32 {
        self.rng.below(self.places.len() as u64) as u32
    }

    fn present_key(&mut self) -> Option<u32> {
        let count = self.present.len() as u64;
        (count > 0).then(|| self.present[self.rng.below(count) as usize])
    }

    fn insert(&mut self, heap: &impl Transactional, key: u32) -> Result<()> {
        self.now += 1;
        let (map, home, value) = (self.map, self.key(key), self.values.of(self.now));
        heap.transaction(|tx| map.insert(tx, home, value))?;
        self.has_inserted(key);
        Ok(())
    }
}

impl<M: Map, H: Transactional> Client<H> for MapClient<M> {
    fn step(&mut self, heap: &H) -> Result<()> {
        let choice = if self.updates_only { 2 } else { self.rng.below(4) };
        match (choice, self.present_key()) {
            (2, Some(key)) => self.insert(heap, key),
            (3, Some(key)) => {
                let (map, home) = (self.map, self.key(key));
                heap.transaction(|tx| map.remove(tx, home))?;
                self.has_removed(key);
                Ok(())
            }
            _ => {
                let key = self.any_key();
                self.insert(heap, key)
            }
        }
    }

    fn wrong(&mut self, heap: &H) -> Result<Option<String>> {
        for _ in 0..CHECKED.min(self.places.len()) {
            let key = self.any_key();
            let (map, home) = (self.map, self.key(key));
            let found = heap.transaction(|tx| map.get(tx, home))?;
            let is_present = self.places[key as usize] != ABSENT;
            let expected = is_present.then(|| self.values.of(self.stamps[key as usize]));
            if found != expected {
                return Ok(Some(format!("key {home:#x} has {found:x?} instead of {expected:x?}")));
            }
        }
        Ok(None)
    }
}
