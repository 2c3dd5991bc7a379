//! What the words of an object hold: each proves by itself where it belongs and which write made it.
//!
//! A word is `key(object, place) ^ version * CODE`. A reader that knows object and place removes the key, multiplies by the
//! inverse of `CODE` and has the version. Versions are below [`VERSIONS`]; any other bytes decode to a number of 64 bits
//! that is as good as random, so one wrong word passes once in 2^24 times at most, and once in 2^64 / versions handed out
//! when the reader knows that number ([`crate::ledger`]).
//!
//! Words prove themselves, objects do not, because threads of the workload race on purpose: a reader may see some words of
//! one write and some of another. Words are written whole, so what a race leaves in a word is always right.
//!
//! Keys look random and no two are alike, so nothing that compresses memory or a disk can shrink objects. Objects that
//! look like the memory of programs ([`Payload`]) have one word with a version in [`VERSION_SPACING`]; the others follow
//! from object and place alone, so they show a wrong object or place, and lost writes show in the first.

use serde::{Deserialize, Serialize};

use crate::payload::{PAGE_BYTES, Payload, SAMPLED_PAGES, mean_lz4_size};
use crate::rng::mix;

/// Versions are below this.
pub const VERSIONS: u64 = 1 << 40;
/// Words from one with a version to the next, in objects that look like the memory of programs.
pub const VERSION_SPACING: u64 = 16;
/// An odd number with about as many ones as zeros: a product spreads each bit of a version over all higher ones.
const CODE: u64 = 0xB5AD_4ECE_DA1C_E2A9;
const INVERSE: u64 = inverse(CODE);
/// 2^64 over the golden ratio: the seeds of neighbouring words are far apart.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
const SCRAMBLE: u64 = 0xD6E8_FEB8_6659_FD93;

