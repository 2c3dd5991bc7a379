//! The device that is served.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use aquifer_device::{Device, FileDevice};
use aquifer_remote::borrower::{Borrower, BorrowerOptions};
use aquifer_remote::far::{Code, FarDevice, FarOptions};

use super::arguments::BlockArguments;
use super::words;
use crate::arguments::CopiesArgument;
use crate::error::Error;
use crate::remote::security;

/// The device that the arguments name. This is the one place that knows what it is made of; whatever serves it sees a [`Device`] and nothing else.
///
/// # Errors
/// [`Error::BlockDevice`], or [`Error::Remote`] if no donor lends.
pub fn device(arguments: &BlockArguments) -> Result<Arc<dyn Device>, Error> {
    let held_bytes = held_bytes(&arguments.flash).unwrap_or(0);
    let local = Arc::new(FileDevice::open(&arguments.flash, arguments.size)?);
    if held_bytes > local.len_bytes() && arguments.size > 0 {
        words::warn_of_rest(&arguments.flash, held_bytes, arguments.size);
    }
    if arguments.donors.is_empty() {
        return Ok(local);
    }
    let options = BorrowerOptions {
        donors: arguments.donors.clone(),
        donors_only: arguments.donors_only,
        security: security(arguments.cluster.as_deref())?,
        weight: arguments.weight,
        ..BorrowerOptions::default()
    };
    let borrower = Borrower::start(options).map_err(|error| Error::Remote(error.to_string()))?;
    let code = match arguments.copies {
        CopiesArgument::Flash => Code::FLASH,
        CopiesArgument::Donor => Code::COPY,
        CopiesArgument::Coded(_) => {
            // Coding takes memory while it writes, which swap has none of.
            return Err(Error::Remote("block devices have no parity: use --copies flash or donor".into()));
        }
    };
    // A file without a name is gone with this process.
    let (seals, outlives) = (arguments.seal, !arguments.flash.is_dir());
    let far_options =
        FarOptions { slab_bytes: borrower.slab_bytes(), code, seals, outlives, ..FarOptions::default() };
    Ok(Arc::new(FarDevice::new(local, Arc::new(borrower), &far_options)?))
}

/// Bytes of a file or block device; 0 for anything else, such as a folder, whose file has no name.
fn held_bytes(path: &Path) -> io::Result<u64> {
    let metadata = fs::metadata(path)?;
    match metadata.file_type() {
        kind if kind.is_file() => Ok(metadata.len()),
        kind if kind.is_block_device() => File::open(path)?.seek(SeekFrom::End(0)),
        _ => Ok(0),
    }
}
