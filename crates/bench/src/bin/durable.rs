//! The durable heap beside libpmemobj, LMDB and redb.

use std::process::ExitCode;

use aquifer_bench::durable::options::TransactionsOptions;
use aquifer_bench::durable::transactions;
use aquifer_bench::runner::CHILD_COMMAND;
use aquifer_bench::{child, cleanup};
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  durable transactions --out results.jsonl
  durable transactions --count 20K --seconds 0.2 --runs 1
      A first look in a few seconds";

/// Measures the durable heap beside libpmemobj, LMDB and redb.
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
    /// One sample, told on standard input which
    #[command(hide = true, name = CHILD_COMMAND)]
    Child,
}

fn main() -> ExitCode {
    let options = match Cli::parse().command {
        Command::Transactions(options) => options,
        Command::Child => {
            child::main();
            return ExitCode::SUCCESS;
        }
    };
    cleanup::install();
    match transactions::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("durable: {error}");
            ExitCode::FAILURE
        }
    }
}
