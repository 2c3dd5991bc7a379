//! The durable heap beside libpmemobj, LMDB, redb, and heaps that write their data twice.

use std::process::ExitCode;

use aquifer_bench::durable::cleaning::options::CleaningOptions;
use aquifer_bench::durable::cleaning::run as cleaning;
use aquifer_bench::durable::optimisations::options::OptimisationsOptions;
use aquifer_bench::durable::optimisations::run as optimisations;
use aquifer_bench::durable::options::TransactionsOptions;
use aquifer_bench::durable::recovery::options::RecoveryOptions;
use aquifer_bench::durable::recovery::run as recovery;
use aquifer_bench::durable::transactions;
use aquifer_bench::durable::workloads::options::WorkloadsOptions;
use aquifer_bench::durable::workloads::run as workloads;
use aquifer_bench::runner::CHILD_COMMAND;
use aquifer_bench::{Result, child, cleanup};
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  durable transactions --out results.jsonl
  durable transactions --count 20K --seconds 0.2 --runs 1
      A first look in a few seconds
  durable workloads --out results.jsonl
  durable optimisations --out results.jsonl
  durable cleaning --out results.jsonl
  durable recovery --out results.jsonl";

/// Measures the durable heap beside libpmemobj, LMDB, redb, and heaps that write their data twice.
#[derive(Parser)]
#[command(name = "durable", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Small transactions: time, fences and bytes of one, with one thread and with two
    Transactions(TransactionsOptions),
    /// Four programs, beside heaps that write their data twice
    Workloads(WorkloadsOptions),
    /// What each optimisation gives: four programs with all of them, and without one
    Optimisations(OptimisationsOptions),
    /// What cleaning costs: updates of a heap that has room, and of ones that are nearly full
    Cleaning(CleaningOptions),
    /// How long opening takes, and how much memory the map
    Recovery(RecoveryOptions),
    /// One sample, told on standard input which
    #[command(hide = true, name = CHILD_COMMAND)]
    Child,
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Transactions(options) => transactions::run(options),
        Command::Workloads(options) => workloads::run(options),
        Command::Optimisations(options) => optimisations::run(options),
        Command::Cleaning(options) => cleaning::run(options),
        Command::Recovery(options) => recovery::run(options),
        Command::Child => Ok(()),
    }
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    if let Command::Child = command {
        child::main(&[]);
        return ExitCode::SUCCESS;
    }
    cleanup::install();
    match run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("durable: {error}");
            ExitCode::FAILURE
        }
    }
}
