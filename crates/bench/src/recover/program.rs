//! The program that is measured: it reads and checks random pages of an array, rewrites some, and tells what it did in each 50 ms.
//!
//! `aquifer-bench recover-program work` is started once for each run. It prints a line, [`Begin`], when its array is filled, and a [`Slice`] for each
//! 50 ms from then on.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::press;
use crate::error::{Error, Result};
use crate::payload::{PAGE_BYTES, Payload};
use crate::process::monotonic_ns;
use crate::rng::Rng;

/// Hidden subcommand that the programs of this study are started with.
pub const COMMAND: &str = "recover-program";
/// Length of a slice.
pub const SLICE_MS: u64 = 50;
/// The same in seconds.
pub const SLICE_S: f64 = SLICE_MS as f64 / 1e3;

const PAGE_WORDS: usize = PAGE_BYTES / size_of::<u64>();
/// The objects of a payload that the versions of a page are.
const VERSIONS: u64 = 1 << 20;
/// Operations for each one that rewrites its page.
const OPS_PER_WRITE: u64 = 10;
const SEED: u64 = 1;

/// A program of this study.
#[derive(Clone, Debug, Subcommand)]
pub enum Program {
    /// The one that is measured
    Work(Work),
    /// The one that takes RAM of a donor's machine
    Hold {
        /// How much
        bytes: u64,
    },
}

/// What the measured program is told.
#[derive(Clone, Debug, Args)]
pub struct Work {
    /// Bytes of its array
    pub data_bytes: u64,
    /// How long it works
    pub seconds: f64,
    /// What its pages look like
    #[arg(value_enum)]
    pub payload: Payload,
    /// Flip a bit of one word when all pages are filled
    #[arg(long)]
    pub flip_byte: bool,
}

/// The first line of the program.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Begin {
    /// Begin of the first slice, by the clock that all processes share.
    pub monotonic_ns: u64,
    /// Seconds that filling took.
    pub setup_s: f64,
}

/// What it did in a short time. Slices follow each other without a gap, also those in which nothing was finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slice {
    /// Its end, since the begin of the first one.
    pub at_ms: u64,
    /// Operations that were finished in it.
    pub ops: u64,
    /// The longest time without a finished operation that ended in it.
    pub pause_us: u64,
}

/// Runs a program of this study.
///
/// # Errors
/// [`Error::WrongData`]; [`Error::Io`] if nobody listens, or the kernel gives no memory.
pub fn run(program: &Program) -> Result<()> {
    match program {
        Program::Work(work) => work.run(),
        Program::Hold { bytes } => press::hold(*bytes),
    }
}

impl Work {
    fn run(&self) -> Result<()> {
        let setup = Instant::now();
        let mut pages = Pages::fill(self.data_bytes, self.payload);
        if self.flip_byte {
            pages.words[pages.skipped] ^= 1;
        }
        let mut rng = Rng::new(SEED);
        let setup_s = setup.elapsed().as_secs_f64();
        let (begin, begin_ns) = (Instant::now(), monotonic_ns());
        say(&Begin { monotonic_ns: begin_ns, setup_s })?;
        let (mut slicer, length) = (Slicer::default(), Duration::from_secs_f64(self.seconds));
        let mut now = Duration::ZERO;
        while now < length {
            let page = rng.below(pages.versions.len() as u64) as usize;
            pages.check(page)?;
            if rng.below(OPS_PER_WRITE) == 0 {
                pages.rewrite(page);
            }
            now = begin.elapsed();
            slicer.finished(now, |slice| say(&slice))?;
        }
        (0..pages.versions.len()).try_for_each(|page| pages.check(page))
    }
}

/// Prints one line.
///
/// # Errors
/// [`Error::Io`] if nobody listens.
pub fn say(line: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(line).expect("only plain fields") + "\n";
    std::io::stdout().write_all(line.as_bytes()).map_err(Error::io("writing", "a line"))
}

/// Pages in ordinary memory; each word follows from the page, how often it was written, and its place in it.
struct Pages {
    payload: Payload,
    words: Vec<u64>,
    /// Words before the first page of the kernel that is whole: one of ours is one of the kernel's.
    skipped: usize,
    versions: Vec<u32>,
}

impl Pages {
    /// Makes `bytes` of pages, each written once.
    fn fill(bytes: u64, payload: Payload) -> Self {
        let count = (bytes as usize / PAGE_BYTES).max(1);
        let words = vec![0; (count + 1) * PAGE_WORDS];
        let skipped = (words.as_ptr() as usize).wrapping_neg() % PAGE_BYTES / size_of::<u64>();
        let mut pages = Self { payload, words, skipped, versions: vec![0; count] };
        (0..count).for_each(|page| pages.rewrite(page));
        pages
    }

