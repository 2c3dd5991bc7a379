//! A map of bytes: a hash map from the hashes of keys to entries. Keys with the same hash are in a chain.
//!
//! ```text
//! object:  header of a hash map | word of the kind | seed of the hashes | keys in chains | ...
//! entry:   key, 12 bytes | value, 12 bytes | next entry of the chain
//! ```

use std::hash::{BuildHasher, RandomState};

use aquifer_base::HomeAddress;

use super::{Entry, Stored, bytes_handle, check_key, check_kind, check_value};
use crate::access::{Access, Load};
use crate::durable_struct;
use crate::error::Result;
use crate::reference::Ref;
use crate::structures::hash_map::{HEADER_BYTES, HashMap, seeded_hash_of};
use crate::structures::{handle_bits, handle_of_bits};
use crate::typed::Typed;
use crate::value::Value;

durable_struct! {
    /// A key with its value.
    struct Pair {
        key: Stored,
        value: Stored,
        next: Option<Ref<Pair>>,
    }
}

durable_struct! {
    /// What stands behind the header of the hash map.
    struct Own {
        kind: [u8; 8],
        /// Another one for each map, so that nobody can choose keys that meet.
        seed: u64,
        /// Pairs that are not the first of their chain.
        chained: u64,
    }
}

/// Where a pair is.
enum Place {
    /// In the hash map, first in its chain.
    First,
    /// Behind the first one, and behind this pair if that is not the first.
    Behind(Ref<Pair>, Option<Ref<Pair>>),
}

/// A map from keys of up to [`KEY_BYTES_MAX`](super::KEY_BYTES_MAX) to values of up to
/// [`VALUE_BYTES_MAX`](super::VALUE_BYTES_MAX) bytes, in no order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BytesMap(HashMap<u64, Pair>);

bytes_handle!(BytesMap, "map");

impl BytesMap {
    const KIND: (usize, &'static [u8; 8]) = (HEADER_BYTES, b"aqmap  1");

    fn at(home: HomeAddress) -> Self {
        Self(handle_of_bits(home))
    }

    fn begin(self) -> HomeAddress {
        handle_bits(self.0)
    }

    fn own(self) -> Ref<Own> {
        Ref::from_home(self.home().plus_bytes(HEADER_BYTES as u64))
    }

    /// A new map.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn create<A: Access + ?Sized>(tx: &mut A) -> Result<Self> {
        Self::create_seeded(tx, RandomState::new().hash_one(0u64))
    }

    fn create_seeded<A: Access + ?Sized>(tx: &mut A, seed: u64) -> Result<Self> {
        let map = Self(HashMap::create(tx)?);
        tx.set(map.own(), Own { kind: *Self::KIND.1, seed, chained: 0 })?;
        Ok(map)
    }

    fn hash<A: Load + ?Sized>(self, tx: &mut A, key: &[u8]) -> Result<u64> {
        Ok(seeded_hash_of(tx.get_field(self.own(), Own::FIELDS.seed)?, key))
    }

    /// The pair of a key in the chain that begins with `first`.
    fn pair<A: Load + ?Sized>(tx: &mut A, first: Pair, key: &[u8]) -> Result<Option<(Pair, Place)>> {
        if first.key.are(tx, key)? {
            return Ok(Some((first, Place::First)));
        }
        let (mut next, mut before) = (first.next, None);
        while let Some(at) = next {
            let pair = tx.get(at)?;
            if pair.key.are(tx, key)? {
                return Ok(Some((pair, Place::Behind(at, before))));
            }
            (next, before) = (pair.next, Some(at));
        }
        Ok(None)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn find<A: Load + ?Sized>(self, tx: &mut A, key: &[u8]) -> Result<Option<Stored>> {
        let hash = self.hash(tx, key)?;
        let Some(first) = self.0.get(tx, hash)? else { return Ok(None) };
        Ok(Self::pair(tx, first, key)?.map(|(pair, _)| pair.value))
    }

    /// The bytes of the value of a key.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn get<A: Load + ?Sized>(self, tx: &mut A, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.find(tx, key)?.map(|value| value.load(tx)).transpose()
    }

