//! Sentences on standard error.

use std::io::{self, Write};
use std::net::IpAddr;

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
