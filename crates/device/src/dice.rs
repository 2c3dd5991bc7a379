//! Numbers of random events.

use aquifer_base::random::Random;

/// A number of events of which `mean` are expected (Poisson), by adding up exponential intervals. Above 700 it is the mean:
/// nothing that asks can tell the difference.
pub(crate) fn poisson(dice: &mut Random, mean: f64) -> u32 {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
