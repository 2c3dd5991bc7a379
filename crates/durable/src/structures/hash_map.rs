//! A hash map that grows and shrinks by a bucket at a time (Litwin, "Linear Hashing", VLDB 1980).
//!
//! ```text
//! header:     4 KiB: buckets, directory | 4 KiB for each of 32 counters
//! directory:  chunk | chunk | ...
//! chunk:      bucket | bucket | ...             up to 16 KiB
//! bucket:     tags, overflow node | entry | ... the first node of a chain
//! ```
//!
//! Buckets hold entries themselves, so most changes allocate nothing, and what random changes meet at is 4 KiB of buckets. Bytes of
//! home space that were never written take no place in the log: slots that are empty cost nothing until they are used.
//!
//! An entry is counted by the counter that its hash tells. So each of them has about one part in 32 of all entries, and one that
//! was just changed tells well enough whether there should be more buckets or fewer.

mod iter;
mod node;
mod order;

use std::marker::PhantomData;

use super::{COUNTERS, Counters, PAGE_BYTES, handle};
use crate::access::{Access, Load};
use crate::durable_struct;
use crate::error::Result;
use crate::reference::Ref;
use crate::typed::Typed;
use crate::value::{Value, with_buffer};
pub use iter::Iter;
use node::{Head, Missing, Search, Shape};

/// Mean number of filled slots, of a bucket's seven, at which a bucket is added.
const FILLED_OF_SEVEN: u64 = 4;
/// A bucket is removed when the mean falls to one part in `SHRINK` of that.
const SHRINK: u64 = 4;
/// Bytes of its first 4 KiB that a map uses.
pub(super) const HEADER_BYTES: usize = Header::BYTES;
/// Chunks that the first directory has room for.
const DIRECTORY_SLOTS_MIN: u64 = 8;

durable_struct! {
    struct Header {
        buckets: u64,
        directory: Ref<Ref<Head>>,
        /// Chunks that the directory has room for.
        directory_slots: u64,
    }
}

/// A map on a durable heap. This is a handle; see [`structures`](super).
///
/// Keys are equal if their bytes are, and are hashed by them. The hash is the same for all maps: who can choose keys can make them
/// meet.
pub struct HashMap<K, V> {
    header: Ref<Header>,
    kind: PhantomData<fn() -> (K, V)>,
}

handle!(HashMap<K, V> at header);

/// The hash of a key's bytes, the same for ever: its words mixed by the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast
/// Splittable Pseudorandom Number Generators", OOPSLA 2014).
#[inline]
pub(super) fn hash_of(key: &[u8]) -> u64 {
    seeded_hash_of(0, key)
}

/// The hash among those of `seed`.
#[inline]
pub(super) fn seeded_hash_of(seed: u64, key: &[u8]) -> u64 {
    let mut hash = seed ^ key.len() as u64;
    for word in key.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..word.len()].copy_from_slice(word);
        hash = (hash ^ u64::from_le_bytes(bytes)).wrapping_add(0x9E37_79B9_7F4A_7C15);
        hash = (hash ^ hash >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        hash ^= hash >> 31;
    }
    hash
}

/// The bucket of `hash` among `buckets`.
#[inline]
fn bucket_of(hash: u64, buckets: u64) -> u64 {
    let mask = buckets.next_power_of_two() - 1;
    let bucket = hash & mask;
    if bucket < buckets { bucket } else { bucket & mask >> 1 }
}

impl<K: Value, V: Value> HashMap<K, V> {
    const SHAPE: Shape = Shape::for_entries(K::BYTES + V::BYTES);
    const CHUNK_BUCKETS: u64 = Self::SHAPE.chunk_buckets();

