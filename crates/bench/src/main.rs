//! The `aquifer-bench` command.

use std::path::PathBuf;
use std::process::ExitCode;

use aquifer_bench::all::AllOptions;
use aquifer_bench::remote::ServeOptions;
use aquifer_bench::runner::CHILD_COMMAND;
use aquifer_bench::study::{self, CheckOptions, PageOptions, STUDIES};
use aquifer_bench::{all, child, cleanup, recover, remote};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench micro --out results.jsonl
      Uniform reads by 32 threads, 4 GiB of 128-byte objects in 256 MiB of RAM,
      all peers, medians of 5
  aquifer-bench micro --peer swap,aquifer --dist zipf,scattered-hot --reads 100,50,0 --threads 1,8 \\
      --seconds 5 --out results.jsonl
  aquifer-bench micro --data 512M --ram 64M --seconds 3 --warmup 3 --runs 1
      A first look in a minute or two
  aquifer-bench memcached --ram 32M --data 128M --values 1024 --seconds 2 --warmup 1 --runs 1
      The same question asked of a real server: swap, zswap, the heap, aquifer run, extstore
  aquifer-bench references --out results.jsonl
      Handle hits and faults; batches of 1,024 objects beside raw reads; medians of 5
  aquifer-bench volume reads --out results.jsonl
      Reads of a mapped file of a volume, beside mmap and the disk; also updates, pagerank, kv and metadata
  aquifer-bench durable transactions --out results.jsonl
      Small transactions on the durable heap, libpmemobj, LMDB and redb; also workloads, optimisations, cleaning and recovery
  aquifer-bench remote --out results.jsonl
      Memory of a donor on this machine, beside bare libfabric
  aquifer-bench far --out results.jsonl
      memcached, Redis, SQLite, igraph and GNU sort with 100, 75 and 50 % of their memory local
  aquifer-bench recover --out results.jsonl
      What a program does when one of its two donors is killed, hangs, leaves or needs its RAM
  aquifer-bench programs sort sqlite3 redis --out results.jsonl
      Programs of others with 1/2, 1/4 and 1/8 of their memory: aquifer run, swap, zswap
  aquifer-bench table results.jsonl > results.md
  aquifer-bench plot results.jsonl --out-dir docs/plots
  aquifer-bench check results.jsonl --baseline bench/baseline
  aquifer-bench page > docs/reference/benchmarks.md
  aquifer-bench write-amp --fill 50,67,80,90 --out results.jsonl
  aquifer-bench all --quick

The peers swap, mmap and memkind need root for a memory-limit cgroup; swap also for its swap file.
Peers that cannot run are skipped with the reason. One that fails is left out too, and the call ends with status 1 when
the others are measured. Wrong bytes end it at once: 'WRONG DATA from PEER: object ...', status 1.";

/// Measures Aquifer beside kernel swap, mmap, memkind, the raw device and memcached's extstore.
#[derive(Parser)]
#[command(name = "aquifer-bench", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Files of a volume as memory, beside mmap of files of the host's file system
    #[command(subcommand_required = true)]
    Volume,
    /// The durable heap beside libpmemobj, LMDB, redb, and heaps that write their data twice
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Durable,
    /// Those of the heap, one after the other, with tables and plots
    All(AllOptions),
    /// Print result files as markdown tables of medians and ratios
    Table {
        /// Result files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Hold result files against what is promised, and against earlier ones; ends with 1 if something is not kept or got worse
    Check(CheckOptions),
    /// Print the page of measurements, made of stored runs
    Page(PageOptions),
    /// Draw result files as SVG bars
    Plot {
        /// Result files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Directory for the SVG files
        #[arg(long, default_value = "docs/plots")]
        out_dir: PathBuf,
    },
    /// A peer of `remote`
    #[command(hide = true)]
    Serve(ServeOptions),
    /// A program of `recover`
    #[command(hide = true)]
    RecoverProgram {
        #[command(subcommand)]
        program: recover::Program,
    },
    /// One peer, told on standard input what to do
    #[command(hide = true, name = CHILD_COMMAND)]
    Child,
}

fn main() -> ExitCode {
    let matches = study::with_commands(STUDIES, Cli::command()).get_matches();
    if matches.subcommand_name() == Some(CHILD_COMMAND) {
        child::main(STUDIES);
        return ExitCode::SUCCESS;
    }
    cleanup::install();
    let result = study::run_asked(STUDIES, &matches).unwrap_or_else(|| {
        let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        run(cli.command)
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aquifer-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> aquifer_bench::Result<()> {
    match command {
        Command::RecoverProgram { program } => recover::run_program(&program),
        Command::Volume => Ok(()),
        Command::All(options) => all::run(&options),
        Command::Table { files } => study::tables(STUDIES, &files),
        Command::Plot { files, out_dir } => study::plots(STUDIES, &files, &out_dir),
        Command::Page(options) => study::page(STUDIES, &options),
        Command::Check(options) => study::check(&options),
        Command::Serve(options) => remote::serve(&options),
        // All of its commands are studies.
        Command::Durable | Command::Child => Ok(()),
    }
}

#[cfg(test)]
#[path = "../../cli/tests/command/documents/lines.rs"]
mod lines;

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn commands_in_documents_are_those_that_there_are() {
        let (mut wrong, mut tried) = (Vec::new(), 0);
        for (place, words) in lines::commands_of("aquifer-bench") {
            tried += 1;
            match study::with_commands(STUDIES, Cli::command()).try_get_matches_from(&words) {
                Err(error) if error.kind() != ErrorKind::DisplayHelp => {
                    let why = error.to_string();
                    let why = why.lines().next().unwrap_or_default();
                    wrong.push(format!("{place}: {}: {why}", words.join(" ")));
                }
                _ => {}
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(tried > 4, "{tried}");
    }
}
