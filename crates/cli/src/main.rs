//! The `aquifer` command.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

use aquifer_cli::arguments::{Arguments, Command, old};
use aquifer_cli::remote::{cluster, donate, donors};
use aquifer_cli::{
    Error, advise, block, commands, doctor, durable, error, export, manual, probe, run, top, version, volume,
};
use clap::FromArgMatches;

/// Nothing could be asked, as opposed to a check that found something.
const COULD_NOT_ASK: u8 = 2;
/// `run` could not begin: its own 2 would be the program's.
const COULD_NOT_RUN: u8 = 125;

fn main() -> ExitCode {
    let (words, hints) = old::renewed(std::env::args_os().collect());
    let arguments = parsed(&words);
    for hint in hints {
        eprintln!("aquifer: {}", error::printable(&hint));
    }
    let is_run = matches!(arguments.command, Command::Run(_));
    done(arguments.command).unwrap_or_else(|error| {
        eprintln!("aquifer: {}", error::printable(&error.to_string()));
        ExitCode::from(if is_run { error.status_of_run() } else { COULD_NOT_ASK })
    })
}

/// What the words mean; ends the process with a complaint if that is nothing, and after a help.
fn parsed(words: &[OsString]) -> Arguments {
    let parsed = manual::command().try_get_matches_from(words);
    let parsed = parsed.and_then(|matches| Arguments::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| {
        if error.use_stderr() && words.get(1).is_some_and(|word| word == "run") {
            let _ = error.print();
            std::process::exit(COULD_NOT_RUN.into());
        }
        error.exit()
    })
}

fn done(command: Command) -> Result<ExitCode, Error> {
    match command {
        Command::Stats(arguments) => commands::stats(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Export(arguments) => export::export(&arguments),
        Command::Check(arguments) => commands::check(&arguments),
        Command::Durable(arguments) => durable::durable(&arguments.question),
        Command::Donate(arguments) => donate::donate(&arguments),
        Command::Donors(arguments) => donors::donors(&arguments),
        Command::Cluster(arguments) => cluster::cluster(&arguments),
        Command::Block(arguments) => block::block(&arguments),
        Command::Volume(arguments) => volume::volume(&arguments.action),
        Command::Probe(arguments) => probe::probe(&arguments),
        Command::Advise(arguments) => advise::advise(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Version(arguments) => version::version(&arguments),
    }
}
