//! Key traces from seeds.

use aquifer_bench::rng::Rng;
use serde::{Serialize, Serializer};

/// A way of accessing keys.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Workload {
    /// Key k with a frequency proportional to 1 / k^exponent.
    Zipf { name: &'static str, exponent: f64 },
    /// 1 % of the keys get 90 % of the accesses, all keys the rest.
    ScatteredHot,
    /// Every key equally often.
    Uniform,
    /// More keys than the cache has slots, in percent of the slots: one after the other, again and again.
    Loop { name: &'static str, percent: usize },
    /// Zipf 0.99, and a quarter of the accesses are scans of keys that never come again.
    ZipfAndScans,
    /// Nine of ten accesses go to a window of 5 % of the keys, which jumps away from time to time.
    Shifting,
}

/// One-time keys per scan: as many as the cache at a data:RAM ratio of 16 has slots.
const SCAN_PER_1000_KEYS: usize = 62;
/// Zipf accesses between scans, in lengths of a scan.
const SCAN_GAP: usize = 3;
/// The window of a shifting working set, in percent of the keys.
const WINDOW_PERCENT: usize = 5;
/// Accesses before the window jumps, per key in it.
const WINDOW_LIFE: usize = 10;

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Workload {
    /// In the order of the table.
    pub const ALL: [Self; 8] = [
        Self::Zipf { name: "zipf-0.99", exponent: 0.99 },
        Self::Zipf { name: "zipf-0.8", exponent: 0.8 },
        Self::ScatteredHot,
        Self::Uniform,
        Self::Loop { name: "loop of 1.25 x cache", percent: 125 },
        Self::Loop { name: "loop of 2 x cache", percent: 200 },
        Self::ZipfAndScans,
        Self::Shifting,
    ];

    /// As in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zipf { name, .. } | Self::Loop { name, .. } => name,
            Self::ScatteredHot => "scattered-hot",
            Self::Uniform => "uniform",
            Self::ZipfAndScans => "zipf-0.99 + scans",
            Self::Shifting => "shifting",
        }
    }

    /// `accesses` keys. Those below `keys` may come again; a scan's come once and lie above.
    pub fn trace(self, keys: usize, slots: usize, accesses: usize, seed: u64) -> Vec<u32> {
        let mut random = Rng::new(seed);
        let pick = |random: &mut Rng, below: usize| random.below(below as u64) as u32;
        match self {
            Self::Zipf { exponent, .. } => {
                let zipf = Zipf::new(keys, exponent);
                (0..accesses).map(|_| zipf.pick(&mut random)).collect()
            }
            Self::ScatteredHot => (0..accesses)
                .map(|_| {
                    let below = if pick(&mut random, 10) < 9 { keys / 100 } else { keys };
                    pick(&mut random, below)
                })
                .collect(),
            Self::Uniform => (0..accesses).map(|_| pick(&mut random, keys)).collect(),
            Self::Loop { percent, .. } => {
                (0..accesses).map(|access| (access % (slots * percent / 100)) as u32).collect()
            }
            Self::ZipfAndScans => with_scans(&Zipf::new(keys, 0.99), keys, accesses, &mut random),
            Self::Shifting => shifting(keys, accesses, &mut random),
        }
    }
}

fn with_scans(zipf: &Zipf, keys: usize, accesses: usize, random: &mut Rng) -> Vec<u32> {
    let scan = keys * SCAN_PER_1000_KEYS / 1000;
    let mut once = keys as u32..;
    (0..accesses)
        .map(|access| match access % ((SCAN_GAP + 1) * scan) < SCAN_GAP * scan {
            true => zipf.pick(random),
            false => once.next().unwrap_or(u32::MAX),
        })
        .collect()
}

fn shifting(keys: usize, accesses: usize, random: &mut Rng) -> Vec<u32> {
    let window = keys * WINDOW_PERCENT / 100;
    let mut start = 0;
    (0..accesses)
        .map(|access| {
            if access % (WINDOW_LIFE * window) == 0 {
                start = random.below(keys as u64) as usize;
            }
            match random.below(10) {
                0 => random.below(keys as u64) as u32,
                _ => ((start + random.below(window as u64) as usize) % keys) as u32,
            }
        })
        .collect()
}

