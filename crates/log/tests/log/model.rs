//! Random histories against a map.

use std::collections::BTreeMap;

use aquifer_device::{FaultKind, FaultPlan, Operation};
use aquifer_log::victim::{CostBenefit, Greedy, VictimPolicy};
use proptest::prelude::*;

use crate::bench::{Bench, GEOMETRY, payload};

#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize),
    Free(u64),
    Clean(bool),
}

const KEYS: u64 = 50;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..KEYS, prop_oneof![1usize..40, 100usize..1200]).prop_map(|(key, len)| Step::Write(key, len)),
        2 => (0..KEYS).prop_map(Step::Free),
        1 => any::<bool>().prop_map(Step::Clean),
    ];
    proptest::collection::vec(step, 1..900)
}

fn policy(greedy: bool) -> &'static dyn VictimPolicy {
    if greedy { &Greedy } else { &CostBenefit }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_log_keeps_what_a_map_keeps(steps in steps(), greedy in any::<bool>()) {
        let mut bench = Bench::new();
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Write(key, len) => {
                    bench.make_segments_free(policy(greedy)).unwrap();
                    bench.write(key, &payload(key, len)).unwrap();
                    model.insert(key, len);
                }
                Step::Free(key) => {
                    bench.free(key);
                    model.remove(&key);
                }
                Step::Clean(greedy) => if let Some(cleaned) = bench.clean_one(policy(greedy)) {
                    cleaned.unwrap();
                }
            }
        }
        let kept: BTreeMap<u64, usize> =
            bench.places.keys().iter().map(|&key| (key, bench.places.get(key).unwrap().1)).collect();
        prop_assert_eq!(kept, model);
        bench.check_all();
    }

    /// Whatever the device does, a read gives the bytes that were written or an error.
    #[test]
    fn a_bad_device_never_makes_wrong_bytes(steps in steps(), seed in any::<u64>()) {
        let plan = FaultPlan::new(seed)
            .with_probability(Operation::Read, 0.02, FaultKind::BitFlip { bit: seed >> 7 })
            .with_probability(Operation::Read, 0.02, FaultKind::Eio)
            .with_probability(Operation::Read, 0.02, FaultKind::ShortRead)
            .with_probability(Operation::Write, 0.02, FaultKind::LostWrite)
            .with_probability(Operation::Write, 0.02, FaultKind::BitFlip { bit: seed >> 13 })
            .with_probability(Operation::Write, 0.005, FaultKind::TornWrite { keep_blocks: 2 });
        let mut bench = Bench::with(GEOMETRY, plan);
        for step in steps {
            let outcome = match step {
                Step::Write(key, len) => {
                    // Retired segments may leave too little to clean.
                    while bench.log.free_segments() <= aquifer_log::log::reserve_segments(24) + 1 {
                        if bench.greedy().is_none_or(|cleaned| cleaned.is_err()) {
                            break;
                        }
                    }
                    if bench.log.free_segments() <= aquifer_log::log::reserve_segments(24) + 1 {
                        break;
                    }
                    bench.write(key, &payload(key, len)).map(drop)
                }
                Step::Free(key) => { bench.free(key); Ok(()) }
                Step::Clean(greedy) => { let _ = bench.clean_one(policy(greedy)); Ok(()) }
            };
            if outcome.is_err() {
                break;
            }
        }
        for key in bench.places.keys() {
            let (_, len) = bench.places.get(key).unwrap();
            if let Ok(bytes) = bench.read(key) {
                prop_assert_eq!(bytes, payload(key, len));
            }
        }
        prop_assert_eq!(bench.log.segments().live_bytes_total(), bench.places.live_bytes());
    }
}
