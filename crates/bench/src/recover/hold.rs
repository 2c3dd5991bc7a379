//! The program that takes RAM of a donor's machine, and holds it.
//!
//! `aquifer-bench recover --hold BYTES` is started once for each run in which a donor needs its RAM. It prints a line, [`Held`], when it has it.

use std::thread;

use serde::{Deserialize, Serialize};

use super::task::say;
use crate::error::Result;
use crate::peer::mapping::Mapping;
use crate::process::monotonic_ns;

/// The line of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Held {
    /// Before the first page, by the clock that all processes share.
    pub begin_ns: u64,
    /// After the last one.
    pub end_ns: u64,
}

/// Takes so many bytes, and holds them until it is ended from outside.
///
/// # Errors
/// [`crate::Error::Io`] if the kernel does not give them, or nobody listens.
pub fn run(bytes: u64) -> Result<()> {
    let begin_ns = monotonic_ns();
    let mapping = Mapping::anonymous(bytes as usize)?;
    // As a write to each page would, in pages of the ordinary size.
    mapping.advise(libc::MADV_POPULATE_WRITE)?;
    say(&Held { begin_ns, end_ns: monotonic_ns() })?;
    loop {
        thread::park();
    }
}
