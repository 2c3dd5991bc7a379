//! The `aquifer` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use aquifer_cli::arguments::{Arguments, Command};
use aquifer_cli::{commands, error};
use clap::Parser;

/// Nothing could be asked, as opposed to a check that found something.
const COULD_NOT_ASK: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Stats(arguments) => commands::stats(&arguments),
        Command::Check(arguments) => commands::check(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("aquifer: {}", error::printable(&error.to_string()));
        ExitCode::from(COULD_NOT_ASK)
    })
}
