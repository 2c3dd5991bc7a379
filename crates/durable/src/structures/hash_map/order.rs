//! All entries in an order that stays the same while the map grows and shrinks: that of the bits of their hashes, the lowest bit first.
//! A bucket has a range of it, which is cut in two when the bucket is split (Shalev and Shavit, "Split-Ordered Lists", JACM 2006).

use super::node::{self, Head};
use super::{HashMap, Header, bucket_of, hash_of};
use crate::access::Load;
use crate::error::Result;
use crate::reference::Ref;
use crate::typed::Typed;
use crate::value::{Value, with_buffer};

/// How many of the lowest bits of a hash tell that it is of this bucket.
fn bits_of(bucket: u64, buckets: u64) -> u32 {
    let mask = buckets.next_power_of_two() - 1;
    let is_split = (bucket & mask >> 1) + (mask >> 1) + 1 < buckets;
    if is_split || mask == 0 { mask.count_ones() } else { mask.count_ones() - 1 }
}

/// The first place in the order behind those of a bucket that has `place`.
fn behind_bucket(place: u64, bits: u32) -> Option<u64> {
    let rest = u64::MAX.checked_shr(bits).unwrap_or(0);
    (place | rest).checked_add(1)
}

/// Where an entry stands: its hash, and if others have the same one, the bytes of its key.
type Place = (u64, Vec<u8>);

fn place_of(key: &[u8]) -> Place {
    (hash_of(key).reverse_bits(), key.to_vec())
}

impl<K: Value, V: Value> HashMap<K, V> {
    /// The first entry behind `after`, or of all, in an order that is neither that of the keys nor that in which they were inserted.
    ///
    /// `after` need not be there any more. So a program can go through a map in many transactions, and insert and remove
    /// meanwhile: it sees every entry once that is there all the time.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn next<A: Load + ?Sized>(self, tx: &mut A, after: Option<K>) -> Result<Option<(K, V)>> {
        let header = tx.get(self.header)?;
        let mut after = after.map(|key| Self::with_entry(key, |_, entry| place_of(&entry[..K::BYTES])));
        let mut place = after.as_ref().map_or(0, |after| after.0);
        loop {
            let bucket = bucket_of(place.reverse_bits(), header.buckets);
            if let Some(entry) = Self::first_behind(tx, &header, bucket, after.as_ref())? {
                return Ok(Some(entry));
            }
            match behind_bucket(place, bits_of(bucket, header.buckets)) {
                None => return Ok(None),
                // All entries of the next bucket are behind.
                Some(next) => (place, after) = (next, None),
            }
        }
    }

    /// The first entry of a bucket behind a place.
    fn first_behind<A: Load + ?Sized>(
        tx: &mut A,
        header: &Header,
        bucket: u64,
        after: Option<&Place>,
    ) -> Result<Option<(K, V)>> {
        let mut first: Option<(Place, V)> = None;
        let mut next = Some(Self::bucket(tx, header, bucket)?);
        while let Some(node) = next {
            let head = tx.get(node)?;
            for slot in node::filled_slots(head.tags) {
                let (place, value) = Self::placed(tx, node, slot)?;
                let is_behind = after.is_none_or(|after| place > *after);
                if is_behind && first.as_ref().is_none_or(|(first, _)| place < *first) {
                    first = Some((place, value));
                }
            }
            next = head.next;
        }
        Ok(first.map(|((_, key), value)| (K::decode(&key), value)))
    }

    /// The place of an entry, and its value.
    fn placed<A: Load + ?Sized>(tx: &mut A, node: Ref<Head>, slot: usize) -> Result<(Place, V)> {
        with_buffer(Self::SHAPE.entry_bytes, |entry| {
            Self::SHAPE.load(tx, node, slot, entry)?;
            Ok((place_of(&entry[..K::BYTES]), Self::value_in(entry)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_ranges_of_the_order() {
        for buckets in 1..70 {
            let (mut place, mut seen) = (0u64, 0);
            loop {
                let bucket = bucket_of(place.reverse_bits(), buckets);
                let next = behind_bucket(place, bits_of(bucket, buckets));
                let last = next.map_or(u64::MAX, |next| next - 1);
                let middle = place + (last - place) / 2;
                for inside in [middle, middle + 1, last] {
                    assert_eq!(bucket_of(inside.min(last).reverse_bits(), buckets), bucket);
                }
                seen += 1;
                match next {
                    Some(next) => place = next,
                    None => break,
                }
            }
            assert_eq!(seen, buckets);
        }
    }
}
