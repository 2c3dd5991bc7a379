//! The command lines of the programs, and their share of RAM.

use std::path::PathBuf;
use std::process::Command;

use super::below::Below;
use super::mix::Mix;
use super::options::FarOptions;
use super::peer::Peer;
use super::program::Program;
use crate::donors::flash_bytes;
use crate::error::{Error, Result};
use crate::memcached::command::LISTS;
use crate::programs::Programs;

/// memcached makes its table larger once there are more items than 3/2 of its buckets.
const ITEMS_PER_2_BUCKETS_MAX: u64 = 3;
const HASH_POWER_MIN: u32 = 16;
/// What a program under `aquifer run` has beside `--ram`: small blocks, code, kernel memory. SQLite has most, nearly 7 MiB.
const OUTSIDE_BYTES: u64 = 7 << 20;

/// One run that is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// What runs.
    pub program: Program,
    /// On what.
    pub peer: Peer,
    /// Percent of its memory that is local.
    pub share: u64,
}

/// What the run with everything local has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measure {
    /// The most memory that the program had.
    pub peak_bytes: u64,
    /// Rounds that it did.
    pub rounds: Option<u64>,
    /// What came of them.
    pub digest: Option<u64>,
}

/// How a cell is run.
#[derive(Debug)]
pub struct Launch<'a> {
    /// What is given on the command line.
    pub options: &'a FarOptions,
    /// Where the programs are.
    pub programs: &'a Programs,
    /// The file with the graph.
    pub graph: Option<&'a PathBuf>,
    /// What.
    pub cell: Cell,
    /// None for the first local run.
    pub measure: Option<Measure>,
}

impl Launch<'_> {
    /// What is local of the program's memory; none if everything is.
    fn local_bytes(&self) -> Option<u64> {
        let measure = self.measure.filter(|_| self.cell.peer != Peer::Local)?;
        Some((measure.peak_bytes * self.cell.share / 100).next_multiple_of(4096))
    }

    /// Limit of its control group, the same for all peers.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.local_bytes().map(|bytes| bytes + self.options.reserve.next_multiple_of(4096))
    }

    /// `--ram` of `aquifer run`: what is left of the limit for the program's large blocks and all that serves them. The kernel, which has the same
    /// limit, gives pages of the program what is left of the reserve as well.
    pub fn given_bytes(&self) -> Option<u64> {
        let local_bytes = self.local_bytes().filter(|_| self.cell.peer.is_run())?;
        self.limit_bytes().map(|limit| limit.saturating_sub(OUTSIDE_BYTES).max(local_bytes))
    }

    /// Percent of the keys that memcached has; all of them, unless Redis has some.
    pub fn near_percent(&self) -> u64 {
        if self.cell.peer == Peer::Redis { self.cell.share } else { 100 }
    }

    /// The program, on what lies below.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is missing.
    pub fn command(&self, below: &Below, seed: u64) -> Result<Command> {
        let program = if self.cell.program.is_cache() { self.memcached()? } else { self.task(seed)? };
        match (self.given_bytes(), below.donors()) {
            (Some(given_bytes), Some(donors)) => self.on_donors(&program, given_bytes, &donors),
            _ => Ok(program),
        }
    }

    fn on_donors(&self, program: &Command, given_bytes: u64, donors: &str) -> Result<Command> {
        let peak_bytes = self.measure.map_or(0, |measure| measure.peak_bytes);
        let mut command = Command::new(self.programs.aquifer()?);
        command.args(["run", "--ram", &given_bytes.to_string(), "--flash"]).arg(&self.options.dir);
        command.args(["--flash-size", &flash_bytes(peak_bytes).to_string()]);
        command.args(["--donors", donors, "--"]);
        command.arg(program.get_program()).args(program.get_args());
        Ok(command)
    }

    /// This program itself.
    fn task(&self, seed: u64) -> Result<Command> {
        let own = std::env::current_exe().map_err(Error::io("finding", "this program"))?;
        let options = self.options;
        let mut command = Command::new(own);
        command.args(["far", "--task", &self.cell.program.to_string(), "--data", &options.data.to_string()]);
        command.args(["--seconds", &options.seconds.to_string(), "--warmup", &options.warmup.to_string()]);
        command.args(["--seed", &seed.to_string()]);
        if let Some(rounds) = self.measure.and_then(|measure| measure.rounds) {
            command.args(["--rounds", &rounds.to_string()]);
        }
        if let Some(graph) = self.graph.filter(|_| self.cell.program == Program::Pagerank) {
            command.arg("--graph").arg(graph);
        }
        Ok(command)
    }

    /// Its table does not grow under load, and nothing that it sets is ever dropped.
    fn memcached(&self) -> Result<Command> {
        let data_bytes = self.options.data;
        let mut command = Command::new(self.programs.memcached()?);
        // memcached wants to be told that it may stay root.
        // SAFETY: a plain question.
        if unsafe { libc::geteuid() } == 0 {
            command.args(["-u", "root"]);
        }
        let mebibytes = ((2 * data_bytes) >> 20) + 64;
        let power = hash_power(Mix::of(self.cell.program).items(data_bytes));
        command.args(["-m", &mebibytes.to_string(), "-o", &format!("hashpower={power},{LISTS}")]);
        Ok(command)
    }
}

fn hash_power(items: u64) -> u32 {
    let is_enough = |power: &u32| (1u64 << power) * ITEMS_PER_2_BUCKETS_MAX / 2 >= items;
    (HASH_POWER_MIN..63).find(is_enough).unwrap_or(HASH_POWER_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::far::options::tests::options;

    fn launch<'a>(options: &'a FarOptions, programs: &'a Programs, peer: Peer, share: u64) -> Launch<'a> {
        let cell = Cell { program: Program::Etc, peer, share };
        let measure = Some(Measure { peak_bytes: 400 << 20, rounds: Some(7), digest: None });
        Launch { options, programs, graph: None, cell, measure }
    }

    #[test]
    fn everybody_has_the_same_limit() {
        let (options, programs) =
            (options("--reserve 20M"), Programs::find().expect("this program is somewhere"));
        for peer in [Peer::Swap, Peer::Zswap, Peer::BlockSwap, Peer::Donors, Peer::Shared, Peer::Redis] {
            assert_eq!(launch(&options, &programs, peer, 75).limit_bytes(), Some(320 << 20), "{peer}");
        }
        assert_eq!(launch(&options, &programs, Peer::Local, 100).limit_bytes(), None);
        let given = |peer| launch(&options, &programs, peer, 50).given_bytes();
        assert_eq!((given(Peer::Swap), given(Peer::Donors)), (None, Some(213 << 20)));
        let near = |peer| launch(&options, &programs, peer, 50).near_percent();
        assert_eq!((near(Peer::Redis), near(Peer::Donors)), (50, 100));
    }

    #[test]
    fn tasks_are_told_what_the_local_run_did() {
        let (options, programs) =
            (options("--data 64M"), Programs::find().expect("this program is somewhere"));
        let mut launch = launch(&options, &programs, Peer::Swap, 50);
        launch.cell.program = Program::Shuffle;
        let command = launch.command(&Below::default(), 3).expect("it is this program");
        let line: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert!(line.join(" ").starts_with("far --task shuffle --data 67108864 "), "{line:?}");
        assert!(line.join(" ").ends_with("--seed 3 --rounds 7"), "{line:?}");
    }

    #[test]
    fn the_hash_table_is_large_enough() {
        assert_eq!((hash_power(1000), hash_power(98_304), hash_power(98_305)), (16, 16, 17));
    }
}