    /// Gives a key a value; returns whether it had none.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge); as [`Access::alloc`], [`Access::store`].
    pub fn put<A: Access + ?Sized>(self, tx: &mut A, key: &[u8], value: &[u8]) -> Result<bool> {
        check_key(key)?;
        check_value(value)?;
        let hash = self.hash(tx, key)?;
        let Some(first) = self.0.get(tx, hash)? else {
            let pair = Self::new_pair(tx, key, value, None)?;
            return self.0.insert(tx, hash, pair).map(|_| true);
        };
        if let Some((pair, place)) = Self::pair(tx, first, key)? {
            let new = pair.value.replace(tx, value)?;
            if new != pair.value {
                match place {
                    Place::First => drop(self.0.insert(tx, hash, Pair { value: new, ..first })?),
                    Place::Behind(at, _) => tx.set_field(at, Pair::FIELDS.value, new)?,
                }
            }
            return Ok(false);
        }
        let pair = Self::new_pair(tx, key, value, first.next)?;
        let next = Some(tx.create(pair)?);
        self.0.insert(tx, hash, Pair { next, ..first })?;
        self.count_chained(tx, 1)?;
        Ok(true)
    }

    fn new_pair<A: Access + ?Sized>(
        tx: &mut A,
        key: &[u8],
        value: &[u8],
        next: Option<Ref<Pair>>,
    ) -> Result<Pair> {
        Ok(Pair { key: Stored::new(tx, key)?, value: Stored::new(tx, value)?, next })
    }

    fn count_chained<A: Access + ?Sized>(self, tx: &mut A, change: i64) -> Result<()> {
        let chained = tx.get_field(self.own(), Own::FIELDS.chained)?.wrapping_add_signed(change);
        tx.set_field(self.own(), Own::FIELDS.chained, chained)
    }

    /// Takes a key out; returns whether it was there.
    ///
    /// # Errors
    /// As [`Access::store`], [`Access::free`].
    pub fn remove<A: Access + ?Sized>(self, tx: &mut A, key: &[u8]) -> Result<bool> {
        let hash = self.hash(tx, key)?;
        let Some(first) = self.0.get(tx, hash)? else { return Ok(false) };
        let Some((pair, place)) = Self::pair(tx, first, key)? else { return Ok(false) };
        pair.key.free(tx)?;
        pair.value.free(tx)?;
        let from_chain = match (place, pair.next) {
            (Place::First, None) => {
                self.0.remove(tx, hash)?;
                return Ok(true);
            }
            (Place::First, Some(next)) => {
                let second = tx.get(next)?;
                self.0.insert(tx, hash, second)?;
                next
            }
            (Place::Behind(at, None), next) => {
                self.0.insert(tx, hash, Pair { next, ..first })?;
                at
            }
            (Place::Behind(at, Some(before)), next) => {
                tx.set_field(before, Pair::FIELDS.next, next)?;
                at
            }
        };
        tx.delete(from_chain)?;
        self.count_chained(tx, -1)?;
        Ok(true)
    }

