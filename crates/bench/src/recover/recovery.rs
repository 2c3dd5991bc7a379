//! What the slices of a program say of a failure.

use serde::{Deserialize, Serialize};

use super::program::{SLICE_MS, SLICE_S, Slice};
use crate::study::median_of as median;

/// Slices of a window, whose median counts: what disturbs one or two of them is no fall.
pub const WINDOW: usize = 5;
/// Percent of the speed before, below which a window is slow.
pub const SPEED_PERCENT: u64 = 80;
/// Slices after the failure in which what it does to the program begins: two deadlines of a transfer.
const FALL_SLICES: usize = 2000 / SLICE_MS as usize;
/// Slices at the end whose median is the speed there.
const END_SLICES: usize = 1000 / SLICE_MS as usize;

/// Speeds before and after, and what was between.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Recovery {
    /// The median of the slices before the failure.
    pub before_ops_per_s: f64,
    /// The longest time without a finished operation before the failure.
    pub before_pause_ms: f64,
    /// The longest one that ended after the failure.
    pub pause_ms: f64,
    /// From the failure to the first slice of the first window that is not slow again; 0 if none was slow soon after the failure, none if all were from then on.
    pub recovered_s: Option<f64>,
    /// Length of all that was slow from the failure to the end.
    pub slow_s: f64,
    /// The median of the last slices.
    pub end_ops_per_s: f64,
}

impl Recovery {
    /// What followed from a failure so long after the begin of the first of `slices`, of which those up to `warmup_ms` do not count. None if there are too few.
    pub fn of(slices: &[Slice], warmup_ms: u64, failed_ms: f64) -> Option<Self> {
        let split = slices.partition_point(|slice| slice.at_ms as f64 <= failed_ms);
        let (before, after) = slices.split_at(split);
        let before = &before[before.partition_point(|slice| slice.at_ms <= warmup_ms)..];
        if before.len() < WINDOW || after.len() < WINDOW {
            return None;
        }
        let before_ops = ops(before);
        let least_ops = before_ops * SPEED_PERCENT as f64 / 100.0;
        // From the window on whose middle is the slice of the failure.
        let around = &slices[split - WINDOW / 2..];
        let is_slow: Vec<bool> = around.windows(WINDOW).map(|window| ops(window) < least_ops).collect();
        let fall = is_slow.iter().take(FALL_SLICES).position(|is_slow| *is_slow);
        let recovered = |fall: usize| {
            let is_it = |nth: &usize| !is_slow[*nth] && around[*nth].ops as f64 >= least_ops;
            let nth = (fall..is_slow.len()).find(is_it)?;
            Some((begin_ms(&around[nth]) - failed_ms).max(0.0) / 1e3)
        };
        Some(Self {
            before_ops_per_s: before_ops / SLICE_S,
            before_pause_ms: pause_ms(before),
            pause_ms: pause_ms(after),
            recovered_s: fall.map_or(Some(0.0), recovered),
            slow_s: is_slow.iter().filter(|is_slow| **is_slow).count() as f64 * SLICE_S,
            end_ops_per_s: ops(&after[after.len().saturating_sub(END_SLICES)..]) / SLICE_S,
        })
    }

    /// The speed at the end, by that before.
    pub fn end_share(&self) -> f64 {
        self.end_ops_per_s / self.before_ops_per_s
    }
}

fn begin_ms(slice: &Slice) -> f64 {
    (slice.at_ms - SLICE_MS) as f64
}

/// The median of operations in a slice.
fn ops(slices: &[Slice]) -> f64 {
    median(slices.iter().map(|slice| slice.ops as f64).collect()).unwrap_or(0.0)
}

fn pause_ms(slices: &[Slice]) -> f64 {
    slices.iter().map(|slice| slice.pause_us).max().unwrap_or(0) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices of operations, one after the other, with a pause of 1 ms in each.
    fn slices(runs: &[(usize, u64)]) -> Vec<Slice> {
        let ops = runs.iter().flat_map(|(count, ops)| std::iter::repeat_n(*ops, *count));
        let slice = |(nth, ops)| Slice { at_ms: (nth as u64 + 1) * SLICE_MS, ops, pause_us: 1000 };
        ops.enumerate().map(slice).collect()
    }

    #[test]
    fn a_fall_lasts_until_the_first_fast_slice_of_a_fast_window() {
        // Slow warm-up, 2 s at full speed, a second of nothing, half a second at half speed, and then nearly full speed.
        let mut slices = slices(&[(20, 10), (40, 100), (1, 60), (20, 0), (10, 50), (60, 90)]);
        slices[81].pause_us = 1_020_000;
        let recovery = Recovery::of(&slices, 1000, 3025.0).expect("enough slices");
        assert_eq!((recovery.before_ops_per_s, recovery.end_ops_per_s), (2000.0, 1800.0));
        assert_eq!((recovery.before_pause_ms, recovery.pause_ms), (1.0, 1020.0));
        // The slice in which it failed, and 30 more.
        assert_eq!(recovery.recovered_s, Some(1.525));
        assert!((recovery.slow_s - 1.55).abs() < 1e-9, "{recovery:?}");
        assert!((recovery.end_share() - 0.9).abs() < 1e-9);
    }

    #[test]
    fn a_slice_or_two_are_no_fall() {
        let recovery = Recovery::of(&slices(&[(40, 100), (2, 0), (60, 100)]), 0, 2000.0);
        let recovery = recovery.expect("enough slices");
        assert_eq!((recovery.recovered_s, recovery.slow_s), (Some(0.0), 0.0));
    }

    #[test]
    fn what_comes_long_after_the_failure_is_slow_but_not_its_fall() {
        let recovery = Recovery::of(&slices(&[(100, 100), (10, 30), (40, 100)]), 0, 1000.0);
        let recovery = recovery.expect("enough slices");
        assert_eq!((recovery.recovered_s, recovery.slow_s), (Some(0.0), 0.5));
    }

    #[test]
    fn a_fall_may_begin_at_the_deadline_of_a_transfer() {
        let recovery = Recovery::of(&slices(&[(60, 100), (10, 30), (40, 100)]), 0, 2000.0);
        assert_eq!(recovery.expect("enough slices").recovered_s, Some(1.5));
    }

    #[test]
    fn some_never_recover() {
        let recovery = Recovery::of(&slices(&[(40, 100), (60, 79)]), 0, 2000.0).expect("enough slices");
        assert_eq!(recovery.recovered_s, None);
        assert!((recovery.end_share() - 0.79).abs() < 1e-9);
    }

    #[test]
    fn too_few_slices_say_nothing() {
        assert_eq!(Recovery::of(&[], 0, 0.0), None);
        assert_eq!(Recovery::of(&slices(&[(40, 100)]), 0, 1900.0), None);
        assert_eq!(Recovery::of(&slices(&[(40, 100)]), 900, 1000.0), None);
    }
}
