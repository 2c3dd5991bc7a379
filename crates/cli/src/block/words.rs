//! Sentences on standard error.

use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;

use aquifer_base::units::format_size;

use crate::error::printable;

/// Says something about a client, the device or the end.
pub fn say(sentence: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "aquifer: {}", printable(sentence));
}

/// Says that others reach the device.
pub fn warn_of_strangers(address: IpAddr) {
    say(&format!(
        "warning: whoever reaches {address} over the network can read and write the device; there is no password, and nothing is encrypted"
    ));
}

/// Says that a part of the file or block device is not served.
pub fn warn_of_rest(path: &Path, held_bytes: u64, served_bytes: u64) {
    say(&format!(
        "warning: {} has {}, of which only the first {} are served: to serve all of it, say --size {held_bytes}",
        path.display(),
        format_size(held_bytes),
        format_size(served_bytes)
    ));
}
