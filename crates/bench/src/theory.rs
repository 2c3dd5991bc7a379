//! Write amplification of a log that is cleaned, by formula.

/// Header of a record in the log.
pub const RECORD_HEADER_BYTES: u64 = 8;

/// Bytes that a record of `object_bytes` takes in the log, per byte of the object.
pub fn record_overhead(object_bytes: u64) -> f64 {
    (object_bytes + RECORD_HEADER_BYTES) as f64 / object_bytes as f64
}

/// Bytes written per byte that the writer appends, for a log that live records fill to `fill`
/// (0 to 1, exclusive), in the steady state of uniform random overwrites with FIFO or, for large
/// segments, greedy cleaning: the solution of A = 1 / (1 - exp(-1 / (fill A))) (Desnoyers 2012).
pub fn write_amplification(fill: f64) -> f64 {
    assert!(fill > 0.0 && fill < 1.0, "fill {fill} is not between 0 and 1");
    // a (1 - exp(-1 / (fill a))) grows with a, is below 1 at a = 1 and tends to 1 / fill > 1, so
    // there is one solution and bisection finds it.
    let excess = |a: f64| -a * (-1.0 / (fill * a)).exp_m1() - 1.0;
    let (mut low, mut high) = (1.0, 2.0);
    while excess(high) < 0.0 {
        high *= 2.0;
    }
    for _ in 0..64 {
        let middle = 0.5 * (low + high);
        if excess(middle) < 0.0 { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published values, given by over-provisioning rho = (1 - fill) / fill.
    #[test]
    fn agrees_with_published_values() {
        for (rho, expected) in [(0.05, 10.672), (0.1, 5.678), (0.3, 2.364), (0.5, 1.716), (1.0, 1.255)] {
            let got = write_amplification(1.0 / (1.0 + rho));
            assert!((got - expected).abs() < 0.001, "rho {rho}: {got}, expected {expected}");
        }
        assert!((write_amplification(0.67) - 1.73).abs() < 0.005);
    }

    #[test]
    fn a_log_with_room_is_hardly_amplified() {
        assert!(write_amplification(0.01) < 1.0001);
    }

    #[test]
    fn small_objects_pay_for_their_header() {
        assert_eq!(record_overhead(128), 136.0 / 128.0);
    }
}
