//! The bytes of an object, which follow from its number.

use super::OBJECT_BYTES;
use crate::contents;
use crate::error::{Error, Result};
use crate::payload::Payload;
use crate::peer::Peer;
use crate::peer::aquifer::Aquifer;

/// An object's bytes.
pub type Bytes = [u8; OBJECT_BYTES as usize];

/// Objects that are written together.
const WRITTEN_TOGETHER: u64 = 4096;

/// The bytes of object `index`: those of its first write in any benchmark.
pub fn of(payload: Payload, index: u64) -> Bytes {
    let mut bytes = [0; OBJECT_BYTES as usize];
    let (words, _) = bytes.as_chunks_mut::<8>();
    for ((word, key), place) in words.iter_mut().zip(contents::keys(index)).zip(0..) {
        *word = contents::word_of(payload, index, place, key, index).to_ne_bytes();
    }
    bytes
}

/// Writes every object, without a fault: none is mapped afterwards. `progress` gets the number of
/// objects written so far.
///
/// # Errors
/// [`Error::Unavailable`] with the library's sentence.
pub fn fill(heap: &Aquifer, payload: Payload, mut progress: impl FnMut(u64)) -> Result<()> {
    let count = heap.objects().count();
    for first in (0..count).step_by(WRITTEN_TOGETHER as usize) {
        let indices: Vec<u64> = (first..(first + WRITTEN_TOGETHER).min(count)).collect();
        let memory: Vec<u8> = indices.iter().flat_map(|&index| of(payload, index)).collect();
        heap.write_batch(&indices, &memory)?;
        progress(first);
    }
    progress(count);
    Ok(())
}

/// Whether `found` are the bytes of object `index`.
///
/// # Errors
/// [`Error::WrongData`] with both.
#[inline]
pub fn check(payload: Payload, index: u64, found: &[u8]) -> Result<()> {
    let expected = of(payload, index);
    if found == expected { Ok(()) } else { Err(wrong(index, found, &expected)) }
}

#[cold]
fn wrong(index: u64, found: &[u8], expected: &Bytes) -> Error {
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    let at = differs.unwrap_or(found.len().min(expected.len()));
    let (found_there, expected_there) = (found.get(at..).unwrap_or(&[]), &expected[at..]);
    Error::WrongData {
        peer: "aquifer".to_owned(),
        what: format!(
            "object {index} differs from byte {at} of {} on: {:02x?}, expected {:02x?}",
            found.len(),
            &found_there[..found_there.len().min(8)],
            &expected_there[..expected_there.len().min(8)],
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_wrong_byte_is_noticed() {
        let payload = Payload::Text;
        let right = of(payload, 7);
        let check = |index, found: &[u8]| check(payload, index, found);
        assert!(check(7, &right).is_ok());
        assert!(check(8, &right).is_err() && check(7, &right[..127]).is_err() && check(7, &[]).is_err());
        let mut bytes = right;
        bytes[100] ^= 1;
        let what = check(7, &bytes).expect_err("one bit differs").to_string();
        assert!(what.contains("WRONG DATA") && what.contains("object 7 differs from byte 100"), "{what}");
    }
}
