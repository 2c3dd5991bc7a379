//! `aquifer durable`: what is in the file of a durable heap. The file is read and never changed.
//!
//! | file | noun |
//! |---|---|
//! | `summary` | how much is in it |
//! | `dump` | chunks, blocks and entries as they stand in it |

pub mod dump;
pub mod summary;

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use aquifer_durable::Error as HeapError;
use aquifer_durable::inspect::HeapFile;

use crate::arguments::{DurableQuestion, DurableStatsArguments};
use crate::error::{Error, printable};
use summary::Summary;

/// Answers a question about a file; damage is told on standard output and by the exit status.
///
/// # Errors
/// [`Error`] if the file cannot be looked at: it is missing, something else, or in use.
pub fn durable(question: &DurableQuestion) -> Result<ExitCode, Error> {
    let (path, outcome) = match question {
        DurableQuestion::Check(file) => (&file.path, check(&file.path)),
        DurableQuestion::Dump(file) => (&file.path, dump(&file.path)),
        DurableQuestion::Stats(arguments) => (&arguments.file.path, stats(arguments)),
    };
    match outcome {
        // The reader has closed the pipe: it has seen enough.
        Err(Error::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(Error::Durable(error @ HeapError::Damaged { .. })) => {
            let name = path.display().to_string();
            writeln!(io::stdout(), "{}: {error}", printable(&name))?;
            Ok(ExitCode::FAILURE)
        }
        other => other,
    }
}

/// Opens a file that nobody changes until this is dropped.
fn open_at_rest(path: &Path) -> Result<HeapFile, Error> {
    let file = HeapFile::open(path)?;
    if file.lock()? { Ok(file) } else { Err(Error::DurableInUse { path: path.into() }) }
}

fn check(path: &Path) -> Result<ExitCode, Error> {
    let summary = Summary::of(&open_at_rest(path)?)?;
    let name = path.display().to_string();
    writeln!(io::stdout(), "{}: in order, {}", printable(&name), summary.verified())?;
    Ok(ExitCode::SUCCESS)
}

fn stats(arguments: &DurableStatsArguments) -> Result<ExitCode, Error> {
    let path = &arguments.file.path;
    let summary = Summary::of(&open_at_rest(path)?)?;
    let name = path.display().to_string();
    let text = if arguments.json { summary.json(&name) } else { summary.table(&name) };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn dump(path: &Path) -> Result<ExitCode, Error> {
    let file = HeapFile::open(path)?;
    if !file.lock()? {
        eprintln!(
            "aquifer: a program has the heap open; what it writes meanwhile can look torn or damaged here"
        );
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let damage = dump::dump(&file, &mut out)?;
    out.flush()?;
    Ok(if damage == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
