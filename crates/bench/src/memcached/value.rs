//! Keys and values of which every byte is known, so that a wrong one is noticed.

use crate::rng::{Rng, mix};

/// Bytes of every key.
pub const KEY_BYTES: usize = 16;
/// Number of the key and version, at the beginning of a value.
const HEAD_BYTES: usize = 16;
/// Least bytes of a value: its head, and something random.
pub const VALUE_BYTES_MIN: u64 = 32;
/// What memcached adds to a value: the item's header of 48 bytes, 8 for its version (CAS), the key
/// with a zero byte, and the end of line after the value.
pub const ITEM_HEADER_BYTES: u64 = 48 + 8 + KEY_BYTES as u64 + 1 + 2;

/// The name of key `number`: 16 hexadecimal digits.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|place| DIGITS[(number >> (60 - 4 * place) & 15) as usize])
}

/// Fills `value` with what `version` of key `number` is. No compressor can shrink it.
pub fn fill(value: &mut [u8], number: u64, version: u32) {
    let (head, body) = value.split_at_mut(HEAD_BYTES);
    head.copy_from_slice(&head_of(number, version));
    let mut rng = body_of(number, version);
    body.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next().to_le_bytes()[..chunk.len()]));
}

/// The version of key `number` that `value` is.
///
/// # Errors
/// A sentence that says where the first wrong byte is.
pub fn version(value: &[u8], number: u64) -> Result<u32, String> {
    let Some((head, body)) = value.split_at_checked(HEAD_BYTES) else {
        return Err(format!("a value of {} bytes was never set", value.len()));
    };
    let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    let expected = head_of(number, version);
    if head != expected {
        return Err(format!("the value begins with {head:x?}, expected {expected:x?}"));
    }
    let mut rng = body_of(number, version);
    for (nth, chunk) in body.chunks(8).enumerate() {
        let expected = rng.next().to_le_bytes();
        if *chunk != expected[..chunk.len()] {
            let at = HEAD_BYTES + 8 * nth;
            return Err(format!(
                "version {version} has {chunk:x?} at {at} of {}, expected {:x?}",
                value.len(),
                &expected[..chunk.len()]
            ));
        }
    }
    Ok(version)
}

fn head_of(number: u64, version: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&number.to_le_bytes());
    head[8..12].copy_from_slice(&version.to_le_bytes());
    head
}

fn body_of(number: u64, version: u32) -> Rng {
    Rng::new(mix(number) ^ u64::from(version))
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
    fn every_changed_byte_is_noticed() {
        for length in [32, 33, 128] {
            let mut value = vec![0; length];
            fill(&mut value, 7, 3);
            assert_eq!(version(&value, 7), Ok(3));
            assert!(version(&value, 8).is_err());
            for at in 0..length {
                value[at] ^= 1;
                assert!(version(&value, 7).is_err(), "byte {at} of {length}");
                value[at] ^= 1;
            }
        }
    }

    #[test]
    fn versions_differ_and_short_values_are_wrong() {
        let (mut one, mut two) = ([0; 64], [0; 64]);
        fill(&mut one, 1, 1);
        fill(&mut two, 1, 2);
        assert!(one[HEAD_BYTES..].iter().zip(&two[HEAD_BYTES..]).filter(|(a, b)| a != b).count() > 32);
        for length in 0..HEAD_BYTES {
            assert!(version(&one[..length], 1).is_err());
        }
    }
}
