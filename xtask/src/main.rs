//! Checks of the workspace that cargo does not make: `cargo run -p xtask -- tidy`.
//!
//! [`rules`] is the table to edit when a crate is added; the other modules hold one check each.
#![forbid(unsafe_code)]

mod dependencies;
mod layers;
mod rules;
mod sizes;
mod source;
mod unsafe_code;
mod words;
mod workspace;

use clap::Parser;
use std::process::ExitCode;

/// Checks of the workspace that cargo does not make.
#[derive(Parser)]
#[command(name = "xtask")]
enum Command {
    /// Layers, unsafe code, file sizes, unfinished work, reasons for dependencies.
    Tidy,
}

/// What a check has to say about one place.
#[derive(Debug, PartialEq, Eq)]
pub enum Finding {
    /// Breaks a rule.
    Broken(String),
    /// Worth knowing.
    Notice(String),
}

fn main() -> ExitCode {
    let Command::Tidy = Command::parse();
    match tidy() {
        Ok(findings) => report(&findings),
        Err(problem) => {
            eprintln!("tidy: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> Result<Vec<Finding>, String> {
    let workspace = workspace::load()?;
    let sources = source::read_all(&workspace.root)?;
    let mut findings = layers::check(&workspace);
    findings.extend(unsafe_code::check(&workspace, &sources));
    findings.extend(sizes::check(&sources));
    findings.extend(words::check(&sources));
    findings.extend(dependencies::check(&workspace)?);
    Ok(findings)
}

fn report(findings: &[Finding]) -> ExitCode {
    let mut broken = 0;
    for finding in findings {
        match finding {
            Finding::Broken(text) => {
                broken += 1;
                println!("broken: {text}");
            }
            Finding::Notice(text) => println!("notice: {text}"),
        }
    }
    if broken == 0 {
        println!("tidy: clean");
        return ExitCode::SUCCESS;
    }
    println!("tidy: {broken} broken");
    ExitCode::FAILURE
}
