//! How flash fails: of use, and where a test plans it.

use aquifer_base::random::Random;

use super::Geometry;

/// How flash ages, and how it fails. The default never does.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Wear {
    /// Blocks that are bad from the factory, by a million.
    pub factory_bad_ppm: u32,
    /// Erases that a block stands; the one after fails. 0 for any number.
    pub erase_limit: u32,
    /// Programs that fail, by a billion.
    pub program_failures_ppb: u32,
    /// Wrong bits by bits read of a block that was never erased.
    pub bit_error_rate_fresh: f64,
    /// Wrong bits by bits read of a block at its erase limit. Between, it grows with the square of the erases.
    pub bit_error_rate_worn: f64,
    /// Wrong bits of a page that the error correction mends.
    pub correctable_bits: u32,
}

impl Wear {
    /// The mean number of wrong bits in a page of a block that was erased so often.
    pub(super) fn bit_errors_mean(&self, geometry: &Geometry, erases: u32) -> f64 {
        let age = match self.erase_limit {
            0 => 0.0,
            limit => f64::from(erases) / f64::from(limit),
        };
        let rate =
            self.bit_error_rate_fresh + (self.bit_error_rate_worn - self.bit_error_rate_fresh) * age * age;
        rate * f64::from(geometry.page_bytes) * 8.0
    }
}

/// A number of events of which `mean` are expected (Poisson), by adding up exponential intervals. Above 700 it is the mean:
/// nothing that asks can tell the difference.
pub(super) fn poisson(dice: &mut Random, mean: f64) -> u32 {
    if mean > 700.0 {
        return mean.min(f64::from(u32::MAX)) as u32;
    }
    let mut events = 0;
    let mut sum = -(1.0 - dice.unit()).ln();
    while sum < mean {
        events += 1;
        sum -= (1.0 - dice.unit()).ln();
    }
    events
}

/// Which of the next programs and erases fail, besides those that wear makes fail.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    /// How many operations succeed before each, counted from the next.
    after: Vec<u64>,
}

impl Failures {
    pub(super) fn plan(&mut self, after_operations: u64) {
        self.after.push(after_operations);
    }

    /// Counts an operation; tells whether it fails.
    pub(super) fn spend(&mut self) -> bool {
        let fails = self.after.contains(&0);
        self.after.retain(|&left| left > 0);
        self.after.iter_mut().for_each(|left| *left -= 1);
        fails
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_grow_with_erases() {
        let wear = Wear {
            erase_limit: 100,
            bit_error_rate_fresh: 1e-6,
            bit_error_rate_worn: 1e-3,
            ..Wear::default()
        };
        let mean = |erases| wear.bit_errors_mean(&Geometry::single_die(1, 1, 4096), erases);
        assert!((mean(0) - 0.032_768).abs() < 1e-9);
        assert!((mean(100) - 32.768).abs() < 1e-6);
        assert!(mean(50) > mean(0) && mean(50) < mean(100));
    }

    #[test]
    fn counts_have_the_mean_and_variance_of_poisson() {
        let mut dice = Random::new(1);
        let counts: Vec<f64> = (0..20_000).map(|_| f64::from(poisson(&mut dice, 4.0))).collect();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        assert!((mean - 4.0).abs() < 0.1 && (variance - 4.0).abs() < 0.25, "{mean} {variance}");
        assert_eq!(poisson(&mut dice, 0.0), 0);
        assert_eq!(poisson(&mut dice, 1e6), 1_000_000);
    }

    #[test]
    fn the_planned_operations_fail_and_no_others() {
        let mut failures = Failures::default();
        [3, 0, 4, 3].into_iter().for_each(|after| failures.plan(after));
        let outcome: Vec<bool> = (0..7).map(|_| failures.spend()).collect();
        assert_eq!(outcome, [true, false, false, true, true, false, false]);
    }
}