/// Zipf ranks by the alias method (Walker 1977, tables after Vose 1991): exact, one look-up per number.
struct Zipf {
    /// Probability of keeping the rank drawn, and the rank to take if it is not kept.
    table: Vec<(f64, u32)>,
}

impl Zipf {
    fn new(keys: usize, exponent: f64) -> Self {
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-exponent);
        let mean = (0..keys).map(weight).sum::<f64>() / keys as f64;
        let mut table: Vec<_> = (0..keys).map(|rank| (weight(rank) / mean, rank as u32)).collect();
        // Weights fall with the rank, so the heavy ranks are the first ones: each gives of its surplus
        // to the light ranks until it is light itself.
        let first_light = table.partition_point(|&(share, _)| share >= 1.0);
        let (mut heavy, mut light) = (0, first_light);
        while heavy < first_light && light < keys {
            let missing = 1.0 - table[light].0;
            table[light].1 = heavy as u32;
            light += 1;
            table[heavy].0 -= missing;
            while heavy + 1 < first_light && table[heavy].0 < 1.0 {
                table[heavy + 1].0 -= 1.0 - table[heavy].0;
                table[heavy].1 = heavy as u32 + 1;
                heavy += 1;
            }
        }
        Self { table }
    }

    fn pick(&self, random: &mut Rng) -> u32 {
        let rank = random.below(self.table.len() as u64) as u32;
        let (kept, other) = self.table[rank as usize];
        if random.unit() < kept { rank } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: usize = 1000;
    const ACCESSES: usize = 400_000;

    fn shares(workload: Workload) -> Vec<f64> {
        let mut counts = vec![0.0; KEYS];
        let trace = workload.trace(KEYS, 50, ACCESSES, 1);
        trace.iter().filter(|&&key| (key as usize) < KEYS).for_each(|&key| counts[key as usize] += 1.0);
        counts.iter().map(|count| count / ACCESSES as f64).collect()
    }

    #[test]
    fn zipf_has_its_frequencies() {
        for exponent in [0.8, 0.99] {
            let shares = shares(Workload::Zipf { name: "", exponent });
            let all: f64 = (1..=KEYS).map(|rank| (rank as f64).powf(-exponent)).sum();
            for rank in [1, 2, 3, 10, 30, 100] {
                let expected = (rank as f64).powf(-exponent) / all;
                let got = shares[rank - 1];
                assert!((got / expected - 1.0).abs() < 0.15, "rank {rank}: {got} for {expected}");
            }
            let tail: f64 = (501..=KEYS).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>() / all;
            let got: f64 = shares[500..].iter().sum();
            assert!((got / tail - 1.0).abs() < 0.03, "tail: {got} for {tail}");
        }
    }

    #[test]
    fn scattered_hot_is_hot_in_one_percent() {
        let hot: f64 = shares(Workload::ScatteredHot)[..KEYS / 100].iter().sum();
        assert!((hot - 0.901).abs() < 0.01, "{hot}");
    }

    #[test]
    fn scanned_keys_come_once() {
        let trace = Workload::ZipfAndScans.trace(KEYS, 50, ACCESSES, 1);
        let mut scanned: Vec<u32> = trace.into_iter().filter(|&key| key as usize >= KEYS).collect();
        assert!((scanned.len() as f64 / ACCESSES as f64 - 0.25).abs() < 0.01);
        let count = scanned.len();
        scanned.dedup();
        assert_eq!(scanned.len(), count);
    }

    #[test]
    fn every_workload_has_its_length_and_depends_on_its_seed() {
        for workload in Workload::ALL {
            let trace = |seed| workload.trace(KEYS, 50, 5000, seed);
            assert_eq!(trace(1).len(), 5000);
            assert_eq!(trace(1), trace(1));
            assert!(matches!(workload, Workload::Loop { .. }) || trace(1) != trace(2), "{}", workload.name());
        }
    }
}