/// The number that gives 1 with the odd `number`, modulo 2^64 (Newton's iteration doubles the right bits: 3, 6, ... 96).
const fn inverse(number: u64) -> u64 {
    let (mut inverse, mut round) = (number, 0);
    while round < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(number.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

/// The keys of an object's words, in order. `object` is its number.
#[inline]
pub fn keys(object: u64) -> impl Iterator<Item = u64> {
    let mut seed = mix(object);
    std::iter::repeat_with(move || {
        seed = seed.wrapping_add(STEP);
        // One multiplication: reading an object takes as long as this, word by word.
        let folded = (seed ^ seed >> 32).wrapping_mul(SCRAMBLE);
        folded ^ folded >> 29
    })
}

/// The word with this key that write number `version` makes.
#[inline]
pub fn word(key: u64, version: u64) -> u64 {
    key ^ version.wrapping_mul(CODE)
}

/// The version of a word with this key; not below [`VERSIONS`] if the word is wrong.
#[inline]
pub fn version(key: u64, word: u64) -> u64 {
    (key ^ word).wrapping_mul(INVERSE)
}

/// Whether the word at `place` of an object that looks like `payload` has a version.
#[inline]
pub fn has_version(payload: Payload, place: u64) -> bool {
    payload == Payload::Random || place.is_multiple_of(VERSION_SPACING)
}

/// The word at `place` of object `object`, which looks like `payload`, as write number `version` makes it. `key` is that of the place.
#[inline]
pub fn word_of(payload: Payload, object: u64, place: u64, key: u64, version: u64) -> u64 {
    if has_version(payload, place) { word(key, version) } else { payload.word(object, place) }
}

/// What lz4 makes of a page of objects of `object_bytes` bytes, as a part of it.
pub fn lz4_size(payload: Payload, object_bytes: usize) -> f64 {
    let per_page = (PAGE_BYTES / object_bytes).max(1) as u64;
    let object = |object: u64| {
        let words = keys(object).zip(0..object_bytes as u64 / 8);
        words.flat_map(move |(key, place)| word_of(payload, object, place, key, object).to_le_bytes())
    };
    let pages =
        (0..SAMPLED_PAGES).map(|page| (page * per_page..(page + 1) * per_page).flat_map(object).collect());
    mean_lz4_size(pages)
}

/// A byte of an object that is made wrong on purpose, to see that wrong bytes end a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flip {
    /// The object.
    pub object: u64,
    /// Which of its bytes.
    pub byte: u64,
}

/// `OBJECT:BYTE`, as in `1000:5`.
///
/// # Errors
/// A sentence with the form.
pub fn parse_flip(text: &str) -> std::result::Result<Flip, String> {
    let parse = || {
        let (object, byte) = text.split_once(':')?;
        Some(Flip { object: object.parse().ok()?, byte: byte.parse().ok()? })
    };
    parse().ok_or_else(|| format!("'{text}' is not OBJECT:BYTE, as in 1000:5"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::rng::Rng;

    const WORDS: usize = 16;

    fn object(number: u64, version: u64) -> Vec<u64> {
        keys(number).take(WORDS).map(|key| word(key, version)).collect()
    }

    #[test]
    fn a_word_gives_its_version_back() {
        let mut rng = Rng::new(1);
        for _ in 0..1000 {
            let (number, written) = (rng.next(), rng.below(VERSIONS));
            let keys = keys(number).take(WORDS);
            assert!(keys.zip(object(number, written)).all(|(key, word)| version(key, word) == written));
        }
    }

    #[test]
    fn wrong_bytes_are_no_version() {
        // As many as a long run hands out.
        const HANDED_OUT: u64 = 1 << 30;
        let mut rng = Rng::new(2);
        for number in 0..200 {
            let words = object(number, rng.below(HANDED_OUT));
            for (place, key) in keys(number).take(WORDS).enumerate() {
                let is_wrong = |word: u64| version(key, word) >= HANDED_OUT;
                for byte in 0..8 {
                    let flip = (1 + rng.below(255)) << (8 * byte);
                    assert!(is_wrong(words[place] ^ flip), "object {number}, word {place}, flip {flip:#x}");
                }
                assert!((0..64).all(|bit| is_wrong(words[place] ^ 1 << bit)));
                assert!(is_wrong(words[(place + 1) % WORDS]), "another place");
                assert!(is_wrong(object(number + 1, 5)[place]), "another object");
                assert!(is_wrong(0) && is_wrong(u64::MAX));
            }
        }
    }

    #[test]
    fn objects_shrink_as_their_payload_does() {
        for payload in [Payload::Text, Payload::Python, Payload::Graph] {
            let size = lz4_size(payload, 128);
            assert!((0.1..0.55).contains(&size), "{payload}: {size:.2}");
        }
        assert_eq!(lz4_size(Payload::Random, 128), 1.0);
    }

    /// A compressor shrinks what repeats, or uses some bytes more than others.
    #[test]
    fn nothing_shrinks_it() {
        const OBJECTS: u64 = 4096;
        let words: Vec<u64> = (0..OBJECTS).flat_map(|number| object(number, number)).collect();
        let distinct: HashSet<u64> = words.iter().copied().collect();
        assert_eq!(distinct.len(), words.len());
        // Runs of four bytes, as short as any that is worth a reference: random ones meet twice at this number.
        let halves: HashSet<u32> =
            words.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]).collect();
        assert!(words.len() * 2 - halves.len() < 40, "{} of {}", halves.len(), words.len() * 2);
        let mut counts = [[0u32; 256]; 8];
        for word in &words {
            word.to_ne_bytes().iter().zip(&mut counts).for_each(|(byte, counts)| counts[*byte as usize] += 1);
        }
        // 256 on average, with a deviation of 16.
        assert!(counts.iter().flatten().all(|count| (160..352).contains(count)));
    }

    #[test]
    fn bytes_are_parsed() {
        assert_eq!(parse_flip("1000:5"), Ok(Flip { object: 1000, byte: 5 }));
        assert!(["1000", "1000:", "a:1", ":"].iter().all(|text| parse_flip(text).is_err()));
    }
}
