//! Programs of one thread, with several crashes in a row.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use aquifer_base::HomeAddress;
use aquifer_durable::{Durability, DurableHeap, Error, Result, Tuning};

use crate::durable::{How, KINDS, SHAPE, any_crash, clean, image, machine, open, reopen};
use crate::hits::{Hits, Kind};
use crate::landing::Landing;
use crate::machine::{Crash, Machine, is_crash, mix};
use crate::memory::Medium;
use crate::program::Program;
use crate::verdict::{Before, Counts};

/// An object whose partitions fill two parts of a checkpoint at least.
const PARTITIONS_BYTES: u64 = 12 << 20;
/// Copies that are damaged of what each cut of a program leaves: of every third program.
pub fn damages(seed: u64) -> u64 {
    match seed % 3 {
        1 if crate::are_many() => 4,
        1 => 2,
        _ => 0,
    }
}

/// How often a thread makes commits durable that do not wait.
pub const INTERVAL: Duration = Duration::from_micros(300);

/// How a program runs.
struct Run<F> {
    seed: u64,
    medium: Medium,
    /// How in each round.
    how: F,
    /// Transactions until the machine is started again without a crash.
    steps: u64,
}

/// What a program keeps beside its objects.
#[derive(Clone, Copy, Default)]
struct Extras {
    /// The number of its last transaction, if commits do not wait in some rounds.
    number: Option<HomeAddress>,
}

impl<F: Fn(u64) -> How> Run<F> {
    /// Returns what its crashes have hit.
    fn run(&self, crashes: impl Iterator<Item = Crash>) -> Hits {
        self.run_with_damage(crashes, 0).0
    }

    /// As [`Run::run`], with `damages` to copies of what each cut leaves; returns how these ended, too.
    fn run_with_damage(&self, crashes: impl Iterator<Item = Crash>, damages: u64) -> (Hits, Counts) {
        let crashes: Vec<_> = crashes.collect();
        let hows: Vec<_> = (0..crashes.len() as u64).map(&self.how).collect();
        let machine = machine(self.medium, hows.iter().any(|how| how.cleans_ahead));
        let (mut program, mut extras) = (Program::new(self.seed, SHAPE), Extras::default());
        let mut counts = Counts::default();
        if damages > 0 {
            machine.with_memory(0, |memory| memory.remember_writes());
        }
        if hows.iter().any(|how| how.durability != Durability::Sync) {
            machine.start(None);
            let heap = open(&machine, How::default()).expect("a heap");
            extras.number = Some(heap.transaction(|tx| tx.alloc(8)).expect("room"));
        }
        for (round, (crash, how)) in crashes.into_iter().zip(hows).enumerate() {
            let context =
                |error: &dyn Display| format!("program {}, round {round}, {crash:?}: {error}", self.seed);
            machine.start(Some(crash));
            if let Err(error) = self.go(&machine, how, &mut program, extras) {
                // After the crash the cleaner may find a header that it took away itself; and another thread may have met it first.
                let has_threads = how.cleans_ahead || matches!(how.durability, Durability::Group(_));
                let is_expected = is_crash(&error) || has_threads && machine.is_down();
                assert!(is_expected, "{}", context(&error));
            }
            let how = How { checkpoints: how.checkpoints && round % 3 != 2, ..How::default() };
            let cut = (damages > 0 && !crash.is_kill).then(|| image(&machine, true));
            let heap = settle(&machine, how, &mut program, extras)
                .unwrap_or_else(|error| panic!("{}", context(&error)));
            if let Some(cut) = cut {
                let before = Before::new(&cut, &machine, &heap);
                let seeds = (0..damages).map(|n| mix(mix(self.seed << 8 | round as u64) ^ n));
                let history = &program.model.history;
                seeds.for_each(|seed| counts += before.judge(seed, history, |error| context(&error)));
            }
            drop(heap);
            if crash.is_kill {
                // What was shown is durable.
                settle(&machine, how, &mut program, extras)
                    .unwrap_or_else(|error| panic!("cut after a kill, {}", context(&error)));
            }
        }
        (machine.hits(), counts)
    }

