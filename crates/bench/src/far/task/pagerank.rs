//! PageRank over a graph in memory, by one thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::answer::Answer;
use super::super::slots::Slots;
use super::{Extent, TaskOptions, graph};
use crate::error::{Error, Result};
use crate::process::Memory;
use crate::volume::pagerank::Layout;
use crate::volume::pagerank::ranks::Ranks;

/// The ranks' sum may be so far from one.
const SUM_ERROR_MAX: f64 = 1e-6;
/// Nobody stops the iterations but whoever ends the process.
const NEVER: Duration = Duration::from_secs(86_400);

/// Loads the graph and iterates.
///
/// # Errors
/// [`Error::Io`], [`Error::Input`]; [`Error::WrongData`] if the ranks do not sum to one.
pub fn run(extent: Extent, options: &TaskOptions) -> Result<Answer> {
    let setup = Instant::now();
    let (layout, words) = words(extent.data_bytes, options)?;
    let edges = AtomicU64::new(0);
    let ranks = Ranks { words: &words, layout, threads: 1, end: Instant::now() + NEVER, edges: &edges };
    let mut leftover = ranks.begin();
    let (setup_s, start) = (setup.elapsed().as_secs_f64(), Instant::now());
    let mut done = 0;
    loop {
        let is_last = is_last(done, options.rounds, start.elapsed(), extent.length);
        leftover = ranks.iterate(done as u32, leftover, is_last);
        done += 1;
        if is_last {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let slots = Slots::now()?;
    let (sum, digest) = ranks.total(done as u32);
    if (sum - 1.0).abs() > SUM_ERROR_MAX {
        return Err(Error::WrongData {
            peer: "pagerank".to_owned(),
            what: format!("the ranks sum to {sum}"),
        });
    }
    Ok(Answer {
        rounds: Some(done),
        ops: edges.load(Ordering::Relaxed),
        seconds,
        setup_s,
        digest: Some(digest),
        memory: Memory::default(),
        slots,
    })
}

fn words(bytes: u64, options: &TaskOptions) -> Result<(Layout, Vec<AtomicU64>)> {
    match &options.graph {
        Some(path) => graph::load(path, bytes),
        None => {
            let (layout, graph) = graph::make(bytes, &mut |_| ())?;
            let words = (0..layout.vector(2)).map(|index| AtomicU64::new(graph.word(index)));
            Ok((layout, words.collect()))
        }
    }
}

/// Whether the round after so many is the last one, which must be known before it: as many as were asked for, or as many as there is time for.
fn is_last(done: u64, rounds: Option<u64>, elapsed: Duration, length: Duration) -> bool {
    match (rounds, u32::try_from(done)) {
        (Some(rounds), _) => done + 1 >= rounds,
        (None, Ok(0)) => length.is_zero(),
        (None, Ok(done)) => elapsed + elapsed / done >= length,
        (None, Err(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_end_when_they_should() {
        let second = Duration::from_secs(1);
        assert!(is_last(4, Some(5), second, second) && !is_last(3, Some(5), 9 * second, second));
        assert!(!is_last(0, None, Duration::ZERO, second));
        assert!(!is_last(4, None, 4 * second, 6 * second) && is_last(5, None, 5 * second, 6 * second));
    }
}
