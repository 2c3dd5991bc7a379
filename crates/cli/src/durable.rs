//! `aquifer durable`: what is in the file of a durable heap, and what is left of it. The file is read and never changed.
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

use aquifer_base::units::format_size;
use aquifer_durable::Error as HeapError;
use aquifer_durable::inspect::HeapFile;
use serde_json::json;

use crate::amounts::grouped;
use crate::arguments::{DurableQuestion, DurableSalvageArguments, DurableStatsArguments};
use crate::error::{Error, printable};
use crate::volume::{print_json, work::Work};
use summary::Summary;

/// Answers a question about a file; damage is told on standard output and by the exit status.
///
/// # Errors
/// [`Error`] if the file cannot be looked at: it is missing, something else, or in use.
pub fn durable(question: &DurableQuestion) -> Result<ExitCode, Error> {
    let (path, outcome) = match question {
        DurableQuestion::Check(arguments) => (&arguments.file.path, check(arguments)),
        DurableQuestion::Dump(file) => (&file.path, dump(&file.path)),
        DurableQuestion::Stats(arguments) => (&arguments.file.path, stats(arguments)),
        DurableQuestion::Salvage(arguments) => (&arguments.file.path, salvage(arguments)),
    };
    match outcome {
        // The reader has closed the pipe: it has seen enough.
        Err(Error::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(Error::Durable(error @ HeapError::Damaged { .. })) => {
            let name = path.display().to_string();
            writeln!(io::stdout(), "{}: {error}", printable(&name))?;
            eprintln!("aquifer: `aquifer durable salvage {} TARGET` copies what is left", printable(&name));
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

fn check(arguments: &DurableStatsArguments) -> Result<ExitCode, Error> {
    let path = &arguments.file.path;
    let name = path.display().to_string();
    let found = open_at_rest(path).and_then(|file| Ok(Summary::of(&file)?));
    if arguments.json {
        let problem = match &found {
            Ok(_) => None,
            Err(Error::Durable(error @ HeapError::Damaged { .. })) => Some(error.to_string()),
            Err(_) => return found.map(|_| ExitCode::FAILURE),
        };
        let in_order = problem.is_none();
        print_json(
            &json!({ "file": name, "in_order": in_order, "problem": problem, "contents": found.ok() }),
        )?;
        return Ok(if in_order { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let summary = found?;
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

fn salvage(arguments: &DurableSalvageArguments) -> Result<ExitCode, Error> {
    let file = open_at_rest(&arguments.file.path)?;
    let work = Work::on_shares();
    let saved = file.salvage(&arguments.target, |share| work.is_at((share * 100.0) as u64, 100));
    drop(work);
    let saved = match saved {
        // Damage without which nothing can be told leaves no new file.
        Err(error @ HeapError::Damaged { .. }) => return Err(Error::NotSalvaged(error)),
        saved => saved?,
    };
    for loss in &saved.losses {
        eprintln!("aquifer: byte {}, {} bytes: {}", loss.offset, loss.bytes, loss.why);
    }
    let (name, objects) = (arguments.target.display().to_string(), grouped(saved.objects));
    let bytes = format_size(saved.live_bytes);
    writeln!(
        io::stdout(),
        "{}: {objects} objects, {bytes}, {} losses",
        printable(&name),
        saved.losses.len()
    )?;
    Ok(if saved.losses.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