    fn go(&self, machine: &Arc<Machine>, how: How, program: &mut Program, extras: Extras) -> Result<()> {
        let heap = open(machine, how)?;
        if how.checkpoints && program.committed == 0 {
            heap.transaction(|tx| {
                let home = tx.alloc(PARTITIONS_BYTES)?;
                program.model.add_other(home, PARTITIONS_BYTES as usize);
                Ok(())
            })?;
        }
        for _ in 0..self.steps {
            let number = program.committed + 1;
            program.step(&heap, &mut |tx| extras.number.map_or(Ok(()), |home| tx.store_u64(home, number)))?;
            if how.durability == Durability::Sync {
                program.keep(program.committed);
            } else if program.below(30) == 0 {
                heap.sync()?;
                program.keep(program.committed);
            }
            if program.below(100) == 0 || program.is_draining() && program.below(20) == 0 {
                clean(&heap)?;
            }
            if how.checkpoints && program.below(50) == 0 {
                heap.checkpoint()?;
            }
        }
        Ok(())
    }
}

/// Finds out how far a program came, and whether that is right.
fn settle(
    machine: &Arc<Machine>,
    how: How,
    program: &mut Program,
    extras: Extras,
) -> std::result::Result<DurableHeap, String> {
    let named = |error: Error| error.to_string();
    let heap = reopen(machine, how).map_err(named)?;
    match extras.number {
        None => program.settle(&heap)?,
        Some(home) => {
            program.settle_at(heap.transaction(|tx| tx.load_u64(home)).map_err(named)?)?;
            program.model.check(&heap)?;
        }
    }
    Ok(heap)
}

/// How a long program goes on in a round.
fn how(seed: u64, round: u64) -> How {
    let durability = match (seed / 8 % 4, round % 3) {
        (0 | 1, _) | (3, 1) => Durability::Sync,
        (2, 1) | (3, 2) => Durability::Group(INTERVAL),
        _ => Durability::Relaxed,
    };
    How { cleans_ahead: seed % 4 == 3, checkpoints: seed % 8 < 6, durability, ..How::default() }
}

/// What a long program runs on.
pub fn medium(seed: u64) -> Medium {
    if mix(seed).is_multiple_of(2) { Medium::Flash } else { Medium::Memory }
}

#[test]
fn at_every_operation_of_short_programs() {
    let mut hits = Hits::default();
    for (seed, at) in (0..6).flat_map(|seed| (1..40).map(move |at| (seed, at))) {
        // Some ways for the last one to land.
        for way in 0..4 {
            let landing = Landing::Seed(mix(seed << 8 ^ at << 4 ^ way));
            let crash = Crash { at, of: None, under_way: 1, landing, is_kill: false };
            let how = |_| How { checkpoints: seed % 2 == 0, ..How::default() };
            let medium = if way % 2 == 0 { Medium::Memory } else { Medium::Flash };
            hits += Run { seed, medium, how, steps: 25 }.run(std::iter::once(crash));
        }
    }
    hits.expect(&[Kind::Superblock, Kind::Value, Kind::Header, Kind::Commit, Kind::Grow, Kind::Opening]);
}

#[test]
fn in_long_programs() {
    let (mut hits, mut counts) = (Hits::default(), Counts::default());
    for seed in crate::seeds() {
        // Some soon after the last one, and so in what a heap does first.
        let operations = |round| if round % 2 == 1 { 8 } else { 1000 };
        let crash =
            |round| any_crash(mix(seed << 8 | round), operations(round), 1, how(seed, round).durability);
        let run = Run { seed: 1000 + seed, medium: medium(seed), how: |round| how(seed, round), steps: 600 };
        let (hit, counted) = run.run_with_damage((0..6).map(crash), damages(seed));
        hits += hit;
        counts += counted;
    }
    println!("{hits:?}, {counts:?}");
    counts.expect_all();
    hits.expect(&KINDS);
    hits.expect(&[Kind::Sync]);
}

#[test]
fn in_programs_without_an_optimisation() {
    let mut hits = Hits::default();
    for seed in 0..crate::programs() / 4 {
        for tuning in Tuning::WITHOUT_ONE.into_iter().chain([Tuning::NONE]) {
            let crashes = (0..3).map(|round| any_crash(mix(seed << 16 | round), 1000, 1, Durability::Sync));
            let how = |_| How { tuning, ..How::default() };
            hits += Run { seed: 5000 + seed, medium: medium(seed), how, steps: 300 }.run(crashes);
        }
    }
    hits.expect(&[Kind::Header, Kind::Commit, Kind::Copy, Kind::Grow]);
}
