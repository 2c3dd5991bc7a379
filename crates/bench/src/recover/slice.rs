//! What a program did in a short time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Length of a slice.
pub const SLICE_MS: u64 = 50;
/// The same in seconds.
pub const SLICE_S: f64 = SLICE_MS as f64 / 1e3;

/// A line of the program. Slices follow each other without a gap, also those in which nothing was finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slice {
    /// Its end, since the begin of the first one.
    pub at_ms: u64,
    /// Operations that were finished in it.
    pub ops: u64,
    /// The longest time without a finished operation that ended in it.
    pub pause_us: u64,
}

/// Makes slices of operations.
#[derive(Debug)]
pub struct Slicer {
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
    /// An operation is finished so long after the begin; `tell` is given the slices that are over.
    ///
    /// # Errors
    /// That of `tell`.
    pub fn finished<E>(
        &mut self,
        at: Duration,
        mut tell: impl FnMut(Slice) -> Result<(), E>,
    ) -> Result<(), E> {
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
