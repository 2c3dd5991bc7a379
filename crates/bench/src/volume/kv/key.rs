//! Keys and values of records, which are numbered as in YCSB.

use crate::rng::{Rng, mix};

/// Longest key.
pub const KEY_BYTES_MAX: usize = 23;
/// Fields of a record.
pub const FIELDS: usize = 10;
/// Bytes of each.
pub const FIELD_BYTES: usize = 100;
/// Bytes of a record's value.
pub const VALUE_BYTES: usize = FIELDS * FIELD_BYTES;

/// A key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    length: usize,
    bytes: [u8; KEY_BYTES_MAX],
}

impl Key {
    /// That of a record: `user` and the hash of its number, as in YCSB.
    pub fn of(number: u64) -> Self {
        let mut digits = fnv(number) & (u64::MAX >> 1);
        let mut reversed = [0; KEY_BYTES_MAX];
        let mut count = 0;
        while digits > 0 || count < 4 {
            reversed[count] = b'0' + (digits % 10) as u8;
            digits /= 10;
            count += 1;
        }
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[..4].copy_from_slice(b"user");
        for (to, from) in bytes[4..].iter_mut().zip(reversed[..count].iter().rev()) {
            *to = *from;
        }
        Self { length: 4 + count, bytes }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Where a table puts it.
    pub fn hash(&self) -> u64 {
        let (chunks, rest) = self.as_bytes().as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        chunks.iter().chain([&last]).fold(0, |hash, chunk| mix(hash ^ u64::from_le_bytes(*chunk)))
    }
}

/// The hash of YCSB: FNV-1a over the eight bytes of a number.
pub fn fnv(number: u64) -> u64 {
    const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x100_0000_01B3;
    number.to_le_bytes().iter().fold(OFFSET, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Fills a field: its first eight bytes say whose it is, the others are random.
pub fn fill_field(key: &Key, field: usize, rng: &mut Rng, bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next().to_le_bytes()[..chunk.len()]);
    }
    bytes[..8].copy_from_slice(&mark(key, field).to_le_bytes());
}

/// The first field of a value that is not the key's.
pub fn foreign_field(key: &Key, value: &[u8; VALUE_BYTES]) -> Option<usize> {
    (0..FIELDS).find(|&field| value[field * FIELD_BYTES..][..8] != mark(key, field).to_le_bytes())
}

fn mark(key: &Key, field: usize) -> u64 {
    mix(key.hash() ^ field as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_differ_and_have_8_to_23_bytes() {
        let keys: HashSet<Vec<u8>> = (0..100_000).map(|number| Key::of(number).as_bytes().to_vec()).collect();
        assert_eq!(keys.len(), 100_000);
        assert!(keys.iter().all(|key| key.starts_with(b"user") && (8..=23).contains(&key.len())));
    }

    #[test]
    fn the_hash_is_fnv() {
        // FNV-1a of eight zero bytes.
        assert_eq!(fnv(0), 0xA8C7_F832_281A_39C5);
    }

    #[test]
    fn a_foreign_field_is_seen() {
        let (key, mut rng, mut value) = (Key::of(5), Rng::new(1), [0; VALUE_BYTES]);
        for field in 0..FIELDS {
            fill_field(&key, field, &mut rng, &mut value[field * FIELD_BYTES..][..FIELD_BYTES]);
        }
        assert_eq!(foreign_field(&key, &value), None);
        assert_eq!(foreign_field(&Key::of(6), &value), Some(0));
        value[3 * FIELD_BYTES] ^= 1;
        assert_eq!(foreign_field(&key, &value), Some(3));
    }
}
