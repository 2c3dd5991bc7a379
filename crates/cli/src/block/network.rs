//! Serves a device to clients of NBD, by nbdkit.

use std::io::{self, Write};
use std::process::{self, ExitCode};
use std::sync::Arc;

use aquifer_base::units::format_size;
use aquifer_block::nbdkit::{Child, ListenError, Listener, NbdkitError, Options, program};
use aquifer_block::precautions;
use aquifer_block::source::Source;
use aquifer_remote::control::Identity;

use super::arguments::BlockArguments;
use super::certificates::Certificates;
use super::fault::filters;
use super::say;
use crate::ending;
use crate::error::{Error, printable};
use crate::library;

/// Serves until a signal.
pub fn serve(
    arguments: &BlockArguments,
    source: Source,
    listen: impl FnOnce() -> Result<Listener, ListenError>,
) -> Result<ExitCode, Error> {
    let program = program().ok_or(NbdkitError::NotInstalled)?;
    let plugin = library::find(library::NBDKIT)?;
    let folder = arguments.cluster.as_deref().filter(|_| arguments.tls);
    // What is wrong with a host's folder, nbdkit says in other words.
    let identity = folder.map(Identity::load).transpose();
    identity.map_err(|error| Error::Remote(error.to_string()))?;
    let certificates = folder.map(Certificates::new).transpose();
    let certificates = certificates.map_err(Error::BlockCertificates)?;
    // nbdkit ends with this process, which therefore must not be ended for its memory either. What cannot be done, the plugin says.
    drop(precautions::mark_process());
    // Before the device is opened, which may take long: the port may be taken.
    let listener = listen()?;
    let place = listener.to_string();
    // As clients name it.
    let place = if certificates.is_some() { place.replacen("nbd", "nbds", 1) } else { place };
    let (filters, settings) = filters(&arguments.fault);
    let options = Options {
        program,
        plugin,
        source,
        name: arguments.name.clone(),
        threads: arguments.threads,
        connections: arguments.connections,
        tls: certificates.as_ref().map(Certificates::tls),
        filters,
        settings,
    };
    let (child, size_bytes) = Child::start(listener, &options, Arc::new(say))?;
    let ender = child.ender();
    let mut is_ending = false;
    ending::on_wish(move || {
        // The device may be one that never answers.
        if is_ending {
            say("ended at once: what was not flushed may be lost");
            ender.kill();
            process::exit(2);
        }
        is_ending = true;
        ender.end();
    })?;
    writeln!(
        io::stdout(),
        "{} ({}) is served at {}",
        printable(&arguments.flash.display().to_string()),
        format_size(size_bytes),
        printable(&place)
    )?;
    child.wait()?;
    Ok(ExitCode::SUCCESS)
}
