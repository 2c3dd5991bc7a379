//! Sizes, shares and times that vary.

use aquifer_base::random::Random;

/// What numbers are drawn from. None is negative.
#[derive(Clone, PartialEq, Debug)]
pub enum Distribution {
    /// Always the same.
    Constant(f64),
    /// Between two, all alike.
    Uniform {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// Memoryless.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// The logarithm is normal. Draws beyond the largest are the largest.
    LogNormal {
        /// Half are smaller.
        median: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// Largest.
        max: f64,
    },
    /// A power law between two bounds: few large ones make most of the sum.
    BoundedPareto {
        /// The smaller, the heavier the tail. Not 0.
        alpha: f64,
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// One of several, by weight.
    Choice(Vec<(f64, f64)>),
}

impl Distribution {
    /// A number.
    #[must_use]
    pub fn draw(&self, rng: &mut Random) -> f64 {
        match self {
            Distribution::Constant(value) => *value,
            Distribution::Uniform { min, max } => min + rng.unit() * (max - min),
            Distribution::Exponential { mean } => -mean * (1.0 - rng.unit()).ln(),
            Distribution::LogNormal { median, sigma, max } => {
                (median * (sigma * normal(rng)).exp()).min(*max)
            }
            Distribution::BoundedPareto { alpha, min, max } => {
                let (low, high) = (min.powf(-alpha), max.powf(-alpha));
                (low - rng.unit() * (low - high)).powf(-1.0 / alpha)
            }
            Distribution::Choice(weighted) => {
                let sum: f64 = weighted.iter().map(|(_, weight)| weight).sum();
                let mut left = rng.unit() * sum;
                for (value, weight) in weighted {
                    left -= weight;
                    if left < 0.0 {
                        return *value;
                    }
                }
                weighted.last().map_or(0.0, |(value, _)| *value)
            }
        }
    }

    /// Of what is met at a random moment, if these are lifetimes: a lifetime twice as long is met twice as often. Exact for constant, exponential (whose
    /// remaining part is drawn) and power-law ones; others stay as they are.
    #[must_use]
    pub fn met_at_random(&self) -> Distribution {
        match self {
            // The density gets a factor x, which takes one from the exponent.
            Distribution::BoundedPareto { alpha, min, max } => {
                Distribution::BoundedPareto { alpha: alpha - 1.0, min: *min, max: *max }
            }
            other => other.clone(),
        }
    }
}

/// Of mean 0 and deviation 1 (Box and Muller 1958).
fn normal(rng: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(distribution: &Distribution) -> Vec<f64> {
        let mut rng = Random::new(3);
        let mut draws: Vec<_> = (0..100_000).map(|_| distribution.draw(&mut rng)).collect();
        draws.sort_by(f64::total_cmp);
        draws
    }

    fn mean(draws: &[f64]) -> f64 {
        draws.iter().sum::<f64>() / draws.len() as f64
    }

    fn near(got: f64, expected: f64) -> bool {
        (got / expected - 1.0).abs() < 0.02
    }

    #[test]
    fn means_and_bounds_are_those_of_the_formulas() {
        assert_eq!(mean(&draws(&Distribution::Constant(3.0))), 3.0);
        assert!(near(mean(&draws(&Distribution::Uniform { min: 1.0, max: 3.0 })), 2.0));
        assert!(near(mean(&draws(&Distribution::Exponential { mean: 5.0 })), 5.0));
        let log_normal = draws(&Distribution::LogNormal { median: 2.0, sigma: 0.5, max: 1e9 });
        assert!(near(log_normal[50_000], 2.0) && near(mean(&log_normal), 2.0 * (0.125f64).exp()));
        let capped = draws(&Distribution::LogNormal { median: 2.0, sigma: 0.5, max: 3.0 });
        assert_eq!(capped[99_999], 3.0);
    }

    #[test]
    fn a_bounded_pareto_has_its_median_and_keeps_its_bounds() {
        let (alpha, min, max) = (1.1, 2.0, 2000.0);
        let draws = draws(&Distribution::BoundedPareto { alpha, min, max });
        let half = 0.5 * (f64::powf(min, -alpha) + f64::powf(max, -alpha));
        assert!(near(draws[50_000], half.powf(-1.0 / alpha)));
        assert!(draws[0] >= min && draws[99_999] <= max * 1.000_001);
    }

    #[test]
    fn long_lifetimes_are_met_more_often() {
        let lifetimes = Distribution::BoundedPareto { alpha: 2.5, min: 1.0, max: 1e6 };
        // E[x^2] / E[x] of a power law of 2.5 is 5 / (5 / 3); its variance is infinite, so that the bound decides a little.
        assert!((mean(&draws(&lifetimes.met_at_random())) / 3.0 - 1.0).abs() < 0.1);
        assert_eq!(Distribution::Constant(1.0).met_at_random(), Distribution::Constant(1.0));
    }

    #[test]
    fn choices_come_by_weight() {
        let draws = draws(&Distribution::Choice(vec![(1.0, 1.0), (0.5, 3.0)]));
        assert!(near(mean(&draws), 0.25 + 0.75 * 0.5));
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let distribution = Distribution::LogNormal { median: 1.0, sigma: 1.0, max: 10.0 };
        assert_eq!(draws(&distribution), draws(&distribution));
    }
}
