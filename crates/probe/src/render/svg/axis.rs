//! Scales with round ticks, linear and logarithmic.

use crate::render::figures;

/// Values are drawn as if they were no farther from 0 than this, so that sums and steps stay finite.
const LIMIT: f64 = 1e30;
/// The smallest value on a logarithmic scale.
const LOG_LIMIT: f64 = 1e-12;

/// Where an axis has its ticks.
pub(crate) enum Ticks {
    /// At round values, labelled by a function.
    Round(fn(f64) -> String),
    /// At these values, with these labels.
    At(Vec<(f64, String)>),
}

/// One of the two axes of a plot.
pub(crate) struct Axis {
    /// What it counts, with the unit.
    pub label: String,
    /// Logarithmic; values that are not above 0 are not drawn then.
    pub is_log: bool,
    /// Begins at 0; a linear axis that does not is said to be cut by its ticks.
    pub from_zero: bool,
    /// Marks along it.
    pub ticks: Ticks,
}

impl Axis {
    /// From 0, in round steps.
    pub(crate) fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), is_log: false, from_zero: true, ticks: Ticks::Round(figures::number) }
    }

    /// In powers of ten.
    pub(crate) fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), is_log: true, from_zero: false, ticks: Ticks::Round(figures::number) }
    }

    /// In powers of ten, labelled as times; values are nanoseconds.
    pub(crate) fn latency() -> Self {
        Self { ticks: Ticks::Round(figures::nanoseconds), ..Self::log("latency") }
    }

    /// With ticks at the values themselves, as far apart as their logarithms.
    pub(crate) fn log_at(label: impl Into<String>, ticks: Vec<(f64, String)>) -> Self {
        Self { ticks: Ticks::At(ticks), ..Self::log(label) }
    }

    /// With names at 0, 1, 2 and so on: for things that have an order but no measure.
    pub(crate) fn named(label: impl Into<String>, names: impl IntoIterator<Item = String>) -> Self {
        let ticks = names.into_iter().enumerate().map(|(at, name)| (at as f64, name)).collect();
        Self { label: label.into(), is_log: false, from_zero: false, ticks: Ticks::At(ticks) }
    }

    /// Whether a value has a place on it.
    pub(crate) fn takes(&self, value: f64) -> bool {
        value.is_finite() && (!self.is_log || value > 0.0)
    }
}

/// An axis with its ends, ready to place values.
pub(crate) struct Scale {
    is_log: bool,
    low: f64,
    high: f64,
    /// Values and labels, ascending.
    pub ticks: Vec<(f64, String)>,
}

impl Scale {
    /// A scale that holds all `values` that the axis takes; `None` without any.
    pub(crate) fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Option<Self> {
        let limit = |value: f64| match axis.is_log {
            true => value.clamp(LOG_LIMIT, LIMIT),
            false => value.clamp(-LIMIT, LIMIT),
        };
        let (low, high) = values
            .filter(|&value| axis.takes(value))
            .map(limit)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return None;
        }
        let mut scale = if axis.is_log { Self::log(low, high) } else { Self::linear(axis, low, high) };
        match &axis.ticks {
            Ticks::Round(format) => {
                for tick in &mut scale.ticks {
                    tick.1 = figures::trimmed(&format(tick.0));
                }
            }
            Ticks::At(ticks) => scale.at(axis, ticks, low, high),
        }
        Some(scale)
    }

    fn linear(axis: &Axis, low: f64, high: f64) -> Self {
        let low = if axis.from_zero { low.min(0.0) } else { low };
        let high = if axis.from_zero { high.max(0.0) } else { high };
        let step = round_step((high - low).max(high.abs() * 1e-3));
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let last = if last > first { last } else { first + 1.0 };
        let ticks = (0..=(last - first) as u64).map(|at| ((first + at as f64) * step, String::new()));
        Self { is_log: false, low: first * step, high: last * step, ticks: ticks.collect() }
    }

    fn log(low: f64, high: f64) -> Self {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let last = last.max(first + 1);
        let digits: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let skip = (last - first) / 8 + 1;
        let decades = (first..=last).step_by(skip as usize);
        let end = 10f64.powi(last);
        let ticks = decades
            .flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)))
            .filter(|&tick| tick <= end * 1.001)
            .map(|tick| (tick, String::new()));
        Self { is_log: true, low: 10f64.powi(first), high: end, ticks: ticks.collect() }
    }

    /// Takes the ticks as they are, with a little room beside the outermost.
    fn at(&mut self, axis: &Axis, ticks: &[(f64, String)], low: f64, high: f64) {
        self.ticks = ticks.iter().filter(|tick| axis.takes(tick.0) && tick.0 <= LIMIT).cloned().collect();
        self.ticks.sort_by(|one, next| one.0.total_cmp(&next.0));
        self.ticks.dedup_by(|next, one| next.0 == one.0);
        let (low, high) =
            self.ticks.iter().fold((low, high), |(low, high), tick| (low.min(tick.0), high.max(tick.0)));
        if self.is_log {
            (self.low, self.high) = (low.max(LOG_LIMIT) / 1.25, high * 1.25);
        } else {
            let room = ((high - low) / 20.0).max(high.abs() * 1e-3).max(1e-9);
            (self.low, self.high) = (if axis.from_zero { low.min(0.0) } else { low - room }, high + room);
        }
    }

    /// Where a value is between the ends, from 0 to 1; values outside are at the ends.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(LOG_LIMIT) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A step of 1, 2 or 5 times a power of ten, that divides `range` in three to eight.
fn round_step(range: f64) -> f64 {
    if range < 1e-12 {
        return 0.2;
    }
    let rough = range / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let digit = match rough / power {
        digit if digit < 1.5 => 1.0,
        digit if digit < 3.5 => 2.0,
        digit if digit < 7.5 => 5.0,
        _ => 10.0,
    };
    digit * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        let scale = Scale::of(axis, values.iter().copied()).expect("there are values");
        scale.ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&Axis::linear("x"), &[3.0, 9.7]), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(&Axis::log("x"), &[3.0, 9.7]), ["1", "2", "5", "10"]);
        assert_eq!(labels(&Axis::log("x"), &[0.2, 9.7e2]), ["0.1", "1", "10", "100", "1\u{202F}000"]);
    }

    #[test]
    fn ends_hold_all_values() {
        for axis in [Axis::linear("x"), Axis::log("x")] {
            for values in [&[1.0][..], &[7.0, 7.0], &[1e-300, 1e300], &[f64::MAX, 5.0], &[4.0, f64::NAN]] {
                let scale = Scale::of(&axis, values.iter().copied()).expect("there are values");
                assert!(scale.low.is_finite() && scale.high.is_finite() && scale.low < scale.high);
                assert!((2..50).contains(&scale.ticks.len()), "{} ticks", scale.ticks.len());
            }
        }
    }

    #[test]
    fn a_logarithmic_axis_has_no_place_for_nothing() {
        assert!(Scale::of(&Axis::log("x"), [0.0, -1.0].into_iter()).is_none());
        assert!(Scale::of(&Axis::linear("x"), std::iter::empty()).is_none());
    }

    #[test]
    fn places_are_shares() {
        let scale = Scale::of(&Axis::log("x"), [1.0, 100.0].into_iter()).expect("there are values");
        assert!((scale.share(10.0) - 0.5).abs() < 1e-12);
        assert_eq!(scale.share(f64::INFINITY), 0.0);
        assert_eq!(scale.share(1e9), 1.0);
    }
}
