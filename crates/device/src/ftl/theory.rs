//! Write amplification by formula: what a cleaner should cost under uniformly random overwrites in the steady state.
//!
//! `rho` is the over-provisioning (T - U) / U, `pages_per_block` is b. Free blocks that hold nothing are no spare: give [`effective`] of it.

use super::options::FtlOptions;
use super::victim::VictimPolicy;

/// Over-provisioning without `idle_blocks` of `blocks`, which hold nothing.
#[must_use]
pub fn effective(rho: f64, blocks: f64, idle_blocks: f64) -> f64 {
    (1.0 + rho) * (blocks - idle_blocks) / blocks - 1.0
}

/// Over-provisioning when only a share of the user pages is in use: the rest was trimmed, or never written.
#[must_use]
pub fn at_fill(rho: f64, share: f64) -> f64 {
    (1.0 + rho) / share - 1.0
}

/// The share of user pages in use when a request is a trim of a random page in use with probability `q` below 1/2, and a write of a random page
/// otherwise (Frankie, Hughes, Kreutz-Delgado 2012).
#[must_use]
pub fn share_in_use(q: f64) -> f64 {
    (1.0 - 2.0 * q) / (1.0 - q)
}

/// Write amplification of a policy, if there is a formula: there is none for cost-benefit.
#[must_use]
pub fn write_amplification(options: &FtlOptions, rho: f64, pages_per_block: u32) -> Option<f64> {
    match options.victim {
        VictimPolicy::Random => Some(random(rho)),
        VictimPolicy::Fifo => Some(fifo(rho)),
        VictimPolicy::Greedy => Some(greedy(rho, pages_per_block)),
        VictimPolicy::Choices(count) => Some(choices(rho, pages_per_block, count)),
        VictimPolicy::CostBenefit => None,
    }
}

/// Victims at random.
#[must_use]
pub fn random(rho: f64) -> f64 {
    (1.0 + rho) / rho
}

/// Victims in the order of filling, any b; also greedy with very large blocks: A = 1 / (1 - exp(-(1 + rho) / A)) (Desnoyers 2014).
#[must_use]
pub fn fifo(rho: f64) -> f64 {
    fifo_classes(rho, &[(1.0, 1.0)])
}

/// As [`fifo`] when pages are of several classes in one frontier, each with its share of the user pages and of the writes.
#[must_use]
pub fn fifo_classes(rho: f64, classes: &[(f64, f64)]) -> f64 {
    let alpha = 1.0 + rho;
    let amplification = |a: f64| -> f64 {
        classes.iter().map(|&(space, writes)| writes / -(-writes * alpha / (space * a)).exp_m1()).sum()
    };
    // The right side grows more slowly than a, from above it at 1 to below it.
    bisect(1.0, 1e6, |a| amplification(a) > a)
}

/// The fewest valid pages first. The number of blocks with i valid pages is as 1/i above the fewest, m, so the sums over all blocks fix m and the
/// constant (Desnoyers 2014).
#[must_use]
pub fn greedy(rho: f64, pages_per_block: u32) -> f64 {
    let b = f64::from(pages_per_block);
    let used = 1.0 / (1.0 + rho);
    let mut harmonic = 0.0;
    for fewest in (0..pages_per_block).rev() {
        let m = f64::from(fewest);
        harmonic += 1.0 / (m + 1.0);
        let k = (b * used - m) / (b - m - m * harmonic);
        let at_fewest = 1.0 - k * harmonic;
        if k > 0.0 && (0.0..=k).contains(&(m * at_fewest)) {
            return k / used;
        }
    }
    1.0
}

/// The fewest valid pages of `count` random blocks: the mean-field limit of many blocks (Van Houdt 2013).
#[must_use]
pub fn choices(rho: f64, pages_per_block: u32, count: u32) -> f64 {
    let b = f64::from(pages_per_block);
    let used = 1.0 / (1.0 + rho);
    // With c = A x used, the share of blocks with i valid pages is (1 - S^d) c / i, where S is the share with at least i.
    let mean_valid = |c: f64| {
        let mut at_least = 0.0;
        let mut sum = 0.0;
        for i in (1..=pages_per_block).rev() {
            let i = f64::from(i);
            let share =
                bisect(0.0, 1.0 - at_least, |x| (1.0 - (at_least + x).powi(count as i32)) * c / i > x);
            at_least += share;
            sum += i * share;
        }
        sum
    };
    bisect(used, 1e6, |c| mean_valid(c) < b * used) / used
}

/// Where `is_below` changes from true to false.
fn bisect(mut low: f64, mut high: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if is_below(middle) { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(got: f64, published: f64, what: &str) {
        assert!((got - published).abs() < published * 0.0005, "{what}: {got}, published {published}");
    }

    #[test]
    fn formulas_give_the_published_values() {
        let table = [
            (0.07, 15.29, 7.817, [5.328, 7.010, 7.597]),
            (0.10, 11.00, 5.678, [4.334, 5.247, 5.562]),
            (0.28, 4.571, 2.481, [2.202, 2.403, 2.461]),
            (0.50, 3.000, 1.716, [1.585, 1.681, 1.707]),
            (1.00, 2.000, 1.255, [1.197, 1.239, 1.251]),
        ];
        for (rho, by_random, by_fifo, by_greedy) in table {
            assert_near(random(rho), by_random, "random");
            assert_near(fifo(rho), by_fifo, "FIFO");
            for (b, published) in [16, 64, 256].into_iter().zip(by_greedy) {
                assert_near(greedy(rho, b), published, &format!("greedy {rho} {b}"));
            }
        }
        for (rho, count, published) in
            [(0.1, 2, 7.318), (0.1, 5, 5.550), (0.1, 10, 5.137), (0.3, 2, 3.053), (0.3, 10, 2.302)]
        {
            assert_near(choices(rho, 32, count), published, &format!("{count} choices {rho}"));
        }
        assert_near(choices(0.1, 32, 1), 11.0, "one choice is random");
    }

    #[test]
    fn skew_fill_and_trims_give_the_published_values() {
        assert_near(fifo_classes(0.1, &[(0.2, 0.8), (0.8, 0.2)]), 6.038, "80/20");
        assert_near(fifo_classes(0.1, &[(0.1, 0.9), (0.9, 0.1)]), 6.682, "90/10");
        assert_near(share_in_use(0.2), 0.75, "share");
        assert_near(greedy(at_fill(0.1, share_in_use(0.2)), 32), 1.711, "greedy with trims");
        assert_near(fifo(at_fill(0.1, share_in_use(0.1))), 2.797, "FIFO with trims");
    }
}
