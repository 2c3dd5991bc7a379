//! Where a program's faults come from: `aquifer run --profile`.
//!
//! The library in the program copies registers and stacks into a file. When the program has ended, this finds out whose
//! they were. The file and all that it leads to is believed as little as any other answer of a program.
//!
//! | file | noun |
//! |---|---|
//! | `child` | the program, started and waited for |
//! | `modules` | executable memory of its processes |
//! | `image` | the file behind a module: where its code was, and how to find callers |
//! | `callers` | the callers of a sample |
//! | `symbols` | names and lines of addresses |
//! | `stacks` | samples with names |
//! | `sites` | the table of places that fault most |
//! | `flame` | the flame graph |

pub mod callers;
mod child;
pub mod flame;
pub mod image;
pub mod modules;
pub mod sites;
pub mod stacks;
pub mod symbols;

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;

use aquifer_base::samples::{Layout, Samples};

use crate::arguments::{FaultsArgument, RunArguments};
use crate::error::{Error, printable};
use crate::run;
use stacks::Stacks;

/// Statuses of a command that could not run the program.
const COULD_NOT_RUN: RangeInclusive<u8> = 125..=127;

/// Runs the program, and says afterwards where its faults came from. The status is the program's.
///
/// # Errors
/// [`Error`] if the program or this machine is unfit, or a profile cannot be taken; the program has not run then.
pub fn run(arguments: &RunArguments) -> Result<ExitCode, Error> {
    if arguments.memory.faults == FaultsArgument::Thread {
        return Err(Error::ProfileByThread);
    }
    if let Some(path) = &arguments.profile_svg {
        check_folder(path).map_err(|error| Error::Picture { path: path.clone(), error })?;
    }
    run::check(arguments)?;
    let layout = Layout::new(arguments.profile_samples);
    let mut file = sample_file(layout)?;
    let status = child::run(&file)?;

    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(layout.file_bytes() as u64).read_to_end(&mut bytes)?;
    // The status is the program's, whatever becomes of its profile.
    if let Err(error) = report(&bytes, arguments.profile_svg.as_deref(), status) {
        eprintln!("aquifer: {}", printable(&error.to_string()));
    }
    Ok(ExitCode::from(status))
}

/// An unnamed file. All that is in front of the slots is written, so that a full device cannot refuse it later.
fn sample_file(layout: Layout) -> Result<std::fs::File, Error> {
    let folder = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    let folder = folder.unwrap_or_else(|| "/var/tmp".into());
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut front = vec![0; layout.slot_at(0)];
    let head = layout.head(seed.as_nanos() as u64);
    front[..head.len()].copy_from_slice(&head);
    let make = || {
        let mut file = tempfile::tempfile_in(&folder)?;
        file.write_all(&front)?;
        file.set_len(layout.file_bytes() as u64)?;
        Ok(file)
    };
    make().map_err(|error| Error::SampleFile { folder: folder.clone().into(), error })
}

/// Whether a file could have this name: that it has no place should not come out when the program has run for hours.
///
/// # Errors
/// Why not.
pub fn check_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match std::fs::metadata(folder)? {
        meta if !meta.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
        _ if path.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Ok(()),
    }
}

fn report(bytes: &[u8], picture: Option<&Path>, status: u8) -> Result<(), Error> {
    let Some(samples) = Samples::parse(bytes) else { return Ok(()) };
    if samples.programs() == 0 {
        // The command has said why the program could not be run.
        if !COULD_NOT_RUN.contains(&status) {
            eprintln!("aquifer: no profile: the program ran without managed memory");
        }
        return Ok(());
    }
    if samples.faults() == 0 {
        eprintln!(
            "aquifer: no faults: the program's managed memory fitted into its RAM; a smaller --ram shows what would fault"
        );
        return Ok(());
    }
    let stacks = Stacks::of(&samples);
    if stacks.stacks.is_empty() {
        eprintln!(
            "aquifer: {} faults, but no sample of them: the directory of TMPDIR is full, or the system forbids process_vm_readv",
            stacks.faults
        );
        return Ok(());
    }
    eprint!("{}", sites::table(&stacks));
    let Some(path) = picture else { return Ok(()) };
    let explain = |error| Error::Picture { path: path.to_owned(), error };
    let mut svg = Vec::new();
    flame::draw(&stacks, &mut svg).map_err(explain)?;
    std::fs::write(path, svg).map_err(explain)?;
    eprintln!("flame graph: {}", printable(&path.display().to_string()));
    Ok(())
}
