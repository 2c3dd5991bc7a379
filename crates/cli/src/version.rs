//! `aquifer version`: what this build can do here, and what would add the rest.
//!
//! | file | noun |
//! |---|---|
//! | `part` | something that may be missing, and what adds it |
//! | `module` | a module of the kernel |
//! | `memory` | memory and rings of the kernel |
//! | `network` | what carries bytes between machines |
//! | `devices` | folders and block devices |
//! | `libraries` | libraries and programs beside the command |

mod devices;
pub mod libraries;
pub mod memory;
mod module;
mod network;
mod part;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use aquifer_remote::transport::fabric;
use clap::Args;
use serde::Serialize;

use crate::error::{Error, printable};
pub use part::{Part, table};

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  aquifer version                                what this build and this machine can do
  aquifer version --json | jq -r '.parts[] | select(.is_ready | not) | .remedy'
  aquifer --version                              the number alone

A part that is missing has a line with what adds it; commands in it are for root unless they
build something. Parts that were not built in are added by building again.

Exit status: 0, also when parts are missing.";

/// Arguments of `aquifer version`.
#[derive(Args, Debug)]
pub struct VersionArguments {
    /// One line of JSON in place of the table
    #[arg(short, long)]
    pub json: bool,
}

/// All that is known.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    /// What of the parts is compiled in.
    built_with: Vec<&'static str>,
    /// The running kernel's release.
    kernel: String,
    /// The processor this was built for.
    machine: &'static str,
    parts: Vec<Part>,
}

impl Report {
    fn new() -> Self {
        let kernel = kernel_release();
        let parts = [memory::parts(&kernel), network::parts(), devices::parts(&kernel), libraries::parts()];
        Report {
            version: aquifer::VERSION,
            built_with: built_with(),
            machine: std::env::consts::ARCH,
            parts: parts.into_iter().flatten().collect(),
            kernel,
        }
    }

    fn table(&self) -> String {
        let built_with = self.built_with.join(", ");
        let mut text = format!("aquifer {}, built with {built_with}\n", self.version);
        let _ = writeln!(text, "Linux {} on {}\n", printable(&self.kernel), self.machine);
        text + &table(&self.parts)
    }
}

/// What is compiled in. The headers of libfabric are all that a build may lack.
fn built_with() -> Vec<&'static str> {
    let network = fabric::IS_BUILT.then_some("libfabric");
    network.into_iter().chain(["ublk", "FUSE", "io_uring"]).collect()
}

/// The running kernel's release, as in 6.12.0.
pub fn kernel_release() -> String {
    let told = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if told.trim().is_empty() { "of unknown version".into() } else { told.trim().to_owned() }
}

/// Says what this build and this machine can do.
///
/// # Errors
/// The output cannot be written.
pub fn version(arguments: &VersionArguments) -> Result<ExitCode, Error> {
    let report = Report::new();
    let text = if arguments.json {
        serde_json::to_string(&report).map_err(io::Error::from)? + "\n"
    } else {
        report.table()
    };
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe: it has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        outcome => Ok(outcome.map(|()| ExitCode::SUCCESS)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(parts: Vec<Part>) -> Report {
        let built_with = vec!["libfabric"];
        Report { version: "0.0.0", built_with, kernel: "6.8.0".into(), machine: "made-up", parts }
    }

    #[test]
    fn what_is_missing_has_a_line_with_its_remedy() {
        let there = Part::ready("short", "something", "it is there");
        let missing = Part::missing("a long name", "something else", "it is not", "make it");
        let table = report(vec![there, missing]).table();
        assert_eq!(
            table,
            "aquifer 0.0.0, built with libfabric\n\
             Linux 6.8.0 on made-up\n\n\
             short        yes  it is there\n\
             a long name  no   it is not\n                  \
             for something else: make it\n"
        );
    }

    #[test]
    fn a_terminal_is_not_commanded() {
        let part = Part::ready("name", "something", "\x1b[2J");
        assert!(!report(vec![part]).table().contains('\x1b'));
    }

    #[test]
    fn each_part_stands_once_with_a_remedy_if_it_is_missing() {
        let report = Report::new();
        let names: std::collections::BTreeSet<&str> = report.parts.iter().map(|part| part.name).collect();
        assert_eq!(names.len(), report.parts.len());
        for part in &report.parts {
            assert_eq!(part.is_ready, part.remedy.is_none(), "{part:?}");
            assert!(!part.state.is_empty() && !part.serves.is_empty(), "{part:?}");
        }
        assert!(report.built_with.contains(&"ublk"));
    }
}
