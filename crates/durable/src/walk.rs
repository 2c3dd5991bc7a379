//! The one walker of blocks: all who look at a chunk's bytes find in it what counts, and what is damaged.

use crate::block::{ALIGN_BYTES, Block};
use crate::checksum::Sums;
use crate::chunk::{HEADER_BYTES, seed_at};

/// What is at a place of a chunk.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// A block. Its payloads verify if it [is intact](Block::is_intact).
    Block(Block<'a>),
    /// Damage: this number of bytes does not verify, and a block follows them.
    Damage(usize),
}

impl Found<'_> {
    /// How long it is.
    pub fn len_bytes(&self) -> usize {
        match self {
            Self::Block(block) => block.len_bytes(),
            Self::Damage(bytes) => *bytes,
        }
    }
}

/// Iterator over the blocks of a chunk, and the bytes between them that should be blocks: where from the start of the chunk, and
/// what. It ends where no block follows.
pub struct Blocks<'a> {
    bytes: &'a [u8],
    at: usize,
    seed: u32,
    /// From where the first block does not verify.
    sums: Option<Sums<'a>>,
}

impl<'a> Blocks<'a> {
    /// Those of a chunk with these bytes, whose checksums begin with `seed` ([`chunk::seed`](crate::chunk::seed)).
    pub fn new(bytes: &'a [u8], seed: u32) -> Self {
        Self { bytes, at: HEADER_BYTES, seed, sums: None }
    }

    /// Where it has come to: after the last block, how far the chunk is filled.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Where the next block from here on is that verifies.
    fn next_place(&mut self) -> Option<usize> {
        let (at, bytes, seed) = (self.at, self.bytes, self.seed);
        if bytes.get(at..)?.iter().all(|&byte| byte == 0) {
            return None;
        }
        // What an earlier life of the chunk left can say at any place that a block of any length is there.
        let sums = self.sums.get_or_insert_with(|| Sums::new(bytes));
        let mut places = (at..bytes.len()).step_by(ALIGN_BYTES);
        places.find(|&place| Block::decode_at(bytes, place, seed_at(seed, place), sums).is_some())
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = (usize, Found<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        if let Some(block) = Block::decode(self.bytes.get(at..)?, seed_at(self.seed, at)) {
            self.at += block.len_bytes();
            return Some((at, Found::Block(block)));
        }
        self.at = self.next_place()?;
        Some((at, Found::Damage(self.at - at)))
    }
}
