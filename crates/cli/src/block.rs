//! `aquifer block`: a device for kernels, over NBD, as a block device or as a file through FUSE.
//!
//! | file | noun |
//! |---|---|
//! | `arguments` | what may stand on the command line |
//! | `network`, `folder`, `kernel` | the ways to serve it |
//! | `certificates` | a host's certificates by nbdkit's names |
//! | `fault` | faults that users ask for, as filters of nbdkit |

pub mod arguments;
mod certificates;
mod fault;
mod folder;
mod kernel;
mod network;

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;

use aquifer_block::nbdkit::Listener;
use aquifer_block::precautions::{self, Omitted};

use crate::error::{Error, printable};
use arguments::{BlockArguments, Way};

/// Serves a device until a signal.
///
/// # Errors
/// The device cannot be opened, or not be served.
pub fn block(arguments: &BlockArguments) -> Result<ExitCode, Error> {
    match arguments.address_for_everybody() {
        Some(address) if !arguments.without_tls => return Err(Error::BlockForEverybody(address)),
        Some(address) => warn_of_strangers(address.ip()),
        None => {}
    }
    let is_block_device =
        |path: &Path| fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    if arguments.size.is_none() && !is_block_device(&arguments.flash) {
        return Err(Error::NoSize);
    }
    let source = arguments.source();
    match arguments.way() {
        Way::Address(address) => network::serve(arguments, source, || Listener::tcp(address)),
        Way::Socket(path) => network::serve(arguments, source, || Listener::unix(path)),
        Way::Folder(path) => folder::serve(arguments, &source, path, mark()),
        Way::Ublk => kernel::serve(arguments, &source, mark()),
    }
}

/// Before the first thread is started: threads inherit it.
fn mark() -> Vec<Omitted> {
    precautions::mark_process()
}

/// Says something about a client, the device or the end, on standard error.
fn say(sentence: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "aquifer: {}", printable(sentence));
}

/// Says that others reach the device.
fn warn_of_strangers(address: IpAddr) {
    say(&format!(
        "warning: whoever reaches {address} over the network can read and write the device; there is no password, and nothing is encrypted"
    ));
}