    fn place(&self, page: usize) -> std::ops::Range<usize> {
        let begin = self.skipped + page * PAGE_WORDS;
        begin..begin + PAGE_WORDS
    }

    fn object(&self, page: usize) -> u64 {
        page as u64 * VERSIONS + u64::from(self.versions[page]) % VERSIONS
    }

    /// Writes all words of `page` with new values.
    fn rewrite(&mut self, page: usize) {
        self.versions[page] = self.versions[page].wrapping_add(1);
        let (object, place, payload) = (self.object(page), self.place(page), self.payload);
        let words = self.words[place].iter_mut().zip(0..);
        words.for_each(|(word, at)| *word = payload.word(object, at));
    }

    /// Looks at all words of `page`.
    ///
    /// # Errors
    /// [`Error::WrongData`] with the first one that is wrong.
    fn check(&self, page: usize) -> Result<()> {
        let object = self.object(page);
        let words = self.words[self.place(page)].iter().zip(0..);
        let wrong = words.map(|(&found, at)| (found, at, self.payload.word(object, at)));
        let Some((found, at, wanted)) = { wrong }.find(|(found, _, wanted)| found != wanted) else {
            return Ok(());
        };
        let version = self.versions[page];
        let what =
            format!("page {page} version {version} word {at}: wanted {wanted:#018x}, found {found:#018x}");
        Err(Error::WrongData { peer: "aquifer run".to_owned(), what })
    }
}

/// Makes slices of operations.
struct Slicer {
    now: Slice,
    last: Duration,
}

impl Default for Slicer {
    /// At the begin of the first slice.
    fn default() -> Self {
        Self { now: Slice { at_ms: SLICE_MS, ops: 0, pause_us: 0 }, last: Duration::ZERO }
    }
}

impl Slicer {
    /// Counts an operation that is finished `at` after the begin; `tell` is given the slices that are over.
    fn finished<E>(
        &mut self,
        at: Duration,
        mut tell: impl FnMut(Slice) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        while at >= Duration::from_millis(self.now.at_ms) {
            tell(self.now)?;
            self.now = Slice { at_ms: self.now.at_ms + SLICE_MS, ops: 0, pause_us: 0 };
        }
        let pause = at.saturating_sub(self.last);
        self.now.pause_us = self.now.pause_us.max(pause.as_micros() as u64);
        self.now.ops += 1;
        self.last = at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_checked_and_so_is_its_version() {
        for payload in [Payload::Random, Payload::Text, Payload::Python, Payload::Graph] {
            let mut pages = Pages::fill(3 << 12, payload);
            assert!((&raw const pages.words[pages.skipped]).addr().is_multiple_of(PAGE_BYTES));
            (0..3).for_each(|page| pages.check(page).expect("just written"));
            let place = pages.place(1);
            let first = pages.words[place.clone()].to_vec();
            pages.rewrite(1);
            pages.check(1).expect("just written");
            // What it was before is wrong, and so is one bit.
            let second = pages.words[place.clone()].to_vec();
            pages.words[place.clone()].copy_from_slice(&first);
            assert!(pages.check(1).is_err(), "{payload}");
            pages.words[place.clone()].copy_from_slice(&second);
            pages.words[place.end - 1] ^= 1;
            let wrong = pages.check(1).expect_err("a bit is wrong").to_string();
            assert!(wrong.contains("page 1 version 2 word 511: wanted 0x"), "{wrong}");
            pages.check(2).expect("untouched");
        }
    }

    #[test]
    fn every_operation_is_in_the_slice_of_its_end() {
        let mut slicer = Slicer::default();
        let mut slices = Vec::new();
        for at_ms in [10, 20, 49, 50, 260, 300] {
            let tell = |slice| {
                slices.push(slice);
                Ok::<_, ()>(())
            };
            slicer.finished(Duration::from_millis(at_ms), tell).expect("a vector takes all");
        }
        let slice = |at_ms, ops, pause_us| Slice { at_ms, ops, pause_us };
        let expected = [
            slice(50, 3, 29_000),
            slice(100, 1, 1000),
            slice(150, 0, 0),
            slice(200, 0, 0),
            slice(250, 0, 0),
            slice(300, 1, 210_000),
        ];
        assert_eq!(slices, expected);
    }
}
