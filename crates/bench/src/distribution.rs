//! Which object an access goes to.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::rng::{Rng, mix};

/// Exponent of the Zipf distribution, as in YCSB.
pub const ZIPF_EXPONENT: f64 = 0.99;
/// One object of this many is hot under [`Distribution::ScatteredHot`].
pub const HOT_SPACING: u64 = 100;
/// Percent of the accesses that go to hot objects.
pub const HOT_ACCESS_PERCENT: u64 = 90;

/// The distributions of the micro-benchmark.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Every object equally often.
    Uniform,
    /// Zipf with exponent 0.99; the ranks are scattered over the array.
    Zipf,
    /// 1 % of the objects, one at a random place in each hundred, get 90 % of the accesses.
    ScatteredHot,
    /// One object after the other; each thread begins at a place of its own.
    Sequential,
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::ScatteredHot => "scattered-hot",
            Self::Sequential => "sequential",
        })
    }
}

/// Draws object numbers; set up in constant time, copied to each thread.
#[derive(Clone, Copy, Debug)]
pub struct Picker {
    count: u64,
    shape: Shape,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Uniform,
    Zipf(Zipf, Scatter),
    ScatteredHot,
    /// The next object, once the first has been drawn.
    Sequential(Option<u64>),
}

impl Picker {
    /// A picker of numbers from 0 to `count - 1`; `count` is at least [`HOT_SPACING`].
    pub fn new(distribution: Distribution, count: u64) -> Self {
        assert!(count >= HOT_SPACING, "{count} objects are too few to have hot ones");
        let shape = match distribution {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Zipf => Shape::Zipf(Zipf::new(ZIPF_EXPONENT, count), Scatter::new(count)),
            Distribution::ScatteredHot => Shape::ScatteredHot,
            Distribution::Sequential => Shape::Sequential(None),
        };
        Self { count, shape }
    }

    /// The next object.
    #[inline]
    pub fn pick(&mut self, rng: &mut Rng) -> u64 {
        match &mut self.shape {
            Shape::Uniform => rng.below(self.count),
            Shape::Zipf(zipf, scatter) => scatter.apply(zipf.rank(rng)),
            Shape::ScatteredHot if rng.below(100) < HOT_ACCESS_PERCENT => {
                hot_object(rng.below(self.count / HOT_SPACING))
            }
            Shape::ScatteredHot => rng.below(self.count),
            Shape::Sequential(next) => {
                let object = next.unwrap_or_else(|| rng.below(self.count));
                *next = Some(if object + 1 < self.count { object + 1 } else { 0 });
                object
            }
        }
    }
}

/// The hot object of the `group`-th hundred.
#[inline]
fn hot_object(group: u64) -> u64 {
    group * HOT_SPACING + mix(group) % HOT_SPACING
}

/// Zipf ranks by rejection-inversion (Hoermann and Derflinger 1996): exact, and unlike the method
/// of Gray et al. it needs no sum over all objects first.
///
/// The density x^-s is inverted over [1/2, count + 1/2]; a draw is rejected where that area exceeds
/// the probability of the rank it rounds to.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    exponent: f64,
    count: f64,
    area_first: f64,
    area_last: f64,
    accept_within: f64,
}

impl Zipf {
    /// Ranks of `count` objects; the exponent is positive and not 1.
    pub fn new(exponent: f64, count: u64) -> Self {
        assert!(exponent > 0.0 && exponent != 1.0, "the integral below is not the one of 1/x");
        let mut zipf =
            Self { exponent, count: count as f64, area_first: 0.0, area_last: 0.0, accept_within: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(zipf.count + 0.5);
        zipf.accept_within = 2.0 - zipf.area_inverse(zipf.area(2.5) - 2f64.powf(-exponent));
        zipf
    }

    /// Integral of x^-s, up to a constant.
    fn area(&self, x: f64) -> f64 {
        x.powf(1.0 - self.exponent) / (1.0 - self.exponent)
    }

    fn area_inverse(&self, area: f64) -> f64 {
        (area * (1.0 - self.exponent)).powf(1.0 / (1.0 - self.exponent))
    }

    /// A rank from 0, the most frequent one.
    #[inline]
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.area_first + rng.unit() * (self.area_last - self.area_first);
            let x = self.area_inverse(area);
            let rank = x.round().clamp(1.0, self.count);
            if rank - x <= self.accept_within || area >= self.area(rank + 0.5) - rank.powf(-self.exponent) {
                return rank as u64 - 1;
            }
        }
    }
}

