//! What a device is made of: flash of this machine, and RAM of others.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aquifer_base::units::format_size;
use aquifer_device::{Device, FileDevice, OpenError};
use aquifer_remote::borrower::{Borrower, BorrowerError, BorrowerOptions};
use aquifer_remote::control::identity::IdentityError;
use aquifer_remote::control::{Identity, Security};
use aquifer_remote::far::{Code, FarDevice, FarOptions};

/// What a device is made of. This is the one place that knows; whatever serves a device sees a [`Device`] and nothing else.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file or block device with the bytes; a folder for a file without a name.
    pub flash: PathBuf,
    /// Size of the device; of a block device 0 is all of it.
    pub size_bytes: u64,
    /// Machines that lend RAM, `HOST:PORT`.
    pub donors: Vec<String>,
    /// Whether donors are not asked who else lends.
    pub donors_only: bool,
    /// This host's folder of their cluster; without it, donors are on this machine.
    pub cluster: Option<PathBuf>,
    /// Where what lies on donors is as well.
    pub copies: Copies,
    /// Whether donors can neither read nor change what they hold.
    pub seals: bool,
    /// How donors divide what they have, 1 to 1000.
    pub weight: u32,
}

/// Where what lies on donors is as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Copies {
    /// On the flash of this machine.
    #[default]
    Flash,
    /// With a second donor.
    Donor,
}

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The flash cannot be opened.
    #[error(transparent)]
    Flash(#[from] OpenError),
    /// The folder of the cluster is not one.
    #[error(transparent)]
    Cluster(#[from] IdentityError),
    /// No donor lends.
    #[error(transparent)]
    Donors(#[from] BorrowerError),
    /// There is no memory for pages on their way to donors.
    #[error("pages cannot be sent to donors: {0}")]
    Far(io::Error),
}

impl Default for Source {
    fn default() -> Self {
        Source {
            flash: PathBuf::new(),
            size_bytes: 0,
            donors: Vec::new(),
            donors_only: false,
            cluster: None,
            copies: Copies::default(),
            seals: false,
            weight: 100,
        }
    }
}

/// The device that `arguments` name. Warnings go to `report`.
///
/// # Errors
/// [`SourceError`].
pub fn device(arguments: &Source, report: &dyn Fn(&str)) -> Result<Arc<dyn Device>, SourceError> {
    let held_bytes = held_bytes(&arguments.flash).unwrap_or(0);
    let local = Arc::new(FileDevice::open(&arguments.flash, arguments.size_bytes)?);
    if held_bytes > local.len_bytes() && arguments.size_bytes > 0 {
        report(&rest(&arguments.flash, held_bytes, arguments.size_bytes));
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
    let borrower = Borrower::start(options)?;
    let code = match arguments.copies {
        Copies::Flash => Code::FLASH,
        Copies::Donor => Code::COPY,
    };
    // A file without a name is gone with this process.
    let (seals, outlives) = (arguments.seals, !arguments.flash.is_dir());
    let options =
        FarOptions { slab_bytes: borrower.slab_bytes(), code, seals, outlives, ..FarOptions::default() };
    let device = FarDevice::new(local, Arc::new(borrower), &options).map_err(SourceError::Far)?;
    Ok(Arc::new(device))
}

/// Hosts of a cluster, or this machine alone.
fn security(cluster: Option<&Path>) -> Result<Security, IdentityError> {
    let identity = cluster.map(Identity::load).transpose()?;
    Ok(identity.map_or(Security::Loopback, |identity| Security::Cluster(Arc::new(identity))))
}

/// What is said of a file or block device of which a part is not served.
fn rest(path: &Path, held_bytes: u64, served_bytes: u64) -> String {
    format!(
        "warning: {} has {}, of which only the first {} are served: the size of all of it is {held_bytes}",
        path.display(),
        format_size(held_bytes),
        format_size(served_bytes)
    )
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
