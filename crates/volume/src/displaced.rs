//! Blocks of a transaction that could not be written where their pages were said to be.

use crate::word::{Physical, Place, Word};

/// Where they are instead. Places are looked up once the transaction has ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Displaced {
    /// In the order in which they were displaced: a block may be so more than once.
    runs: Vec<Run>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    from: Physical,
    pages: u32,
    to: Physical,
}

impl Displaced {
    /// Says that a block and the pages behind it are elsewhere.
    pub fn add(&mut self, from: Physical, pages: u32, to: Physical) {
        self.runs.push(Run { from, pages, to });
    }

    /// Whether every block is where it was said to be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// A word of the transaction, as it is true now.
    #[must_use]
    pub fn word(&self, word: Word) -> Word {
        match word.place() {
            Some(Place::Page { at, check }) => Word::of(Place::Page { at: self.page(at), check }),
            Some(Place::Patched { base, block, is_long }) => {
                Word::of(Place::Patched { base, block: self.page(block), is_long })
            }
            Some(Place::Zero | Place::Lost) | None => word,
        }
    }

    fn page(&self, at: Physical) -> Physical {
        self.runs.iter().fold(at, |at, run| match at.0.checked_sub(run.from.0) {
            Some(nth) if nth < run.pages => Physical(run.to.0 + nth),
            _ => at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_their_blocks() {
        let mut displaced = Displaced::default();
        assert!(displaced.is_empty());
        displaced.add(Physical(10), 4, Physical(100));
        displaced.add(Physical(100), 4, Physical(50));
        displaced.add(Physical(54), 2, Physical(200));
        let page = |at| Word::of(Place::Page { at: Physical(at), check: 7 });
        for (said, is) in [(9, 9), (10, 50), (13, 53), (14, 14), (54, 200), (55, 201), (56, 56)] {
            assert_eq!(displaced.word(page(said)), page(is), "page {said}");
        }
        let patched =
            |block| Word::of(Place::Patched { base: Physical(3), block: Physical(block), is_long: false });
        assert_eq!(displaced.word(patched(10)), patched(50));
        assert_eq!(displaced.word(Word::ZERO), Word::ZERO);
    }
}
