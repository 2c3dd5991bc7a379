//! How many slabs hold data and how many parity, and what the parity says of pages that are missing (Reed-Solomon).

use std::fmt;
use std::ops::Range;

use arrayvec::ArrayVec;
use reed_solomon_erasure::galois_8::ReedSolomon;

use super::workplace::Workplace;

/// How many slabs hold data and how many parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// Slabs of data (k).
    pub data: usize,
    /// Slabs of parity (m): the number of slabs that may be lost at once.
    pub parity: usize,
}

impl Code {
    /// The most slabs of data.
    pub const DATA_MAX: usize = 16;
    /// The most slabs of parity.
    pub const PARITY_MAX: usize = 4;
    /// One slab, and flash has everything as well.
    pub const FLASH: Code = Code { data: 1, parity: 0 };
    /// Two slabs with the same bytes. What both lose at once is lost, which reads say.
    pub const COPY: Code = Code { data: 1, parity: 1 };

    /// A code of 2 to 16 slabs of data and 1 to 4 of parity.
    #[must_use]
    pub fn new(data: usize, parity: usize) -> Option<Code> {
        let is_good = (2..=Code::DATA_MAX).contains(&data) && (1..=Code::PARITY_MAX).contains(&parity);
        is_good.then_some(Code { data, parity })
    }

    /// Reads `K+M`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Code> {
        let (data, parity) = text.split_once('+')?;
        Code::new(data.parse().ok()?, parity.parse().ok()?)
    }

    /// The most slabs of a group.
    pub(super) const SLABS_MAX: usize = Code::DATA_MAX + Code::PARITY_MAX;

    /// Slabs of a group.
    #[must_use]
    pub fn slabs(self) -> usize {
        self.data + self.parity
    }

    /// Whether all slabs have the same bytes, so that nothing is computed.
    pub(super) fn is_of_copies(self) -> bool {
        self.data == 1
    }

    /// Whether flash has everything in any case.
    pub(super) fn has_all_on_flash(self) -> bool {
        self.parity == 0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.data, self.parity)
    }
}

/// Computes the pages of slabs from those of others.
pub(super) struct Codec {
    slabs: usize,
    /// None where slabs have the same bytes.
    parity: Option<ReedSolomon>,
}

impl Codec {
    pub(super) fn new(code: Code) -> Codec {
        let parity = || ReedSolomon::new(code.data, code.parity).expect("a code within limits");
        Codec { slabs: code.slabs(), parity: (!code.is_of_copies()).then(parity) }
    }

    /// Makes the parity of pages.
    pub(super) fn encode(&self, pages: Range<usize>, work: &mut Workplace<'_>) {
        match &self.parity {
            Some(parity) => {
                parity.encode(work.all_mut(pages)).expect("as many as the code has, all of one length");
            }
            None => (1..self.slabs).for_each(|column| work.copy(0, column, pages.clone())),
        }
    }

    /// Makes the pages of data that are missing from those that are loaded, of which there are enough.
    pub(super) fn decode(
        &self,
        pages: Range<usize>,
        loaded: [bool; Code::SLABS_MAX],
        work: &mut Workplace<'_>,
    ) {
        match &self.parity {
            Some(parity) => {
                let shards = work.all_mut(pages).into_iter().zip(loaded);
                let mut shards: ArrayVec<_, { Code::SLABS_MAX }> = shards.collect();
                parity.reconstruct_data(&mut shards).expect("there are enough, all of one length");
            }
            None => {
                let column = loaded.iter().position(|is_loaded| *is_loaded).unwrap_or(0);
                work.copy(column, 0, pages);
            }
        }
    }
}
