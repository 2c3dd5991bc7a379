//! Random changes of a hash map and of a B+tree.
//!
//! Each thread has a range of keys of its own. An insertion takes any of them, an update or a removal one that is there. With twice as
//! many insertions as removals, half of them are there in the long run: then half of the insertions replace a value.

use aquifer_durable::structures::{BTree, HashMap};
use aquifer_durable::{Access, Result, Transactional, Value};

use super::client::{Client, Clients};
use crate::rng::Rng;

/// Keys that are inserted together at first.
const FILLED_TOGETHER: usize = 20;
/// Keys of each thread that are looked up at the end.
const CHECKED: usize = 10_000;
/// Keys of a thread are below this one.
const KEYS_MAX: u64 = 1 << 32;
const ABSENT: u32 = u32::MAX;

/// A value that tells when it was made.
pub trait Stamped: Value + Send {
    /// The value that was made then.
    fn of(stamp: u64) -> Self;
    /// When it was made.
    fn stamp(&self) -> u64;
}

/// 100 bytes.
pub type Hundred = ([u64; 12], u32);

impl Stamped for Hundred {
    fn of(stamp: u64) -> Self {
        (std::array::from_fn(|n| stamp + n as u64), stamp as u32)
    }

    fn stamp(&self) -> u64 {
        self.0[0]
    }
}

impl<const N: usize> Stamped for [u64; N] {
    fn of(stamp: u64) -> Self {
        std::array::from_fn(|n| stamp + n as u64)
    }

    fn stamp(&self) -> u64 {
        self[0]
    }
}

/// What both structures can do.
pub trait Map: Copy + Send + 'static {
    /// Its values.
    type V: Stamped;

    /// An empty one.
    ///
    /// # Errors
    /// The heap's, here and below.
    fn create<A: Access>(tx: &mut A) -> Result<Self>;
    /// The value of a key.
    ///
    /// # Errors
    /// The heap's.
    fn get<A: Access>(self, tx: &mut A, key: u64) -> Result<Option<Self::V>>;
    /// Gives a key a value; returns the one that it had.
    ///
    /// # Errors
    /// The heap's.
    fn insert<A: Access>(self, tx: &mut A, key: u64, value: Self::V) -> Result<Option<Self::V>>;
    /// Takes a key out; returns its value.
    ///
    /// # Errors
    /// The heap's.
    fn remove<A: Access>(self, tx: &mut A, key: u64) -> Result<Option<Self::V>>;
}

macro_rules! map {
    ($structure:ident) => {
        impl<V: Stamped> Map for $structure<u64, V> {
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
pub struct MapClient<M> {
    map: M,
    first_key: u64,
    /// Which keys are there, in any order, and where in that order each is.
    present: Vec<u32>,
    places: Vec<u32>,
    stamps: Vec<u64>,
    rng: Rng,
    now: u64,
}

/// The clients of one map with so many entries.
///
/// # Errors
/// The heap's.
pub fn clients<M: Map, H: Transactional>(
    heap: &H,
    entries: u64,
    threads: u64,
    seed: u64,
) -> Result<Clients<H>> {
    let clients = filled::<M, H>(heap, entries, threads, seed)?;
    Ok(clients.into_iter().map(|client| Box::new(client) as Box<dyn Client<H>>).collect())
}

/// As [`clients`], for updates alone.
///
/// # Errors
/// The heap's.
pub fn updaters<M: Map, H: Transactional>(
    heap: &H,
    entries: u64,
    threads: u64,
    seed: u64,
) -> Result<Clients<H>> {
    let clients = filled::<M, H>(heap, entries, threads, seed)?;
    Ok(clients.into_iter().map(|client| Box::new(Updater(client)) as Box<dyn Client<H>>).collect())
}

fn filled<M: Map, H: Transactional>(
    heap: &H,
    entries: u64,
    threads: u64,
    seed: u64,
) -> Result<Vec<MapClient<M>>> {
    let map = heap.transaction(|tx| M::create(tx))?;
    let client = |thread| {
        let mut client = MapClient::new(map, thread, (entries / threads).max(1) as usize, seed);
        client.fill(heap).map(|()| client)
    };
    (0..threads).map(client).collect()
}

impl<M: Map> MapClient<M> {
    fn new(map: M, thread: u64, entries: usize, seed: u64) -> Self {
        let keys = 2 * entries;
        Self {
            map,
            first_key: thread * KEYS_MAX,
            present: Vec::with_capacity(keys),
            places: vec![ABSENT; keys],
            stamps: vec![0; keys],
            rng: Rng::new(seed << 8 | thread),
            now: 1,
        }
    }

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
                    self.map.insert(tx, self.key(key), M::V::of(self.now))?;
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
        let (map, home, value) = (self.map, self.key(key), M::V::of(self.now));
        heap.transaction(|tx| map.insert(tx, home, value))?;
        self.has_inserted(key);
        Ok(())
    }
}

impl<M: Map, H: Transactional> Client<H> for MapClient<M> {
    fn step(&mut self, heap: &H) -> Result<()> {
        let (choice, present) = (self.rng.below(4), self.present_key());
        match (choice, present) {
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
            let found = heap.transaction(|tx| map.get(tx, home))?.map(|value| value.stamp());
            let is_present = self.places[key as usize] != ABSENT;
            let expected = is_present.then(|| self.stamps[key as usize]);
            if found != expected {
                return Ok(Some(format!("{found:?} under key {home:#x} instead of {expected:?}")));
            }
        }
        Ok(None)
    }
}

/// One that only updates.
struct Updater<M>(MapClient<M>);

impl<M: Map, H: Transactional> Client<H> for Updater<M> {
    fn step(&mut self, heap: &H) -> Result<()> {
        let key = self.0.present_key().expect("it was filled");
        self.0.insert(heap, key)
    }

    fn wrong(&mut self, heap: &H) -> Result<Option<String>> {
        self.0.wrong(heap)
    }
}
