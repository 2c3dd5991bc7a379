//! Keys and values of which every byte is known, so that a wrong one is noticed.
//!
//! A value begins with the number of its key and its version; words of the payload follow, which both decide.

use std::ops::RangeInclusive;

use crate::payload::{PAGE_BYTES, Payload, mean_lz4_size};
use crate::rng::mix;

/// Bytes of every key.
pub const KEY_BYTES: usize = 16;
/// Least bytes of a value: key, version, and as much of the payload.
pub const VALUE_BYTES_MIN: u64 = 32;
/// What memcached adds to a value: the item's header of 48 bytes, 8 for its version (CAS), the key
/// with a zero byte, and the end of line after the value.
pub const ITEM_HEADER_BYTES: u64 = 48 + 8 + KEY_BYTES as u64 + 1 + 2;
/// Words before those of the payload.
const HEAD_WORDS: u64 = 2;
/// The payload of a version is that of an object far away from the version before.
const VERSION_STEP: u64 = 0x9E37_79B1;
/// Numbers of objects that every payload takes.
const OBJECTS: u64 = 1 << 40;
/// Numbers of keys decide the keys themselves too; this makes the lengths independent of what follows from them.
const SIZE_SALT: u64 = 0x5126_57A1;
/// Bytes of values that are compressed to see how well they can be.
const SAMPLED_BYTES: usize = 256 * PAGE_BYTES;

/// Bytes of values. A key's value keeps its length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sizes {
    /// All the same.
    Same(usize),
    /// Percent of the keys, and bytes of their values; the percentages sum to 100.
    Mixed(&'static [(u64, usize)]),
}

impl Sizes {
    /// Bytes of the value of a key.
    pub fn of(self, key: u64) -> usize {
        match self {
            Self::Same(bytes) => bytes,
            Self::Mixed(parts) => {
                let (drawn, mut sum) = (mix(key ^ SIZE_SALT) % 100, 0);
                let part = parts.iter().find(|(percent, _)| {
                    sum += percent;
                    drawn < sum
                });
                part.map_or(0, |(_, bytes)| *bytes)
            }
        }
    }

    /// Bytes of a value on average, over the keys.
    pub fn mean(self) -> f64 {
        match self {
            Self::Same(bytes) => bytes as f64,
            Self::Mixed(parts) => {
                parts.iter().map(|(percent, bytes)| *percent as f64 * *bytes as f64).sum::<f64>() / 100.0
            }
        }
    }
}

/// What values look like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Values {
    /// Their lengths.
    pub sizes: Sizes,
    /// Their bytes.
    pub payload: Payload,
}

impl Values {
    /// Makes `value` what `version` of `key` is.
    pub fn fill(self, value: &mut Vec<u8>, key: u64, version: u32) {
        value.resize(self.sizes.of(key), 0);
        for (part, place) in value.chunks_mut(8).zip(0..) {
            part.copy_from_slice(&self.word(key, version, place).to_le_bytes()[..part.len()]);
        }
    }

    #[inline]
    fn word(self, key: u64, version: u32, place: u64) -> u64 {
        match place {
            0 => key,
            1 => version.into(),
            _ => {
                let object = key.wrapping_add(u64::from(version) * VERSION_STEP) % OBJECTS;
                self.payload.word(object, place - HEAD_WORDS)
            }
        }
    }

    /// Checks that `value` is one of the `possible` versions of `key`.
    ///
    /// # Errors
    /// A sentence with the first byte that is wrong: what was wanted, and what was found.
    pub fn check(self, value: &[u8], key: u64, possible: &RangeInclusive<u32>) -> Result<(), String> {
        let wanted_bytes = self.sizes.of(key);
        if possible.is_empty() || value.len() != wanted_bytes {
            let wanted =
                if possible.is_empty() { "no value".to_owned() } else { format!("{wanted_bytes} bytes") };
            return Err(format!("key {key}: wanted {wanted}, found {} bytes", value.len()));
        }
        let told = value[8..12].try_into().map_or(0, u32::from_le_bytes);
        let version = if possible.contains(&told) { told } else { *possible.end() };
        for (part, place) in value.chunks(8).zip(0..) {
            let wanted = self.word(key, version, place).to_le_bytes();
            if let Some(nth) = (0..part.len()).find(|nth| part[*nth] != wanted[*nth]) {
                let (at, wanted, found) = (8 * place as usize + nth, wanted[nth], part[nth]);
                return Err(format!(
                    "key {key} version {version} byte {at}: wanted {wanted:#04x}, found {found:#04x}"
                ));
            }
        }
        Ok(())
    }

    /// What lz4 makes of a page of first versions, one after the other.
    pub fn lz4_size(self) -> f64 {
        let (mut bytes, mut value, mut key) = (Vec::new(), Vec::new(), 0);
        while bytes.len() < SAMPLED_BYTES {
            self.fill(&mut value, key, 1);
            bytes.extend_from_slice(&value);
            key += 1;
        }
        mean_lz4_size([bytes])
    }
}

/// The name of key `number`: 16 hexadecimal digits.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|place| DIGITS[(number >> (60 - 4 * place) & 15) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hexadecimal() {
        assert_eq!(&key(0x1f), b"000000000000001f");
        assert_eq!(&key(u64::MAX), b"ffffffffffffffff");
    }

    #[test]
    fn every_changed_byte_is_named() {
        for payload in [Payload::Random, Payload::Text, Payload::Python, Payload::Graph] {
            for length in [32, 33, 128] {
                let (values, mut value) = (Values { sizes: Sizes::Same(length), payload }, Vec::new());
                values.fill(&mut value, 7, 3);
                assert_eq!(values.check(&value, 7, &(2..=3)), Ok(()));
                assert!(values.check(&value, 8, &(3..=3)).is_err());
                assert!(
                    values.check(&value, 7, &(4..=4)).is_err_and(|what| what.contains("byte 8: wanted 0x04"))
                );
                for at in 0..length {
                    value[at] ^= 0xff;
                    let (found, wanted) = (value[at], !value[at]);
                    let said = format!("key 7 version 3 byte {at}: wanted {wanted:#04x}, found {found:#04x}");
                    assert_eq!(values.check(&value, 7, &(3..=3)), Err(said));
                    value[at] ^= 0xff;
                }
                value.pop();
                assert!(values.check(&value, 7, &(3..=3)).is_err_and(|what| what.contains("bytes, found")));
            }
        }
    }

    #[test]
    fn what_was_never_set_cannot_be_there() {
        let values = Values { sizes: Sizes::Same(32), payload: Payload::Random };
        assert_eq!(
            values.check(&[0; 32], 1, &RangeInclusive::new(1, 0)),
            Err("key 1: wanted no value, found 32 bytes".to_owned())
        );
    }

    #[test]
    fn values_shrink_as_their_payload_does() {
        let size = |payload| Values { sizes: Sizes::Same(1024), payload }.lz4_size();
        assert!(size(Payload::Random) > 0.98 && size(Payload::Text) < 0.5 && size(Payload::Graph) < 0.3);
    }

    #[test]
    fn lengths_are_as_frequent_as_was_asked_for() {
        let sizes = Sizes::Mixed(&[(70, 64), (20, 300), (10, 1000)]);
        assert_eq!((sizes.mean(), Sizes::Same(7).of(3)), (204.8, 7));
        for (bytes, percent) in [(64, 70), (300, 20), (1000, 10)] {
            let count = (0..100_000).filter(|key| sizes.of(*key) == bytes).count();
            assert!(count.abs_diff(percent * 1000) < 500, "{bytes}: {count}");
        }
    }
}
