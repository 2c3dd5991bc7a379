//! Hits by handle and faults by pointer, on objects that are all in the object cache: no access
//! reads the device. Both go through the C interface.
//!
//! Hits and faults have objects of their own, because an object that was touched by pointer is
//! mapped for a while, and is then used at its address.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{OBJECT_BYTES, data};
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::overhead::heap::{Run, warm_up};
use crate::payload::Payload;
use crate::peer::abi::Stats;
use crate::peer::aquifer::{Aquifer, Layout};
use crate::peer::{Peer, Setup, flash_bytes_for};
use crate::rng::Rng;
use crate::study::{Fields, median_of};
use crate::verified::Verified;

/// Objects that are used by handle in turn: a set that the processor's caches hold, and one that
/// they do not.
pub const HIT: [(&str, u64); 2] =
    [("handle hit, 1024 objects in turn", 1024), ("handle hit, 100000 objects in turn", 100_000)];
/// What they replace.
pub const FAULT: &str = "fault on a cached object";
/// Hits of one run on one set.
const HITS: u64 = 1_000_000;
/// Hits that are timed together. The median of these pieces counts, so that a run in which another
/// program had the processor for a moment is not slower.
const TIMED_TOGETHER: usize = 1024;
/// The objects take this part of the budget; with the headers of their slots, their entries and the
/// page buffer beside them all of them stay in the object cache.
const BUDGET_SHARE: (u64, u64) = (3, 8);
const LOG_FILL: f64 = 0.25;
const FLASH_BYTES_MIN: u64 = 64 << 20;

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HandlesTask {
    /// Directory for the heap's file.
    pub dir: PathBuf,
    /// RAM budget of the heap.
    pub ram_bytes: u64,
    /// Times everything is measured.
    pub runs: u32,
    /// What objects look like.
    pub payload: Payload,
}

/// The child's part: all runs.
///
/// # Errors
/// [`Error::Unavailable`] without the library, [`Error::WrongData`].
pub fn work(task: &HandlesTask, parent: &mut Parent) -> Result<()> {
    let heap = open(task)?;
    let objects = heap.objects().count();
    data::fill(&heap, task.payload, |done| parent.progress("filling", done, objects))?;
    let mut rng = Rng::new(1);
    let used = shuffled(HIT[1].1.min(objects / 3 * 2), &mut rng);
    let references = used.iter().map(|&index| heap.reference(index)).collect::<Result<Vec<_>>>()?;
    for (&index, &reference) in used.iter().zip(&references) {
        heap.with_used(reference, |bytes| data::check(task.payload, index, bytes))??;
    }
    // Used by handle are the objects in front of these.
    let ledger = Ledger::unwatched("aquifer", objects).holding(task.payload);
    let touched = Verified::new(heap.objects().behind(used.len() as u64), &ledger);
    warm_up(touched, &mut rng)?;
    for run in 1..=task.runs {
        parent.progress("measuring", u64::from(run - 1), task.runs.into());
        for (name, set) in HIT {
            let used = &references[..references.len().min(set as usize)];
            let before = stats(&heap)?;
            let ns = hit_ns(&heap, used)?;
            // 0, or they were no hits.
            let device_reads = stats(&heap)?.since(&before).device_reads;
            let figures = Fields::default().with("ns", ns).with("objects", used.len());
            parent.row(name, figures.with("device_reads", device_reads));
        }
        let faults = Run::measure(&heap, touched, &mut rng)?;
        let figures = Fields::default().with("ns", faults.touch_ns);
        let figures = figures.with("faults_per_touch", faults.faults_per_touch);
        parent.row(FAULT, figures.with("misses_per_fault", faults.misses_per_fault));
    }
    Ok(())
}

fn open(task: &HandlesTask) -> Result<Aquifer> {
    let (part, parts) = BUDGET_SHARE;
    let data_bytes = task.ram_bytes / parts * part / OBJECT_BYTES * OBJECT_BYTES;
    let setup = Setup {
        dir: task.dir.clone(),
        data_bytes,
        object_bytes: OBJECT_BYTES,
        ram_bytes: task.ram_bytes,
        flash_bytes: flash_bytes_for(data_bytes, OBJECT_BYTES, LOG_FILL).max(FLASH_BYTES_MIN),
        payload: task.payload,
    };
    Aquifer::open(&setup, Layout::Objects)
}

/// The numbers below `count` in random order (Fisher and Yates).
fn shuffled(count: u64, rng: &mut Rng) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, rng.below(last as u64 + 1) as usize);
    }
    numbers
}

/// Nanoseconds of one.
fn hit_ns(heap: &Aquifer, references: &[u64]) -> Result<f64> {
    // The first pass brings the set into the processor's caches, as far as it fits.
    let passes = 1 + HITS.div_ceil(references.len().max(1) as u64);
    let mut times_ns = Vec::new();
    for pass in 0..passes {
        for timed in references.chunks(TIMED_TOGETHER) {
            let start = Instant::now();
            for &reference in timed {
                heap.with_used(reference, |bytes| black_box(bytes.as_ptr()))?;
            }
            // A last short piece would count as much as the others.
            if pass > 0 && timed.len() == references.len().min(TIMED_TOGETHER) {
                times_ns.push(start.elapsed().as_nanos() as f64 / timed.len() as f64);
            }
        }
    }
    Ok(median_of(times_ns).unwrap_or(f64::NAN))
}

fn stats(heap: &Aquifer) -> Result<Stats> {
    heap.stats().ok_or_else(|| Error::Unavailable("aq_heap_stats_get failed".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut numbers = shuffled(1000, &mut Rng::new(3));
        assert_ne!(numbers, (0..1000).collect::<Vec<_>>());
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    }
}
