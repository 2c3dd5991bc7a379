//! What the bytes of a load look like: random ones, which no program has, or pages as programs have them.
//!
//! Real memory holds pointers, counters and text, which lz4 shrinks to a quarter or a third. Where a peer compresses
//! (zswap, the page cache of the heap), random bytes show its cost and hide its gain; a table needs both kinds.
//!
//! A word follows from the payload, the object's number and the word's place, so a reader can prove it without a copy.

use std::fmt;
use std::sync::LazyLock;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::rng::{Rng, mix};

/// Kinds of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// Words that look random: nothing shrinks them
    #[default]
    Random,
    /// Lower-case words of a small vocabulary, the frequent ones often: rows of a database, values of a cache
    Text,
    /// Headers of small objects and pointers to them: lists and dictionaries of an interpreter
    Python,
    /// Runs of vertex numbers of 32 bits, sorted: the edges of a graph
    Graph,
}

/// Words of 16 bytes in the vocabulary of [`Payload::Text`].
const VOCABULARY: usize = 160;
/// Draws of the vocabulary follow this power: the higher, the more often the first ones come.
const SKEW: i32 = 6;
/// Draws that are prepared: they fit into the processor's first cache.
const DRAWS: usize = 1024;
/// Where the objects that [`Payload::Python`] points to seem to be.
const HEAP_ADDRESS: u64 = 0x7f3a_5c00_0000;
/// Their number.
const POINTEES: u64 = 1 << 26;
/// Objects near to each other, to some of which each one points.
const NEIGHBOURS: u64 = 256;
const TYPE_ADDRESSES: [u64; 4] = [0x55d0_91c8_4a60, 0x55d0_91c8_6f20, 0x55d0_91c8_1180, 0x55d0_91c9_02e0];
/// Edges in a row from the same vertex, in words of two.
const RUN_WORDS: u64 = 12;
/// What is compressed at a time, as zswap does.
pub const PAGE_BYTES: usize = 4096;
/// Pages that say how far a payload shrinks.
pub const SAMPLED_PAGES: u64 = 256;

/// The vocabulary, the frequent words as often as they come.
static WORDS: LazyLock<Vec<[u64; 2]>> = LazyLock::new(|| {
    let mut rng = Rng::new(0x7465_7874);
    let letters = b"etaoinshrdlucmfwypvbgkqjxz";
    let mut word = || {
        let mut bytes = [b' '; 16];
        let mut at = 0;
        while at < 15 {
            let length = (2 + rng.below(7) as usize).min(15 - at);
            bytes[at..at + length].fill_with(|| letters[(rng.unit().powi(2) * 26.0) as usize]);
            at += length + 1;
        }
        [&bytes[..8], &bytes[8..]].map(|half| u64::from_le_bytes(half.try_into().expect("eight bytes")))
    };
    let vocabulary: Vec<_> = (0..VOCABULARY).map(|_| word()).collect();
    let drawn = |draw: usize| {
        let unit = (draw as f64 + 0.5) / DRAWS as f64;
        vocabulary[(unit.powi(SKEW) * VOCABULARY as f64) as usize]
    };
    (0..DRAWS).map(drawn).collect()
});

impl Payload {
    /// The word at `place` of object `object`.
    #[inline]
    pub fn word(self, object: u64, place: u64) -> u64 {
        match self {
            Self::Random => mix(mix(object).wrapping_add(place)),
            Self::Text => {
                let draw = mix(object ^ (place / 2) << 40) as usize % DRAWS;
                WORDS[draw][place as usize % 2]
            }
            Self::Python => {
                let drawn = mix(object ^ (place / 4) << 40);
                match place % 4 {
                    0 => 1,
                    1 => TYPE_ADDRESSES[(drawn >> 62) as usize],
                    2 => 5 + (drawn & 1),
                    _ => HEAP_ADDRESS + (object * NEIGHBOURS + (drawn >> 8) % NEIGHBOURS) % POINTEES * 16,
                }
            }
            Self::Graph => {
                let vertex = mix(object ^ (place / RUN_WORDS) << 40) >> 40;
                vertex | vertex << 32
            }
        }
    }

    /// Fills `bytes` with the words of object `object`; the last one may be cut.
    pub fn fill(self, object: u64, bytes: &mut [u8]) {
        for (part, place) in bytes.chunks_mut(8).zip(0..) {
            part.copy_from_slice(&self.word(object, place).to_le_bytes()[..part.len()]);
        }
    }

    /// What lz4 makes of a page of objects of `object_bytes` bytes, as a part of it, page by page.
    pub fn lz4_size(self, object_bytes: usize) -> f64 {
        let per_page = (PAGE_BYTES / object_bytes).max(1);
        let page = |number: u64| {
            let mut page = vec![0; object_bytes * per_page];
            let objects = page.chunks_mut(object_bytes).zip(number * per_page as u64..);
            objects.for_each(|(bytes, object)| self.fill(object, bytes));
            page
        };
        mean_lz4_size((0..SAMPLED_PAGES).map(page))
    }
}

/// What lz4 makes of each page on average, as a part of it, at most the whole.
pub fn mean_lz4_size(pages: impl IntoIterator<Item = Vec<u8>>) -> f64 {
    let size = |page: Vec<u8>| {
        let parts = page.chunks(PAGE_BYTES).map(|part| lz4_flex::block::compress(part).len().min(part.len()));
        parts.sum::<usize>() as f64 / page.len() as f64
    };
    let sizes: Vec<f64> = pages.into_iter().map(size).collect();
    sizes.iter().sum::<f64>() / sizes.len() as f64
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Random => "random",
            Self::Text => "text",
            Self::Python => "python",
            Self::Graph => "graph",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of live programs: SQLite's rows of text 0.36, Python's lists 0.26 and dictionaries 0.22, a graph 0.08.
    #[test]
    fn pages_shrink_as_those_of_programs_do() {
        for (payload, least, most) in [
            (Payload::Random, 1.0, 1.0),
            (Payload::Text, 0.30, 0.42),
            (Payload::Python, 0.20, 0.34),
            (Payload::Graph, 0.04, 0.14),
        ] {
            for object_bytes in [4096, 16384] {
                let size = payload.lz4_size(object_bytes);
                assert!((least..=most).contains(&size), "{payload}, {object_bytes} bytes: {size:.3}");
            }
        }
    }

    #[test]
    fn bytes_follow_from_the_object() {
        for payload in [Payload::Random, Payload::Text, Payload::Python, Payload::Graph] {
            let [mut one, mut again, mut other] = [[0; 100]; 3];
            payload.fill(7, &mut one);
            payload.fill(7, &mut again);
            payload.fill(8, &mut other);
            assert_eq!(one, again);
            assert_ne!(one, other, "{payload}");
            assert_eq!(one[8..16], payload.word(7, 1).to_le_bytes());
        }
    }
}
