//! An array in ordinary memory whose pages can be checked.

use crate::error::{Error, Result};
use crate::rng::mix;

const PAGE_BYTES: usize = 4096;
const PAGE_WORDS: usize = PAGE_BYTES / size_of::<u64>();

/// Pages; each word follows from the page, how often it was written, and its place in it.
#[derive(Debug)]
pub struct Pages {
    words: Vec<u64>,
    /// Words before the first page of the kernel that is whole: one of ours is one of the kernel's.
    skipped: usize,
    versions: Vec<u32>,
}

impl Pages {
    /// So many bytes of pages, each written once.
    pub fn fill(bytes: u64) -> Self {
        let count = (bytes as usize / PAGE_BYTES).max(1);
        let words = vec![0; (count + 1) * PAGE_WORDS];
        let skipped = (words.as_ptr() as usize).wrapping_neg() % PAGE_BYTES / size_of::<u64>();
        let mut pages = Self { words, skipped, versions: vec![0; count] };
        (0..count).for_each(|page| pages.rewrite(page));
        pages
    }

    /// Number of pages.
    pub fn count(&self) -> usize {
        self.versions.len()
    }

    /// Writes all words of `page` with new values.
    pub fn rewrite(&mut self, page: usize) {
        self.versions[page] = self.versions[page].wrapping_add(1);
        let seed = seed(page, self.versions[page]);
        let begin = self.skipped + page * PAGE_WORDS;
        let words = &mut self.words[begin..begin + PAGE_WORDS];
        words.iter_mut().enumerate().for_each(|(at, word)| *word = value(seed, at));
    }

    /// Looks at all words of `page`.
    ///
    /// # Errors
    /// [`Error::WrongData`] with the first one that is wrong.
    pub fn check(&self, page: usize) -> Result<()> {
        let version = self.versions[page];
        let seed = seed(page, version);
        let begin = self.skipped + page * PAGE_WORDS;
        let words = &self.words[begin..begin + PAGE_WORDS];
        let Some(at) = words.iter().enumerate().position(|(at, word)| *word != value(seed, at)) else {
            return Ok(());
        };
        let what = format!(
            "word {at} of page {page} is {:016x}, expected {:016x} of version {version}",
            words[at],
            value(seed, at)
        );
        Err(Error::WrongData { peer: "recover".to_owned(), what })
    }
}

fn seed(page: usize, version: u32) -> u64 {
    mix(mix(page as u64) ^ u64::from(version))
}

fn value(seed: u64, at: usize) -> u64 {
    mix(seed ^ at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_those_of_the_kernel() {
        let pages = Pages::fill(10 << 12);
        assert_eq!(pages.count(), 10);
        assert!((&raw const pages.words[pages.skipped]).addr().is_multiple_of(PAGE_BYTES));
    }

    #[test]
    fn every_word_is_checked_and_so_is_its_version() {
        let mut pages = Pages::fill(3 << 12);
        (0..3).for_each(|page| pages.check(page).expect("just written"));
        let (begin, old) = (pages.skipped + PAGE_WORDS, pages.skipped + 2 * PAGE_WORDS);
        let first = pages.words[begin..old].to_vec();
        pages.rewrite(1);
        pages.check(1).expect("just written");
        // What it was before is wrong, and so is one bit.
        let second = pages.words[begin..old].to_vec();
        pages.words[begin..old].copy_from_slice(&first);
        assert!(pages.check(1).is_err());
        pages.words[begin..old].copy_from_slice(&second);
        pages.words[old - 1] ^= 1;
        let wrong = pages.check(1).expect_err("a bit is wrong").to_string();
        assert!(wrong.contains("word 511 of page 1") && wrong.contains("version 2"), "{wrong}");
        pages.check(2).expect("untouched");
    }
}
