//! What it costs to prove an object that was read.

use std::hint::black_box;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ledger::Ledger;
use crate::objects::in_memory;
use crate::payload::Payload;
use crate::study::median_of as median;
use crate::verified::Verified;

/// Bytes of the objects that are read in turn: the processor's first cache holds them.
const BYTES: usize = 16 << 10;
/// Passes over them, each timed.
const PASSES: usize = 101;

/// Nanoseconds of reading one object, by one thread, in memory that the processor has in its caches.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Proof {
    /// Reading every word.
    pub read_ns: f64,
    /// Reading and proving every word, as benchmarks do.
    pub verify_ns: f64,
}

impl Proof {
    /// Both on this machine now, in turns, medians; takes a few milliseconds.
    ///
    /// # Errors
    /// [`crate::Error::WrongData`] if memory of this process does not keep what is in it.
    pub fn measure(payload: Payload, object_bytes: usize) -> Result<Self> {
        let count = (BYTES / object_bytes).max(1) as u64;
        in_memory(object_bytes, count, |objects| {
            let ledger = Ledger::unwatched("memory of the benchmark", count).holding(payload);
            let verified = Verified::new(objects, &ledger);
            (0..count).for_each(|index| verified.fill(index));
            let (mut read, mut proven) = (Vec::new(), Vec::new());
            for _ in 0..PASSES {
                let start = Instant::now();
                (0..count).map(|index| objects.read(black_box(index))).for_each(|sum| _ = black_box(sum));
                read.push(start.elapsed().as_nanos() as f64 / count as f64);
                let start = Instant::now();
                (0..count).try_for_each(|index| verified.read(black_box(index)))?;
                proven.push(start.elapsed().as_nanos() as f64 / count as f64);
            }
            let middle = |times| median(times).unwrap_or(f64::NAN);
            Ok(Self { read_ns: middle(read), verify_ns: middle(proven) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_are_timed() {
        for (payload, object_bytes) in [(Payload::Random, 8), (Payload::Random, 4096), (Payload::Text, 128)] {
            let proof = Proof::measure(payload, object_bytes).expect("memory keeps what is in it");
            assert!(proof.read_ns > 0.0 && proof.verify_ns > 0.0, "{proof:?}");
        }
    }
}
