//! Keys and values of records, which are numbered as in YCSB.

use std::fmt;

use crate::payload::Payload;
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

    /// One of these bytes; `None` if there are too many.
    pub fn from_bytes(stored: &[u8]) -> Option<Self> {
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes.get_mut(..stored.len())?.copy_from_slice(stored);
        Some(Self { length: stored.len(), bytes })
    }

    /// Where a table puts it.
    pub fn hash(&self) -> u64 {
        let (chunks, rest) = self.as_bytes().as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        chunks.iter().chain([&last]).fold(0, |hash, chunk| mix(hash ^ u64::from_le_bytes(*chunk)))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

/// The hash of YCSB: FNV-1a over the eight bytes of a number.
pub fn fnv(number: u64) -> u64 {
    const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x100_0000_01B3;
    number.to_le_bytes().iter().fold(OFFSET, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Fills a field: eight bytes that say whose it is, eight of the write that made it, and the payload that follows from both.
pub fn fill_field(payload: Payload, key: &Key, field: usize, rng: &mut Rng, bytes: &mut [u8]) {
    let (mark, write) = (mark(key, field), rng.next());
    bytes[..8].copy_from_slice(&mark.to_le_bytes());
    bytes[8..16].copy_from_slice(&write.to_le_bytes());
    payload.fill(mark ^ write, &mut bytes[16..]);
}

/// Proves all bytes of a value of `key`.
///
/// # Errors
/// The first byte that is not what was written, with both.
pub fn prove(payload: Payload, key: &Key, value: &[u8; VALUE_BYTES]) -> std::result::Result<(), String> {
    for (field, found) in value.as_chunks::<FIELD_BYTES>().0.iter().enumerate() {
        let (mark, mut wanted) = (mark(key, field), [0; FIELD_BYTES]);
        wanted[..8].copy_from_slice(&mark.to_le_bytes());
        wanted[8..16].copy_from_slice(&found[8..16]);
        let write = u64::from_le_bytes(found[8..16].try_into().expect("eight bytes"));
        payload.fill(mark ^ write, &mut wanted[16..]);
        if let Some(byte) = (0..FIELD_BYTES).find(|&byte| found[byte] != wanted[byte]) {
            let (name, wanted, found) = (key, wanted[byte], found[byte]);
            return Err(format!(
                "record {name} field {field} byte {byte}: wanted {wanted:#04x}, found {found:#04x}"
            ));
        }
    }
    Ok(())
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
    fn a_wrong_byte_is_named() {
        for payload in [Payload::Random, Payload::Text] {
            let (key, mut rng, mut value) = (Key::of(5), Rng::new(1), [0; VALUE_BYTES]);
            for field in 0..FIELDS {
                fill_field(payload, &key, field, &mut rng, &mut value[field * FIELD_BYTES..][..FIELD_BYTES]);
            }
            assert_eq!(prove(payload, &key, &value), Ok(()));
            assert!(prove(payload, &Key::of(6), &value).is_err_and(|what| what.contains("field 0 byte 0")));
            value[3 * FIELD_BYTES + 50] ^= 1;
            let what = prove(payload, &key, &value).expect_err("wrong");
            assert!(what.contains(&format!("{key} field 3 byte 50: wanted 0x")), "{what}");
        }
    }
}
