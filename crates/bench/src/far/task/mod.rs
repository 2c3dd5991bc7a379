//! The programs that are this program itself: ordinary Rust, or SQLite, on ordinary memory.
//!
//! `aquifer-bench far --task PROGRAM` is started once for each run, prints one line, an [`Answer`], and ends.
//!
//! | file | noun |
//! |---|---|
//! | `tpcc` | SQLite's database in memory |
//! | `graph`, `pagerank` | a graph as words, and its ranks |
//! | `shuffle` | records grouped by key |

pub mod graph;
mod pagerank;
mod shuffle;
mod tpcc;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::answer::Answer;
use super::program::Program;
use crate::error::{Error, Result};
use crate::process::Memory;

/// What a task is told: given by this command to itself.
#[derive(Clone, Debug, Default, Args)]
pub struct TaskOptions {
    /// Runs this program alone and prints one line
    #[arg(long, value_enum, hide = true)]
    pub task: Option<Program>,
    /// Rounds of the work; without them as many as there is time for
    #[arg(long, hide = true, requires = "task")]
    pub rounds: Option<u64>,
    /// File with the words of a graph; without it one is made
    #[arg(long, hide = true, requires = "task")]
    pub graph: Option<PathBuf>,
    /// Decides all choices of the transactions
    #[arg(long, hide = true, requires = "task", default_value_t = 1)]
    pub seed: u64,
}

/// How much, how long.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Bytes of all data, about.
    pub data_bytes: u64,
    /// Unmeasured time, of programs that go by the clock.
    pub warmup: Duration,
    /// Measured time, unless rounds are given.
    pub length: Duration,
}

/// Does the work of `program` and prints what came of it.
///
/// # Errors
/// [`Error::Input`] for memcached, which is no task; [`Error::WrongData`] if results are wrong.
pub fn run(program: Program, options: &TaskOptions, extent: Extent) -> Result<()> {
    let answer = match program {
        Program::Tpcc => tpcc::run(extent, options.seed)?,
        Program::Pagerank => pagerank::run(extent, options)?,
        Program::Shuffle => shuffle::run(extent, options.rounds)?,
        Program::Etc | Program::Sys => {
            return Err(Error::Input("memcached is a program of its own".to_owned()));
        }
    };
    let answer = Answer { memory: Memory::peak_of(std::process::id())?, ..answer };
    println!("{}", serde_json::to_string(&answer).expect("only plain fields"));
    Ok(())
}
