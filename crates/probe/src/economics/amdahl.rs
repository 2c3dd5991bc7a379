//! Speed-up when a part gets faster.

/// How much faster a whole becomes when a `share` of its time, 0 to 1, is spent in what becomes `factor` times faster:
/// 1 / ((1 - share) + share / factor). Source: Amdahl, AFIPS 1967.
#[must_use]
pub fn speed_up(share: f64, factor: f64) -> f64 {
    1.0 / ((1.0 - share) + share / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits() {
        assert_eq!(speed_up(0.0, 10.0), 1.0);
        assert_eq!(speed_up(1.0, 10.0), 10.0);
        assert_eq!(speed_up(0.5, f64::INFINITY), 2.0);
    }
}