    /// A new map.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn create<A: Access + ?Sized>(tx: &mut A) -> Result<Self> {
        let header = Ref::from_home(tx.alloc(PAGE_BYTES as u64 + Counters::BYTES)?);
        let directory = Ref::from_home(tx.alloc(DIRECTORY_SLOTS_MIN * 8)?);
        let map = Self { header, kind: PhantomData };
        let mut new = Header { buckets: 0, directory, directory_slots: DIRECTORY_SLOTS_MIN };
        Self::add_bucket(tx, &mut new)?;
        tx.set(header, new)?;
        Ok(map)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Load::load`].
    #[inline]
    pub fn get<A: Load + ?Sized>(self, tx: &mut A, key: K) -> Result<Option<V>> {
        Self::with_entry(key, |hash, entry| {
            let header = tx.get(self.header)?;
            let bucket = Self::bucket(tx, &header, bucket_of(hash, header.buckets))?;
            let search = Self::SHAPE.search(tx, bucket, hash, K::BYTES, entry)?;
            Ok(matches!(search, Search::Found(..)).then(|| Self::value_in(entry)))
        })
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn contains_key<A: Load + ?Sized>(self, tx: &mut A, key: K) -> Result<bool> {
        Ok(self.get(tx, key)?.is_some())
    }

    /// Gives a key a value; returns the one that it had.
    ///
    /// # Errors
    /// As [`Access::alloc`], [`Access::store`].
    #[inline]
    pub fn insert<A: Access + ?Sized>(self, tx: &mut A, key: K, value: V) -> Result<Option<V>> {
        Self::with_entry(key, |hash, entry| {
            let header = tx.get(self.header)?;
            let bucket = Self::bucket(tx, &header, bucket_of(hash, header.buckets))?;
            match Self::SHAPE.search(tx, bucket, hash, K::BYTES, entry)? {
                Search::Found(place, _) => {
                    let old = Self::value_in(entry);
                    value.encode(&mut entry[K::BYTES..K::BYTES + V::BYTES]);
                    Self::SHAPE.replace(tx, &place, K::BYTES, entry)?;
                    Ok(Some(old))
                }
                Search::Missing(missing) => {
                    value.encode(&mut entry[K::BYTES..K::BYTES + V::BYTES]);
                    self.add(tx, header, &missing, hash, entry)?;
                    Ok(None)
                }
            }
        })
    }

    fn add<A: Access + ?Sized>(
        self,
        tx: &mut A,
        header: Header,
        missing: &Missing,
        hash: u64,
        entry: &[u8],
    ) -> Result<()> {
        Self::SHAPE.add(tx, missing, hash, entry)?;
        let count = self.counters().count(tx, hash, 1)?;
        let is_crowded = count * COUNTERS * 7 > header.buckets * Self::SHAPE.slots as u64 * FILLED_OF_SEVEN;
        if is_crowded { self.grow(tx, header) } else { Ok(()) }
    }

    /// Takes a key out; returns its value.
    ///
    /// # Errors
    /// As [`Access::store`], [`Access::free`].
    pub fn remove<A: Access + ?Sized>(self, tx: &mut A, key: K) -> Result<Option<V>> {
        Self::with_entry(key, |hash, entry| {
            let header = tx.get(self.header)?;
            let bucket = Self::bucket(tx, &header, bucket_of(hash, header.buckets))?;
            let search = Self::SHAPE.search(tx, bucket, hash, K::BYTES, entry)?;
            let Search::Found(place, before) = search else { return Ok(None) };
            Self::SHAPE.take_out(tx, place, before)?;
            let count = self.counters().count(tx, hash, -1)?;
            // Two, so that there are few buckets when the last key goes.
            let header = self.shrink_if_sparse(tx, header, count)?;
            self.shrink_if_sparse(tx, header, count)?;
            Ok(Some(Self::value_in(entry)))
        })
    }

    /// How many keys there are: the sum of 32 counters. A transaction that asks meets all that insert or remove.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn len<A: Load + ?Sized>(self, tx: &mut A) -> Result<u64> {
        self.counters().sum(tx)
    }

    /// Whether there are none. As [`HashMap::len`].
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn is_empty<A: Load + ?Sized>(self, tx: &mut A) -> Result<bool> {
        Ok(self.len(tx)? == 0)
    }

    /// All keys with their values, in no order.
    ///
    /// # Errors
    /// As [`Load::load`]; also those of the iterator, which ends with its first error.
    pub fn iter<A: Load + ?Sized>(self, tx: &mut A) -> Result<Iter<'_, A, K, V>> {
        let header = tx.get(self.header)?;
        Ok(Iter::new(tx, header))
    }

    /// Frees the map and what is in it, in this one transaction. No handle of it may be used afterwards.
    ///
    /// # Errors
    /// As [`Access::free`].
    pub fn destroy<A: Access + ?Sized>(self, tx: &mut A) -> Result<()> {
        let header = tx.get(self.header)?;
        for number in 0..header.buckets {
            let bucket = Self::bucket(tx, &header, number)?;
            let mut next = tx.get(bucket)?.next;
            while let Some(node) = next {
                next = tx.get(node)?.next;
                tx.delete(node)?;
            }
        }
        for first in (0..header.buckets).step_by(Self::CHUNK_BUCKETS as usize) {
            let chunk = Self::bucket(tx, &header, first)?;
            tx.delete(chunk)?;
        }
        tx.delete(header.directory)?;
        tx.delete(self.header)
    }

    /// Calls `body` with the hash of a key, and room for an entry that begins with it.
    #[inline]
    fn with_entry<R>(key: K, body: impl FnOnce(u64, &mut [u8]) -> R) -> R {
        with_buffer(Self::SHAPE.entry_bytes, |entry| {
            key.encode(&mut entry[..K::BYTES]);
            body(hash_of(&entry[..K::BYTES]), entry)
        })
    }

    #[inline]
    fn value_in(entry: &[u8]) -> V {
        V::decode(&entry[K::BYTES..K::BYTES + V::BYTES])
    }

    fn counters(self) -> Counters {
        Counters::behind(self.header)
    }

    /// Where a bucket is.
    #[inline]
    fn bucket<A: Load + ?Sized>(tx: &mut A, header: &Header, number: u64) -> Result<Ref<Head>> {
        let chunk = tx.get(Self::chunk_slot(header, number))?;
        let within = (number % Self::CHUNK_BUCKETS) as usize;
        Ok(chunk.plus_bytes(within * Self::SHAPE.node_bytes()))
    }

    /// The slot of the directory for a bucket's chunk.
    fn chunk_slot(header: &Header, bucket: u64) -> Ref<Ref<Head>> {
        header.directory.plus_bytes((bucket / Self::CHUNK_BUCKETS * 8) as usize)
    }

    /// Adds a bucket, and moves into it what is its own from the one bucket that has had that.
    fn grow<A: Access + ?Sized>(self, tx: &mut A, mut header: Header) -> Result<()> {
        let new = header.buckets;
        Self::add_bucket(tx, &mut header)?;
        tx.set(self.header, header)?;
        Self::spread(tx, &header, new - (1 << new.ilog2()))
    }

    fn add_bucket<A: Access + ?Sized>(tx: &mut A, header: &mut Header) -> Result<()> {
        if header.buckets.is_multiple_of(Self::CHUNK_BUCKETS) {
            if header.buckets / Self::CHUNK_BUCKETS == header.directory_slots {
                Self::double_directory(tx, header)?;
            }
            let chunk = tx.alloc(Self::CHUNK_BUCKETS * Self::SHAPE.node_bytes() as u64)?;
            tx.set(Self::chunk_slot(header, header.buckets), Ref::from_home(chunk))?;
        }
        header.buckets += 1;
        Ok(())
    }

    fn double_directory<A: Access + ?Sized>(tx: &mut A, header: &mut Header) -> Result<()> {
        let mut chunks = vec![0; header.directory_slots as usize * 8];
        tx.load(header.directory.home(), &mut chunks)?;
        tx.delete(header.directory)?;
        header.directory_slots *= 2;
        header.directory = Ref::from_home(tx.alloc(header.directory_slots * 8)?);
        tx.store(header.directory.home(), &chunks)
    }

    /// Takes the last bucket away if there are many for what a counter says, and moves what is in it to where it belongs then.
    fn shrink_if_sparse<A: Access + ?Sized>(
        self,
        tx: &mut A,
        mut header: Header,
        count: u64,
    ) -> Result<Header> {
        let filled = count * COUNTERS * 7 * SHRINK;
        if filled >= header.buckets * Self::SHAPE.slots as u64 * FILLED_OF_SEVEN || header.buckets == 1 {
            return Ok(header);
        }
        header.buckets -= 1;
        let last = header.buckets;
        tx.set(self.header, header)?;
        Self::spread(tx, &header, last)?;
        if last.is_multiple_of(Self::CHUNK_BUCKETS) {
            let chunk = Self::bucket(tx, &header, last)?;
            tx.delete(chunk)?;
        }
        Ok(header)
    }

    /// Puts every entry in the chain of a bucket where it belongs; those in the bucket itself stay if it is there.
    fn spread<A: Access + ?Sized>(tx: &mut A, header: &Header, number: u64) -> Result<()> {
        let bucket = Self::bucket(tx, header, number)?;
        let head = tx.get(bucket)?;
        let tags = Self::move_out(tx, header, bucket, head.tags, Some(number))?;
        if tags != head.tags || head.next.is_some() {
            tx.set(bucket, Head { tags, next: None })?;
        }
        let mut next = head.next;
        while let Some(node) = next {
            let head = tx.get(node)?;
            Self::move_out(tx, header, node, head.tags, None)?;
            tx.delete(node)?;
            next = head.next;
        }
        Ok(())
    }

    /// Puts the entries of a node where they belong, but for those of the bucket `stays`; returns the tags of these.
    fn move_out<A: Access + ?Sized>(
        tx: &mut A,
        header: &Header,
        node: Ref<Head>,
        tags: u64,
        stays: Option<u64>,
    ) -> Result<u64> {
        with_buffer(Self::SHAPE.entry_bytes, |entry| {
            let mut kept = tags;
            for slot in node::filled_slots(tags) {
                Self::SHAPE.load(tx, node, slot, entry)?;
                let hash = hash_of(&entry[..K::BYTES]);
                let target = bucket_of(hash, header.buckets);
                if stays != Some(target) {
                    kept &= !node::tag_at(slot, u8::MAX);
                    let bucket = Self::bucket(tx, header, target)?;
                    Self::SHAPE.put(tx, bucket, hash, entry)?;
                }
            }
            Ok(kept)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_and_buckets_stay_what_they_are() {
        // They stand in files.
        assert_eq!(hash_of(&[]), 0);
        assert_eq!(hash_of(&7u64.to_le_bytes()), 0x875B_9307_ABF5_5005);
        assert_eq!(hash_of(b"twelve bytes"), 0x77B5_79F5_B189_1AAC);
        for buckets in 1..100 {
            for hash in 0..1000 {
                let (now, next) = (bucket_of(hash, buckets), bucket_of(hash, buckets + 1));
                assert!(now < buckets);
                let parent = buckets - (1 << buckets.ilog2());
                assert!(next == now || (now == parent && next == buckets), "hash {hash} of {buckets}");
            }
        }
    }
}
