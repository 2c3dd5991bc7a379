//! Files on standard output.

use std::io::{self, Write};
use std::process::ExitCode;

use aquifer_volume::{OpenHow, PAGE_BYTES, VolumeError};

use super::arguments::PlacesArguments;
use super::opened::{Access, access, failed, to_read};
use super::place::Place;
use super::work::Outcome;
use crate::error::Error;

/// Writes files to standard output, one after the other.
///
/// # Errors
/// A volume cannot be opened, or nobody reads.
pub fn cat(arguments: &PlacesArguments) -> Result<ExitCode, Error> {
    let mut outcome = Outcome::default();
    for of_one in arguments.places.chunk_by(|a, b| a.volume == b.volume) {
        let volume = to_read(&of_one[0].volume)?;
        let access = access(&volume);
        for place in of_one {
            outcome.go_on(write_out(&access, place))?;
        }
    }
    Ok(outcome.exit_code())
}

fn write_out(access: &Access<'_>, place: &Place) -> Result<(), Error> {
    let failed = || failed(place.shown());
    let file = access.open(&place.path, &OpenHow::READ).map_err(failed())?;
    let mut out = io::stdout().lock();
    let mut bytes = vec![0; 1 << 18];
    let (mut offset, mut at_once) = (0, bytes.len());
    loop {
        match file.read(offset, &mut bytes[..at_once]) {
            Ok(0) => return Ok(out.flush()?),
            Ok(read) => {
                out.write_all(&bytes[..read])?;
                offset += read as u64;
            }
            // What stands before the damage was asked for as well.
            Err(VolumeError::Damaged { .. }) if at_once > PAGE_BYTES => at_once = PAGE_BYTES,
            Err(error) => return Err(failed()(error)),
        }
    }
}
