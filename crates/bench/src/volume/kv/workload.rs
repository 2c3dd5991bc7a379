//! The six core workloads of YCSB.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::key::fnv;
use crate::distribution::{ZIPF_EXPONENT, Zipf};
use crate::rng::Rng;

/// Ranks of YCSB's scrambled distribution, which are hashed to the records that there are.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// Longest scan.
const SCAN_MAX: u64 = 100;

/// The workloads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Half reads, half updates
    A,
    /// 95 % reads, 5 % updates
    B,
    /// Reads
    C,
    /// 95 % reads of the latest records, 5 % inserts
    D,
    /// 95 % scans, 5 % inserts
    E,
    /// Half reads, half reads that are followed by an update
    F,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a client does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Read a record.
    Read(u64),
    /// Rewrite one of its fields.
    Update(u64),
    /// Read it, then rewrite a field.
    ReadModifyWrite(u64),
    /// Read a number of records.
    Scan(u64, usize),
    /// Add the next record.
    Insert,
}

/// Draws operations on a store that began with `records`.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    workload: Workload,
    records: u64,
    scrambled: Zipf,
    latest: Zipf,
}

impl Mix {
    /// Those of a workload.
    pub fn new(workload: Workload, records: u64) -> Self {
        let zipf = |count| Zipf::new(ZIPF_EXPONENT, count);
        Self { workload, records, scrambled: zipf(SCRAMBLED_ITEMS), latest: zipf(records) }
    }

    /// The next operation, when records below `present` are there.
    pub fn draw(&self, rng: &mut Rng, present: u64) -> Operation {
        let percent = rng.below(100);
        match self.workload {
            Workload::A if percent < 50 => Operation::Update(self.scrambled(rng)),
            Workload::B if percent < 5 => Operation::Update(self.scrambled(rng)),
            Workload::F if percent < 50 => Operation::ReadModifyWrite(self.scrambled(rng)),
            Workload::D | Workload::E if percent < 5 => Operation::Insert,
            Workload::D => Operation::Read(present - 1 - self.latest.rank(rng)),
            Workload::E => {
                let first = self.scrambled(rng);
                Operation::Scan(first, 1 + rng.below(SCAN_MAX) as usize)
            }
            Workload::A | Workload::B | Workload::C | Workload::F => Operation::Read(self.scrambled(rng)),
        }
    }

    fn scrambled(&self, rng: &mut Rng) -> u64 {
        fnv(self.scrambled.rank(rng)) % self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: u64 = 10_000;
    const DRAWS: u64 = 100_000;

    fn draws(workload: Workload) -> Vec<Operation> {
        let (mix, mut rng) = (Mix::new(workload, RECORDS), Rng::new(5));
        (0..DRAWS).map(|_| mix.draw(&mut rng, RECORDS + 100)).collect()
    }

    fn share(operations: &[Operation], is: impl Fn(&Operation) -> bool) -> f64 {
        operations.iter().filter(|operation| is(operation)).count() as f64 / DRAWS as f64
    }

    #[test]
    fn mixes_are_the_standards() {
        for (workload, reads, updates, modifies, scans, inserts) in [
            (Workload::A, 0.5, 0.5, 0.0, 0.0, 0.0),
            (Workload::B, 0.95, 0.05, 0.0, 0.0, 0.0),
            (Workload::C, 1.0, 0.0, 0.0, 0.0, 0.0),
            (Workload::D, 0.95, 0.0, 0.0, 0.0, 0.05),
            (Workload::E, 0.0, 0.0, 0.0, 0.95, 0.05),
            (Workload::F, 0.5, 0.0, 0.5, 0.0, 0.0),
        ] {
            let drawn = draws(workload);
            let shares = [
                (share(&drawn, |operation| matches!(operation, Operation::Read(_))), reads),
                (share(&drawn, |operation| matches!(operation, Operation::Update(_))), updates),
                (share(&drawn, |operation| matches!(operation, Operation::ReadModifyWrite(_))), modifies),
                (share(&drawn, |operation| matches!(operation, Operation::Scan(..))), scans),
                (share(&drawn, |operation| matches!(operation, Operation::Insert)), inserts),
            ];
            assert!(
                shares.iter().all(|(found, wanted)| (found - wanted).abs() < 0.01),
                "{workload}: {shares:?}"
            );
        }
    }

    #[test]
    fn the_latest_are_the_hottest_and_scans_are_of_1_to_100() {
        let latest = draws(Workload::D);
        let newest = share(&latest, |operation| *operation == Operation::Read(RECORDS + 99));
        assert!((0.08..0.12).contains(&newest), "{newest}");
        assert!(!latest.contains(&Operation::Read(RECORDS + 100)));
        let lengths: Vec<usize> = draws(Workload::E)
            .iter()
            .filter_map(
                |operation| if let Operation::Scan(_, length) = operation { Some(*length) } else { None },
            )
            .collect();
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((lengths.iter().min(), lengths.iter().max()) == (Some(&1), Some(&100)), "{lengths:?}");
        assert!((mean - 50.5).abs() < 0.5, "{mean}");
    }
}
