//! Runs an unchanged program on managed memory.

use std::io::Write as _;
use std::os::unix::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::arguments::{MallocArgument, RunArguments};
use crate::error::Error;
use crate::{doctor, library, profile, program};

/// Replaces this process by the program; for a profile, waits for it.
///
/// # Errors
/// [`Error`] if the program or this machine is unfit; the program has not run then.
pub fn run(arguments: &RunArguments) -> Result<ExitCode, Error> {
    let is_profiled = arguments.profile || arguments.profile_svg.is_some();
    if is_profiled && arguments.profile_into.is_none() {
        return profile::run(arguments);
    }
    let path = check(arguments)?;
    let library = library::find(library::PRELOAD)?;
    let mut command = Command::new(&path);
    command.arg0(&arguments.program[0]).args(&arguments.program[1..]);
    let preload = std::env::var("LD_PRELOAD").ok().filter(|others| !others.is_empty());
    let own = library.display().to_string();
    command.env("LD_PRELOAD", preload.map_or_else(|| own.clone(), |others| format!("{own}:{others}")));
    command.env("AQUIFER_RUN_PID", std::process::id().to_string());
    command.env("AQUIFER_RAM", arguments.memory.ram.to_string());
    set(&mut command, "AQUIFER_RAM_MIN", arguments.memory.ram_min.map(|bytes| bytes.to_string().into()));
    command.env("AQUIFER_FLASH_SIZE", arguments.memory.flash_bytes().to_string());
    set(&mut command, "AQUIFER_THRESHOLD", arguments.threshold.map(|bytes| bytes.to_string().into()));
    set(&mut command, "AQUIFER_MALLOC", (arguments.malloc == MallocArgument::No).then(|| "no".into()));
    command.env("AQUIFER_FAULTS", arguments.memory.faults.name());
    command.env("AQUIFER_COMPRESS", arguments.compress.name());
    set_path(&mut command, "AQUIFER_FLASH", arguments.memory.flash.as_ref())?;
    let donors = (!arguments.donors.is_empty()).then(|| arguments.donors.join(",").into());
    set(&mut command, "AQUIFER_DONORS", donors);
    set(&mut command, "AQUIFER_DONORS_ONLY", arguments.donors_only.then(|| "1".into()));
    command.env("AQUIFER_COPIES", arguments.copies.to_string());
    command.env("AQUIFER_WEIGHT", arguments.weight.to_string());
    set(&mut command, "AQUIFER_SEAL", arguments.seal.then(|| "1".into()));
    set_path(&mut command, "AQUIFER_CLUSTER", arguments.cluster.as_ref())?;
    set_path(&mut command, "AQUIFER_SOCKET", arguments.socket.as_ref())?;
    set_path(&mut command, "AQUIFER_DEVICE_PROFILE", arguments.device_profile.as_ref())?;
    set_path(&mut command, "AQUIFER_REPORT_JSON", arguments.report_json.as_ref())?;
    set_path(&mut command, "AQUIFER_PROFILE", arguments.profile_into.as_ref())?;
    set(&mut command, "AQUIFER_REPORT", arguments.report.then(|| "1".into()));
    if arguments.report {
        for line in doctor::two_lines(&arguments.memory) {
            // The program runs also if standard error is closed.
            let _ = writeln!(std::io::stderr(), "aquifer: {line}");
        }
    }
    Err(Error::Exec { path, error: command.exec() })
}

/// Where the program is, if it can run here with these settings.
///
/// # Errors
/// Why not.
pub fn check(arguments: &RunArguments) -> Result<PathBuf, Error> {
    let path = program::find(arguments.program.first().expect("the command line needs a program"))?;
    program::inspect(&path)?;
    library::find(library::PRELOAD)?;
    if let Some(path) = &arguments.report_json {
        profile::check_folder(path).map_err(|error| Error::ReportFile { path: path.clone(), error })?;
    }
    if let Some(path) = &arguments.socket {
        let named = SocketAddr::from_pathname(std::path::absolute(path)?).map(drop);
        let found = named.and_then(|()| profile::check_folder(path));
        found.map_err(|error| Error::ReportFile { path: path.clone(), error })?;
    }
    let mut options = arguments.memory.options();
    if let Some(profile) = &arguments.device_profile {
        options = options.device_profile(profile);
    }
    for donor in &arguments.donors {
        options = options.donor(donor);
    }
    if let Some(cluster) = &arguments.cluster {
        options = options.cluster(cluster);
    }
    arguments.memory.check(options)?;
    Ok(path)
}

/// The program and its children may change their directory.
fn set_path(command: &mut Command, name: &str, path: Option<&PathBuf>) -> Result<(), Error> {
    set(command, name, path.map(std::path::absolute).transpose()?);
    Ok(())
}

fn set(command: &mut Command, name: &str, value: Option<PathBuf>) {
    match value {
        Some(value) => command.env(name, value),
        None => command.env_remove(name),
    };
}
