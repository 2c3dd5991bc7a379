//! A new volume.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;

use aquifer_base::units::format_size;
use aquifer_volume::{Volume, image};

use super::arguments::CreateArguments;
use super::opened;
use crate::error::{Error, printable};

/// Makes an empty volume.
///
/// # Errors
/// [`Error`]; what the file or device holds is gone only if it was named twice.
pub fn create(arguments: &CreateArguments) -> Result<ExitCode, Error> {
    let path = &arguments.path;
    let failed = || opened::failed(path);
    let (is_there, is_block_device) = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Err(Error::NewVolumeIsFolder { path: path.clone() }),
        Ok(metadata) => (true, metadata.file_type().is_block_device()),
        Err(_) => (false, false),
    };
    if arguments.size.is_none() && !is_block_device {
        return Err(Error::NoSize);
    }
    let is_named_again = match &arguments.erase {
        Some(Some(again)) if again == path => true,
        Some(again) => return Err(Error::EraseOther { path: path.clone(), again: again.clone() }),
        None => false,
    };
    if is_there && !is_named_again && holds_data(path)? {
        return Err(Error::VolumeHoldsData { path: path.clone() });
    }
    let medium = image::new_medium(path, arguments.size.unwrap_or(0), arguments.segment.unwrap_or(0));
    let made = medium.and_then(|medium| Volume::create(medium, opened::user()));
    if let Err(error) = made {
        if !is_there {
            // The error that led here says more than a failure to clean up could.
            let _ = fs::remove_file(path);
        }
        return Err(failed()(error));
    }
    let volume = opened::to_read(path)?;
    let found = volume.space().map_err(failed())?;
    let name = path.display().to_string();
    let room = format_size(found.capacity_bytes);
    writeln!(io::stdout(), "{}: an empty volume with room for {room}", printable(&name))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether anything but zeros is at the beginning, where file systems and volumes have their own.
fn holds_data(path: &Path) -> Result<bool, Error> {
    /// File systems write at most so far from the beginning before anything else.
    const LOOKED_AT_BYTES: u64 = 1 << 20;
    let failed = |error| Error::File { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(LOOKED_AT_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes.iter().any(|byte| *byte != 0))
}
