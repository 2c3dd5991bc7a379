//! Programs of one thread, with several crashes in a row.

use std::fmt::Display;
use std::sync::Arc;

use aquifer_durable::{Result, Tuning};

use crate::durable::{How, KINDS, SHAPE, any_crash, clean, machine, open, reopen};
use crate::hits::{Hits, Kind};
use crate::landing::Landing;
use crate::machine::{Crash, Machine, is_crash, mix};
use crate::program::Program;

/// An object whose partitions fill two parts of a checkpoint at least.
const PARTITIONS_BYTES: u64 = 12 << 20;

/// How a program runs.
struct Run {
    seed: u64,
    how: How,
    /// Transactions until the machine is started again without a crash.
    steps: u64,
}

impl Run {
    /// Returns what its crashes have hit.
    fn run(&self, crashes: impl Iterator<Item = Crash>) -> Hits {
        let machine = machine(self.how.cleans_ahead);
        let mut program = Program::new(self.seed, SHAPE);
        for (round, crash) in crashes.enumerate() {
            let context =
                |error: &dyn Display| format!("program {}, round {round}, {crash:?}: {error}", self.seed);
            machine.start(Some(crash));
            if let Err(error) = self.go(&machine, &mut program) {
                // After the crash the cleaner may find a header that it took away itself.
                let is_expected = is_crash(&error) || self.how.cleans_ahead && machine.is_down();
                assert!(is_expected, "{}", context(&error));
            }
            let heap = reopen(&machine, self.how.checkpoints && round % 3 != 2)
                .unwrap_or_else(|error| panic!("{}", context(&error)));
            program.settle(&heap).unwrap_or_else(|error| panic!("{}", context(&error)));
        }
        machine.hits()
    }

    fn go(&self, machine: &Arc<Machine>, program: &mut Program) -> Result<()> {
        let heap = open(machine, self.how)?;
        if self.how.checkpoints && program.committed == 0 {
            heap.transaction(|tx| {
                program.model.others.push((tx.alloc(PARTITIONS_BYTES)?, PARTITIONS_BYTES as usize));
                Ok(())
            })?;
        }
        for _ in 0..self.steps {
            program.step(&heap, &mut |_| Ok(()))?;
            if program.below(100) == 0 || program.is_draining() && program.below(20) == 0 {
                clean(&heap)?;
            }
            if self.how.checkpoints && program.below(50) == 0 {
                heap.checkpoint()?;
            }
        }
        Ok(())
    }
}

#[test]
fn at_every_operation_of_short_programs() {
    let mut hits = Hits::default();
    for (seed, at) in (0..6).flat_map(|seed| (1..40).map(move |at| (seed, at))) {
        // Some ways for the last one to land.
        for way in 0..4 {
            let landing = Landing::Seed(mix(seed << 8 ^ at << 4 ^ way));
            let crash = Crash { at, of: None, under_way: 1, landing };
            let how = How { checkpoints: seed % 2 == 0, ..How::default() };
            hits += Run { seed, how, steps: 25 }.run(std::iter::once(crash));
        }
    }
    hits.expect(&[Kind::Superblock, Kind::Header, Kind::Commit, Kind::Grow, Kind::Opening]);
}

#[test]
fn in_long_programs() {
    let mut hits = Hits::default();
    for seed in crate::seeds() {
        // Some soon after the last one, and so in what a heap does first.
        let operations = |round| if round % 2 == 1 { 8 } else { 1000 };
        let crashes = (0..6).map(|round| any_crash(mix(seed << 8 | round), operations(round), 1));
        let how = How { cleans_ahead: seed % 4 == 3, checkpoints: seed % 8 < 6, ..How::default() };
        hits += Run { seed: 1000 + seed, how, steps: 600 }.run(crashes);
    }
    println!("{hits:?}");
    hits.expect(&KINDS);
}

#[test]
fn in_programs_without_an_optimisation() {
    let mut hits = Hits::default();
    for seed in 0..crate::programs() / 4 {
        for tuning in Tuning::WITHOUT_ONE.into_iter().chain([Tuning::NONE]) {
            let crashes = (0..3).map(|round| any_crash(mix(seed << 16 | round), 1000, 1));
            let how = How { tuning, ..How::default() };
            hits += Run { seed: 5000 + seed, how, steps: 300 }.run(crashes);
        }
    }
    hits.expect(&[Kind::Header, Kind::Commit, Kind::Copy, Kind::Grow]);
}
