//! The child that reads for a while.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::file::MappedFile;
use super::super::meter::Meter;
use super::super::peer::Setup;
use super::{Access, PAGE_WORDS, speed, word_at};
use crate::distribution::{Distribution, Picker};
use crate::error::{Error, Result};
use crate::payload::Payload;
use crate::rng::Rng;
use crate::study::Fields;

/// Read for a while.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadsTask {
    /// Number of the run; it decides all choices.
    pub run: u32,
    /// The mapped file.
    pub setup: Setup,
    /// What to read.
    pub access: Access,
    /// By how many threads.
    pub threads: u32,
    /// Seconds before the measured ones.
    pub warmup_s: f64,
    /// Measured seconds.
    pub seconds: f64,
}

/// What the threads of a child share.
struct Shared<'a> {
    words: &'a [AtomicU64],
    payload: Payload,
    is_over: AtomicBool,
    /// The first wrong word, and what was found there.
    wrong: OnceLock<(u64, u64)>,
}

/// Reads of one thread, on a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Count(AtomicU64);

/// Reads and measures.
///
/// # Errors
/// [`Error::WrongData`] if a word was not what was written; those of `MappedFile`.
pub fn work(task: &ReadsTask) -> Result<Fields> {
    let file = MappedFile::open(&task.setup)?;
    let (payload, is_over, wrong) = (task.setup.payload, AtomicBool::new(false), OnceLock::new());
    let shared = Shared { words: file.words(), payload, is_over, wrong };
    let counts: Vec<Count> = (0..task.threads).map(|_| Count::default()).collect();
    let total = || counts.iter().map(|count| count.0.load(Ordering::Relaxed)).sum::<u64>();
    let measured = thread::scope(|scope| {
        for (number, count) in (0u64..).zip(&counts) {
            let shared = &shared;
            scope.spawn(move || task.read(shared, count, u64::from(task.run) << 32 | number));
        }
        thread::sleep(Duration::from_secs_f64(task.warmup_s));
        let before = total();
        let cost = Meter::start(&task.setup.path).and_then(|meter| {
            thread::sleep(Duration::from_secs_f64(task.seconds));
            meter.stop()
        });
        let ops = total() - before;
        shared.is_over.store(true, Ordering::Relaxed);
        cost.map(|cost| (cost, ops))
    });
    let (cost, ops) = measured?;
    if let Some(&(index, found)) = shared.wrong.get() {
        let (page, place, wanted) = (index / PAGE_WORDS, index % PAGE_WORDS, word_at(payload, index));
        let what = format!("page {page} word {place}: wanted {wanted:#018x}, found {found:#018x}");
        return Err(Error::WrongData { peer: task.setup.peer.to_string(), what });
    }
    file.close()?;
    Ok(cost.figures(ops as f64).and(speed(task.access, ops as f64 / cost.seconds)))
}

impl ReadsTask {
    fn read(&self, shared: &Shared<'_>, count: &Count, seed: u64) {
        match self.access {
            Access::Uniform => read_pages(shared, count, Distribution::Uniform, seed),
            Access::Zipf => read_pages(shared, count, Distribution::Zipf, seed),
            Access::Scan => scan(shared, count),
        }
    }
}

fn read_pages(shared: &Shared<'_>, count: &Count, distribution: Distribution, seed: u64) {
    let mut picker = Picker::new(distribution, shared.words.len() as u64 / PAGE_WORDS);
    let mut rng = Rng::new(seed);
    let mut done = 0;
    while !shared.is_over.load(Ordering::Relaxed) {
        let index = picker.pick(&mut rng) * PAGE_WORDS + rng.below(PAGE_WORDS);
        check(shared, index, shared.words[index as usize].load(Ordering::Relaxed));
        done += 1;
        count.0.store(done, Ordering::Relaxed);
    }
}

/// Words in order, again and again. The first of each page is compared; comparing all would take longer than reading.
fn scan(shared: &Shared<'_>, count: &Count) {
    let (mut done, mut sum) = (0, 0u64);
    for page in (0..shared.words.len() / PAGE_WORDS as usize).cycle() {
        if shared.is_over.load(Ordering::Relaxed) {
            break;
        }
        let first = page * PAGE_WORDS as usize;
        let words = &shared.words[first..first + PAGE_WORDS as usize];
        check(shared, first as u64, words[0].load(Ordering::Relaxed));
        sum = words.iter().fold(sum, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
        done += PAGE_WORDS;
        count.0.store(done, Ordering::Relaxed);
    }
    std::hint::black_box(sum);
}

#[inline]
fn check(shared: &Shared<'_>, index: u64, found: u64) {
    if found != word_at(shared.payload, index) {
        // What another thread found first is told.
        let _told = shared.wrong.set((index, found));
    }
}
