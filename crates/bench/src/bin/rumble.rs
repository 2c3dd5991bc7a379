//! Memory for objects whose sizes change: the durable heap, malloc's and libpmemobj beside each other.

use std::process::ExitCode;

use aquifer_bench::rumble::{EXAMPLES, RumbleOptions, run};
use aquifer_bench::runner::CHILD_COMMAND;
use aquifer_bench::{child, cleanup};
use clap::{Parser, Subcommand};

/// Peak memory over live bytes under the eight workloads of Rumble, Kejriwal and Ousterhout (FAST 2014).
#[derive(Parser)]
#[command(name = "rumble", version, after_help = EXAMPLES, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    options: RumbleOptions,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// One system, told on standard input what to do
    #[command(hide = true, name = CHILD_COMMAND)]
    Child,
}

fn main() -> ExitCode {
    let Cli { options, command } = Cli::parse();
    if let Some(Command::Child) = command {
        child::main(&[]);
        return ExitCode::SUCCESS;
    }
    cleanup::install();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rumble: {error}");
            ExitCode::FAILURE
        }
    }
}
