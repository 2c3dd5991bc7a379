//! The short form of the soak: a fixed number of operations, a quarter of it where debug assertions check each of them.

use aquifer::{Faults, Options};
use aquifer_soak::{Config, OBJECT_BYTES_MEAN, Outcome, run};

const RAM_BYTES: u64 = 16 << 20;
/// Data in units of the RAM budget.
const RATIO: u64 = 5;
/// What is filled by then, in the same units.
const FILLED: u64 = if cfg!(debug_assertions) { 2 } else { 4 };
/// Operations are divided by this.
const SHORTENED: u64 = if cfg!(debug_assertions) { 4 } else { 1 };

fn config(operations: u64, seed: u64) -> Config {
    let data = RAM_BYTES * RATIO;
    Config {
        options: Options::new().ram_bytes(RAM_BYTES).flash_bytes(data / 2 * 3),
        operations,
        threads: 8,
        objects: (data / OBJECT_BYTES_MEAN) as usize,
        seed,
        operations_per_phase: operations / 10,
        time_limit: None,
    }
}

fn agrees(config: &Config) -> Outcome {
    let outcome = run(config, &|_| {}).expect("the heap opens");
    println!("{outcome}");
    assert_eq!(outcome.differences, 0);
    assert_eq!(outcome.operations, config.operations);
    assert!(outcome.stats.object_bytes > FILLED * RAM_BYTES, "{outcome}");
    assert!(outcome.ram_bytes_max <= RAM_BYTES, "{outcome}");
    outcome
}

#[test]
fn heap_and_model_agree() {
    let outcome = agrees(&config(3_000_000 / SHORTENED, 1));
    assert!(outcome.stats.segments_cleaned > 0, "{outcome}");
}

#[test]
fn they_agree_with_fault_threads() {
    let mut config = config(if cfg!(debug_assertions) { 100_000 } else { 300_000 }, 2);
    config.options = config.options.faults(Faults::Thread);
    agrees(&config);
}
