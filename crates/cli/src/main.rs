//! The `aquifer` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use aquifer_cli::arguments::{Arguments, Command};
use aquifer_cli::remote::{cluster, donate, donors};
use aquifer_cli::{
    advise, block, commands, doctor, durable, error, export, probe, run, top, version, volume,
};
use clap::Parser;

/// Nothing could be asked, as opposed to a check that found something.
const COULD_NOT_ASK: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
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
        Command::Version(arguments) => version::version(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("aquifer: {}", error::printable(&error.to_string()));
        ExitCode::from(COULD_NOT_ASK)
    })
}
