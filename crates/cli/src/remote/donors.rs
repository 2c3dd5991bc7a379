//! `aquifer donors`: who lends how much.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use aquifer_remote::borrower::{BorrowerOptions, look};
use clap::Args;

use crate::error::{Error, printable};
use crate::remote::security;

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  aquifer donors alpha:7447 beta:7447 --cluster /etc/aquifer
  aquifer donors 127.0.0.1:7447

Exit status: 0 all of them answered, 1 some did not, 2 nobody could be asked.";

/// Arguments of `aquifer donors`.
#[derive(Args, Debug)]
pub struct DonorsArguments {
    /// Where they are: HOST:PORT
    #[arg(required = true, value_name = "DONOR")]
    pub donors: Vec<String>,
    /// This host's folder of a cluster
    #[arg(long, value_name = "FOLDER")]
    pub cluster: Option<PathBuf>,
}

/// Asks donors.
///
/// # Errors
/// This host has no identity.
pub fn donors(arguments: &DonorsArguments) -> Result<ExitCode, Error> {
    let options =
        BorrowerOptions { security: security(arguments.cluster.as_deref())?, ..BorrowerOptions::default() };
    let mut out = io::stdout().lock();
    let mut is_whole = true;
    writeln!(out, "{:<28} {:>8} {:>8} {:>9}  {:<8} domain", "donor", "slabs", "free", "slab", "provider")?;
    for donor in &arguments.donors {
        match look(donor, &options) {
            Ok((welcome, offer)) => writeln!(
                out,
                "{:<28} {:>8} {:>8} {:>5} MiB  {:<8} {}",
                printable(donor),
                offer.slabs,
                offer.free_slabs,
                welcome.slab_bytes >> 20,
                printable(&welcome.provider),
                printable(&welcome.domain)
            )?,
            Err(error) => {
                is_whole = false;
                writeln!(out, "{:<28} {}", printable(donor), printable(&error.to_string()))?;
            }
        }
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