/// A fixed pseudo-random permutation of 0 to `count - 1`, so that neighbours in rank are not
/// neighbours in memory.
///
/// Each step is invertible on words of `bits` bits; results beyond `count` are permuted again until
/// they fall inside, which keeps the whole a permutation.
#[derive(Clone, Copy, Debug)]
struct Scatter {
    count: u64,
    bits: u32,
    mask: u64,
}

impl Scatter {
    fn new(count: u64) -> Self {
        let bits = (64 - (count - 1).leading_zeros()).max(2);
        Self { count, bits, mask: u64::MAX >> (64 - bits) }
    }

    #[inline]
    fn apply(&self, index: u64) -> u64 {
        let mut word = index;
        loop {
            for factor in [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93, 0xC2B2_AE3D_27D4_EB4F] {
                word = word.wrapping_mul(factor).wrapping_add(1) & self.mask;
                word ^= word >> (self.bits / 2);
            }
            if word < self.count {
                return word;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 10_000;
    const DRAWS: u64 = 1_000_000;

    fn histogram(distribution: Distribution) -> Vec<u64> {
        let mut picker = Picker::new(distribution, COUNT);
        let mut rng = Rng::new(42);
        let mut histogram = vec![0; COUNT as usize];
        for _ in 0..DRAWS {
            histogram[picker.pick(&mut rng) as usize] += 1;
        }
        histogram
    }

    #[test]
    fn uniform_is_flat() {
        let histogram = histogram(Distribution::Uniform);
        assert!(histogram.iter().all(|&n| (40..170).contains(&n)));
    }

    #[test]
    fn zipf_follows_its_formula() {
        let mut histogram = histogram(Distribution::Zipf);
        histogram.sort_unstable_by(|a, b| b.cmp(a));
        let zeta: f64 = (1..=COUNT).map(|rank| (rank as f64).powf(-ZIPF_EXPONENT)).sum();
        for rank in [1u64, 2, 3, 10, 100] {
            let expected = DRAWS as f64 * (rank as f64).powf(-ZIPF_EXPONENT) / zeta;
            let got = histogram[rank as usize - 1] as f64;
            assert!((got / expected - 1.0).abs() < 0.1, "rank {rank}: {got}, expected {expected}");
        }
        let top_hundred: u64 = histogram[..100].iter().sum();
        let expected: f64 = (1..=100).map(|rank| (rank as f64).powf(-ZIPF_EXPONENT)).sum::<f64>() / zeta;
        assert!((top_hundred as f64 / DRAWS as f64 - expected).abs() < 0.01);
    }

    #[test]
    fn zipf_scatters_its_hot_objects() {
        let histogram = histogram(Distribution::Zipf);
        let mut order: Vec<usize> = (0..histogram.len()).collect();
        order.sort_unstable_by_key(|&i| std::cmp::Reverse(histogram[i]));
        let mut pages: Vec<usize> = order[..50].iter().map(|i| i / 32).collect();
        pages.sort_unstable();
        pages.dedup();
        assert!(pages.len() > 35, "50 hottest objects on only {} pages", pages.len());
    }

    #[test]
    fn hot_objects_are_one_per_hundred() {
        let histogram = histogram(Distribution::ScatteredHot);
        let mut hot_total = 0;
        for (group, hundred) in histogram.chunks(HOT_SPACING as usize).enumerate() {
            let hottest = *hundred.iter().max().expect("not empty");
            assert_eq!(hundred[(hot_object(group as u64) % HOT_SPACING) as usize], hottest);
            assert_eq!(hundred.iter().filter(|&&n| n > 1000).count(), 1);
            hot_total += hottest;
        }
        let share = hot_total as f64 / DRAWS as f64;
        assert!((share - 0.901).abs() < 0.005, "{share}");
    }

    #[test]
    fn scatter_is_a_permutation() {
        for count in [100, 128, 1000, 4097] {
            let scatter = Scatter::new(count);
            let mut seen = vec![false; count as usize];
            for index in 0..count {
                assert!(!std::mem::replace(&mut seen[scatter.apply(index) as usize], true));
            }
        }
    }

    #[test]
    fn same_seed_same_objects() {
        let mut picker = Picker::new(Distribution::Zipf, 1 << 25);
        let mut draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..100).map(|_| picker.pick(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
