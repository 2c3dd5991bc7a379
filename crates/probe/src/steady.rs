//! Whether rounds are level.

use crate::report::{Measurement, SteadyState};

/// Rounds of the window.
pub const WINDOW: usize = 5;
/// Highest minus lowest, by the mean, at most.
pub const EXCURSION_MAX: f64 = 0.2;
/// Change of the fitted line over the window, by the mean, at most.
pub const SLOPE_MAX: f64 = 0.1;
/// Rounds after which a device that is not steady is said to be so.
pub const ROUNDS_MAX: usize = 25;

/// The last rounds, and whether they are level.
#[must_use]
pub fn judge(rounds: Measurement) -> SteadyState {
    let iops: Vec<f64> = rounds.rounds.iter().map(crate::report::Round::iops).collect();
    let window_start = iops.len().saturating_sub(WINDOW);
    let window = &iops[window_start..];
    let mean_iops = window.iter().sum::<f64>() / window.len().max(1) as f64;
    let by_mean = |difference: f64| if mean_iops > 0.0 { difference / mean_iops } else { 0.0 };
    let (low, high) =
        window.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &x| (low.min(x), high.max(x)));
    let excursion = by_mean((high - low).max(0.0));
    let slope = by_mean(fitted_change(window));
    let is_whole = window.len() == WINDOW && mean_iops > 0.0;
    let reached = is_whole && excursion <= EXCURSION_MAX && slope.abs() <= SLOPE_MAX;
    SteadyState { rounds, reached, window_start, mean_iops, excursion, slope }
}

/// How much the least-squares line changes from the first to the last value.
fn fitted_change(values: &[f64]) -> f64 {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let offsets = || (0..values.len()).map(|index| index as f64 - middle);
    let spread: f64 = offsets().map(|offset| offset * offset).sum();
    if spread == 0.0 {
        return 0.0;
    }
    let slope = offsets().zip(values).map(|(offset, value)| offset * value).sum::<f64>() / spread;
    slope * (values.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Job, Pattern, Round, WriteMode};

    fn judged(iops: &[u64]) -> SteadyState {
        let job = Job {
            pattern: Pattern::Random,
            read_percent: 0,
            block_bytes: 4096,
            depth: 32,
            write_mode: WriteMode::Cached,
            span_bytes: 1 << 30,
        };
        let round = |&ios| Round { duration_s: 1.0, ios, bytes: ios * 4096, ..Round::default() };
        judge(Measurement { job, rounds: iops.iter().map(round).collect() })
    }

    #[test]
    fn level_rounds_are_steady() {
        let state = judged(&[9000, 5000, 1000, 1010, 990, 1000, 1005]);
        assert!(state.reached);
        assert_eq!((state.window_start, state.mean_iops), (2, 1001.0));
    }

    #[test]
    fn an_excursion_of_more_than_a_fifth_is_not() {
        assert!(judged(&[1000, 1000, 1090, 900, 1000]).reached, "19 % is allowed");
        let state = judged(&[1000, 1000, 1110, 890, 1000]);
        assert!(!state.reached && state.excursion > 0.2 && state.slope.abs() < 0.1);
    }

    #[test]
    fn a_slope_of_more_than_a_tenth_is_not() {
        let falling = judged(&[1050, 1025, 1000, 975, 950]);
        assert!(falling.reached && (falling.slope + 0.1).abs() < 1e-9, "just a tenth: {}", falling.slope);
        let steeper = judged(&[1070, 1035, 1000, 965, 930]);
        assert!(!steeper.reached && steeper.excursion < 0.2);
    }

    #[test]
    fn four_rounds_are_too_few_and_nothing_is_not_steady() {
        assert!(!judged(&[1000; 4]).reached);
        assert!(!judged(&[0; 5]).reached);
        assert!(!judged(&[]).reached);
    }
}