    /// How many keys there are: the sum of 32 counters. A transaction that asks meets all that add or remove a key.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn len<A: Load + ?Sized>(self, tx: &mut A) -> Result<u64> {
        Ok(self.0.len(tx)? + tx.get_field(self.own(), Own::FIELDS.chained)?)
    }

    /// Whether there are none. As [`BytesMap::len`].
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn is_empty<A: Load + ?Sized>(self, tx: &mut A) -> Result<bool> {
        Ok(self.len(tx)? == 0)
    }

    /// The first entry behind `after`, or of all. Each is found once that is there all the time, whatever is done to the map between
    /// two calls; see [`HashMap::next`].
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn next<A: Load + ?Sized>(self, tx: &mut A, after: Option<&[u8]>) -> Result<Option<Entry>> {
        let mut hash = None;
        if let Some(key) = after {
            let own = self.hash(tx, key)?;
            let first = self.0.get(tx, own)?;
            if let Some(entry) = Self::first_of(tx, first, Some(key))? {
                return Ok(Some(entry));
            }
            hash = Some(own);
        }
        let first = self.0.next(tx, hash)?.map(|(_, first)| first);
        Self::first_of(tx, first, None)
    }

    /// The pair of a chain with the smallest key behind `after`.
    fn first_of<A: Load + ?Sized>(
        tx: &mut A,
        mut pair: Option<Pair>,
        after: Option<&[u8]>,
    ) -> Result<Option<Entry>> {
        let mut least: Option<Entry> = None;
        while let Some(Pair { key, value, next }) = pair {
            let key = key.load(tx)?;
            let is_behind = after.is_none_or(|after| *key > *after);
            if is_behind && least.as_ref().is_none_or(|least| key < least.0) {
                least = Some((key, value));
            }
            pair = next.map(|next| tx.get(next)).transpose()?;
        }
        Ok(least)
    }

    /// Frees the map and what is in it, in this one transaction. No handle of it may be used afterwards.
    ///
    /// # Errors
    /// As [`Access::free`].
    pub fn destroy<A: Access + ?Sized>(self, tx: &mut A) -> Result<()> {
        let pairs = self.0.iter(tx)?.collect::<Result<Vec<_>>>()?;
        for (_, first) in pairs {
            first.key.free(tx)?;
            first.value.free(tx)?;
            let mut next = first.next;
            while let Some(at) = next {
                let pair = tx.get(at)?;
                pair.key.free(tx)?;
                pair.value.free(tx)?;
                tx.delete(at)?;
                next = pair.next;
            }
        }
        self.0.destroy(tx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DurableHeap, Options};
    use std::collections::BTreeMap;

    const SEED: u64 = 7;

    /// Keys of 16 bytes with one hash: the second word of each takes back what the first one does.
    fn keys_that_meet(count: u64) -> Vec<Vec<u8>> {
        // What the first word leaves, as the second word meets it.
        let state = |first: u64| seeded_hash_of(SEED ^ 16 ^ 8, &first.to_le_bytes());
        let key = |first: u64| {
            let second = state(first) ^ state(0);
            [first.to_le_bytes(), second.to_le_bytes()].concat()
        };
        (0..count).map(key).collect()
    }

    #[test]
    fn keys_with_one_hash_are_told_apart() {
        let keys = keys_that_meet(5);
        assert!(keys.iter().all(|key| seeded_hash_of(SEED, key) == seeded_hash_of(SEED, &keys[0])));
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options { capacity_bytes: 32 << 20, ..Options::default() };
        let heap = DurableHeap::open(&dir.path().join("heap"), &options).expect("opens");
        let map = heap.transaction(|tx| BytesMap::create_seeded(tx, SEED)).expect("room");
        // Each removed first, while the others are there, and put back last.
        let outcome = heap.transaction(|tx| {
            let mut model = BTreeMap::new();
            for (n, key) in keys.iter().enumerate() {
                assert!(map.put(tx, key, &vec![n as u8; 3 * n])?);
                model.insert(key.clone(), vec![n as u8; 3 * n]);
            }
            for key in keys.iter().rev().chain(&keys) {
                assert!(map.remove(tx, key)? && !map.remove(tx, key)?);
                let value = model.remove(key).expect("it was put");
                assert_eq!(all(tx, map)?, model.clone().into_iter().collect::<Vec<_>>());
                assert_eq!(map.get(tx, key)?, None);
                assert_eq!(map.len(tx)?, model.len() as u64);
                let more = [&value[..], b"and more of it"].concat();
                assert!(map.put(tx, key, &value)? && !map.put(tx, key, &more)?);
                model.insert(key.clone(), more);
                for (key, value) in &model {
                    assert_eq!(map.get(tx, key)?.as_ref(), Some(value));
                }
            }
            map.destroy(tx)?;
            assert_eq!(tx.next_object(HomeAddress(0))?, None);
            Ok(())
        });
        outcome.expect("room");
    }

    fn all(tx: &mut crate::Transaction<'_>, map: BytesMap) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let (mut found, mut after) = (Vec::new(), None);
        while let Some((key, value)) = map.next(tx, after.as_deref())? {
            let value = value.load(tx)?;
            found.push((key.clone(), value));
            after = Some(key);
        }
        Ok(found)
    }
}
