//! Random numbers that come again with the same seed.

/// splitmix64 (Steele, Lea and Flood 2014), 64 bits of state.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound - 1`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A number of events of which `mean` are expected (Poisson), by adding up exponential intervals. Above 700 it is the mean:
    /// nothing that asks can tell the difference.
    pub(crate) fn poisson(&mut self, mean: f64) -> u32 {
        if mean > 700.0 {
            return mean.min(f64::from(u32::MAX)) as u32;
        }
        let mut events = 0;
        let mut sum = -(1.0 - self.unit()).ln();
        while sum < mean {
            events += 1;
            sum -= (1.0 - self.unit()).ln();
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_the_mean_and_variance_of_poisson() {
        let mut dice = Dice::new(1);
        let counts: Vec<f64> = (0..20_000).map(|_| f64::from(dice.poisson(4.0))).collect();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        assert!((mean - 4.0).abs() < 0.1 && (variance - 4.0).abs() < 0.25, "{mean} {variance}");
        assert_eq!(dice.poisson(0.0), 0);
        assert_eq!(dice.poisson(1e6), 1_000_000);
    }
}
