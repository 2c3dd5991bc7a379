//! What a report means for a machine, and for the heap.

pub mod arguments;
mod donors;

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use aquifer_probe::advice::{Advice, borrowing_text};
use aquifer_probe::economics::study;
use aquifer_probe::report::{Report, ReportError};

use crate::error::Error;
use crate::volume::print_json;
use arguments::AdviseArguments;

/// Shows the advice, and writes the settings to a file if one is named.
///
/// # Errors
/// [`Error`] if the report cannot be read, the file cannot be written, or the output goes nowhere. A profile that was there before is whole
/// then, the old or the new one.
pub fn advise(arguments: &AdviseArguments) -> Result<ExitCode, Error> {
    let Some(path) = &arguments.report else { return show(&study()) };
    let report = Report::read(path).map_err(|error| no_advice(path, &error))?;
    let advice = Advice::of(&report, &arguments.assumptions());
    if let Some(path) = &arguments.write_profile {
        write_profile(path, &advice.profile_text())
            .map_err(|error| Error::Profile { path: path.clone(), error })?;
    }
    let lenders = donors::lenders(arguments)?;
    if arguments.json {
        print_json(&advice.json(&report, &lenders))?;
        return Ok(ExitCode::SUCCESS);
    }
    let borrowing = if lenders.is_empty() { String::new() } else { borrowing_text(&report, &lenders) };
    show(&(advice.text() + &borrowing))
}

fn no_advice(path: &Path, error: &ReportError) -> Error {
    let problem = match error {
        ReportError::Unreadable { source, .. } => source.to_string(),
        error => error.to_string(),
    };
    Error::NoAdvice { path: path.to_owned(), problem }
}

/// At once or not at all: half a profile would be a profile too.
fn write_profile(path: &Path, text: &str) -> io::Result<()> {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let readable = Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new().permissions(readable).tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn show(text: &str) -> Result<ExitCode, Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe: it has seen enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
