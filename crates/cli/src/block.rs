//! `aquifer block`: a device for kernels, over NBD, as a block device or as a file through FUSE.
//!
//! | file | noun |
//! |---|---|
//! | `arguments` | what may stand on the command line |
//! | `device` | the device that is served |
//! | `network`, `folder`, `kernel` | the ways to serve it |
//! | `swapped` | warnings for a machine that swaps to it |
//! | `words` | sentences on standard error |

pub mod arguments;
mod device;
mod folder;
mod kernel;
mod network;
mod swapped;
mod words;

use std::process::ExitCode;

use aquifer_block::nbd::Listener;
use aquifer_block::precautions;

use crate::error::Error;
use arguments::{BlockArguments, Way};

/// Serves a device until a signal.
///
/// # Errors
/// The device cannot be opened, or not be served.
pub fn block(arguments: &BlockArguments) -> Result<ExitCode, Error> {
    match arguments.address_for_everybody() {
        Some(address) if !arguments.without_tls => return Err(Error::BlockForEverybody(address)),
        Some(address) => words::warn_of_strangers(address.ip()),
        None => {}
    }
    // First: threads inherit it.
    let omitted = precautions::mark_process();
    match arguments.way() {
        Way::Address(address) => {
            // Before the device is opened, which may take long: the port may be taken.
            let listener = Listener::tcp(address)?;
            network::serve(arguments, listener, omitted)
        }
        Way::Socket(path) => network::serve(arguments, Listener::unix(path)?, omitted),
        Way::Folder(path) => folder::serve(arguments, path, omitted),
        Way::Ublk => kernel::serve(arguments, omitted),
    }
}
