//! Files and folders that can be copied, wherever they are.
//!
//! | file | where |
//! |---|---|
//! | `host` | on the host |
//! | `inside` | in a volume |

mod host;
mod inside;

use std::ops::Range;

use aquifer_volume::path::Last;
use aquifer_volume::{Kind, Time};

pub use host::HostTree;
pub use inside::VolumeTree;

use crate::error::Error;

/// What is known of a file besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// What it is; `None` for a socket, a device and the like.
    pub kind: Option<Kind>,
    /// Bytes that it takes where it is.
    pub stored_bytes: u64,
    /// Permissions: the lower 12 bits of a mode.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read.
    pub read_at: Time,
    /// Last change of its bytes.
    pub written_at: Time,
}

/// Files and folders by path.
pub trait Tree {
    /// A path as it is shown.
    fn shown(&self, path: &[u8]) -> String;

    /// What is at a path; `None` if nothing is.
    ///
    /// # Errors
    /// It could not be looked at.
    fn look(&self, path: &[u8], last: Last) -> Result<Option<Meta>, Error>;

    /// Names in a folder, in their order.
    ///
    /// # Errors
    /// It could not be read.
    fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Error>;

    /// What a symbolic link says.
    ///
    /// # Errors
    /// It could not be read.
    fn target(&self, path: &[u8]) -> Result<Vec<u8>, Error>;

    /// The bytes of a file.
    ///
    /// # Errors
    /// It could not be opened.
    fn source(&self, path: &[u8]) -> Result<Box<dyn Source + '_>, Error>;

    /// A new file that gets its name when it is finished; what has the name loses it then.
    ///
    /// # Errors
    /// It could not be made.
    fn sink(&self, path: &[u8], mode: u16) -> Result<Box<dyn Sink + '_>, Error>;

    /// Makes a folder.
    ///
    /// # Errors
    /// It could not be made.
    fn make_folder(&self, path: &[u8], mode: u16) -> Result<(), Error>;

    /// Makes a symbolic link; what file has the name loses it.
    ///
    /// # Errors
    /// It could not be made.
    fn make_symlink(&self, target: &[u8], path: &[u8]) -> Result<(), Error>;

    /// Gives a folder or symbolic link permissions, owner and times.
    ///
    /// # Errors
    /// It could not be changed.
    fn set_meta(&self, path: &[u8], meta: &Meta) -> Result<(), Error>;
}

/// Bytes to copy.
pub trait Source {
    /// Some of the ranges from `from` on that may hold anything but zeros, in their order; none if there are no more.
    ///
    /// # Errors
    /// They could not be found.
    fn ranges(&mut self, from: u64) -> Result<Vec<Range<u64>>, Error>;

    /// Reads bytes; fewer than asked for only at the end.
    ///
    /// # Errors
    /// They could not be read.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error>;

    /// Bytes of the file, zeros included.
    ///
    /// # Errors
    /// It could not be asked.
    fn size_bytes(&mut self) -> Result<u64, Error>;
}

/// A file that is made. If it is dropped before it is finished, nothing of it stays.
pub trait Sink {
    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// Some could not be written.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Gives the file its size, what `meta` says, and its name.
    ///
    /// # Errors
    /// It has no name then, and is gone.
    fn finish(self: Box<Self>, size_bytes: u64, meta: Option<&Meta>) -> Result<(), Error>;
}
