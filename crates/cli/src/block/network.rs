//! Serves a device to clients of NBD.

use std::io::{self, Write};
use std::process::{self, ExitCode};
use std::sync::Arc;

use aquifer_base::units::format_size;
use aquifer_block::nbd::{Listener, Server, Settings};
use aquifer_block::precautions::{self, Omitted};
use aquifer_block::swaps::Area;
use aquifer_remote::control::Identity;

use super::arguments::BlockArguments;
use super::device::device;
use super::swapped::warn_when_swapped;
use super::words;
use crate::ending;
use crate::error::{Error, printable};

/// Serves until a signal.
pub fn serve(
    arguments: &BlockArguments,
    listener: Listener,
    mut omitted: Vec<Omitted>,
) -> Result<ExitCode, Error> {
    // Before the device is opened, which may take long.
    let identity = arguments.tls.as_deref().map(Identity::load).transpose();
    let tls = identity.map_err(|error| Error::Remote(error.to_string()))?.map(|identity| identity.server());
    let device = device(arguments)?;
    let size = format_size(device.len_bytes());
    let place = listener.to_string();
    // As clients name it.
    let place = if tls.is_some() { place.replacen("nbd", "nbds", 1) } else { place };
    let settings = Settings {
        threads: arguments.threads.into(),
        connections_max: arguments.connections.into(),
        tls,
        ..Settings::default()
    };
    let server = Server::new(device, &arguments.name, listener, settings, Arc::new(words::say));
    let stopper = server.stopper();
    let mut is_ending = false;
    ending::on_wish(move || {
        // The device may be one that never answers.
        if is_ending {
            words::say("ended at once: what was not flushed may be lost");
            process::exit(2);
        }
        is_ending = true;
        if stopper.connections() > 0 {
            words::say("ending: requests that have begun are answered, connections are closed");
        }
        stopper.stop();
    })?;
    omitted.extend(precautions::lock_memory());
    warn_when_swapped(omitted, Area::Nbd);
    writeln!(
        io::stdout(),
        "{} ({size}) is served at {}",
        printable(&arguments.flash.display().to_string()),
        printable(&place)
    )?;
    server.serve().map_err(Error::BlockSync)?;
    Ok(ExitCode::SUCCESS)
}
