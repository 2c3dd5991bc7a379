//! What cargo does not do for the workspace: checks, `cargo run -p xtask -- tidy`, and the run of all tests, `cargo run -p xtask -- test`.
//!
//! [`rules`] is the table to edit when a crate is added; [`mod@test`] runs tests; the other modules hold one check each.
#![forbid(unsafe_code)]

mod dependencies;
mod floors;
mod layers;
mod links;
mod manual;
mod phrases;
mod prose;
mod rules;
mod rust_version;
mod sizes;
mod source;
mod test;
mod unsafe_code;
mod workspace;

use clap::Parser;
use std::path::Path;
use std::process::ExitCode;

/// Checks and tests of the workspace.
#[derive(Parser)]
#[command(name = "xtask")]
enum Command {
    /// Layers, floors inside crates, unsafe code, file sizes, unfinished work, unclear comments, wrapped prose, links of
    /// documents, functions in the manual, reasons for dependencies, the oldest Rust.
    Tidy,
    /// Lists the functions of the C header in the manual page of the library.
    Manual,
    /// Builds and runs the tests; scripts/test.sh sets up what they need first.
    Test(test::TestOptions),
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
    let done = match Command::parse() {
        Command::Tidy => tidy().map(|findings| report(&findings)),
        Command::Manual => manual::write(Path::new(".")).map(|()| ExitCode::SUCCESS),
        Command::Test(options) => test::run(&options),
    };
    done.unwrap_or_else(|problem| {
        eprintln!("xtask: {problem}");
        ExitCode::FAILURE
    })
}

fn tidy() -> Result<Vec<Finding>, String> {
    let workspace = workspace::load(Path::new("."))?;
    let research = workspace::load(&workspace.root.join("research"))?;
    let sources = source::read_all(&workspace.root)?;
    let mut findings = layers::check(&workspace);
    findings.extend(floors::check(&sources));
    findings.extend(unsafe_code::check(&workspace, &sources));
    findings.extend(sizes::check(&sources));
    findings.extend(phrases::check_marks(&sources));
    findings.extend(phrases::check(&sources));
    findings.extend(prose::check(&sources));
    findings.extend(links::check(&workspace.root, &sources));
    findings.extend(manual::check(&workspace.root)?);
    findings.extend(rust_version::check(&workspace.root)?);
    findings.extend(dependencies::check(&[workspace, research])?);
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
