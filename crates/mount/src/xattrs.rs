//! Extended attributes.

use std::ffi::OsStr;

use aquifer_volume::{Result, SetXattr, VolumeError};
use fuser::{Errno, INodeNo, ReplyXattr};
use libc::{XATTR_CREATE, XATTR_REPLACE};

use crate::attributes::ino_of;
use crate::server::Server;

impl Server {
    /// After this error the kernel asks no more of the kind.
    fn check_xattrs(&self) -> Result<()> {
        const NONE: VolumeError = VolumeError::System { step: "extended attributes", errno: libc::ENOSYS };
        if self.has_xattrs { Ok(()) } else { Err(NONE) }
    }

    /// Gives an attribute a value, as `flags` of the system call say.
    pub fn set_attribute(&self, ino: INodeNo, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        self.check_xattrs()?;
        let (ino, name) = (ino_of(ino)?, name.as_encoded_bytes());
        let how = match flags {
            0 => SetXattr::Any,
            XATTR_CREATE => SetXattr::Create,
            XATTR_REPLACE => SetXattr::Replace,
            _ => return Err(VolumeError::Invalid("a way to set an extended attribute that is not known")),
        };
        self.room.with(&self.volume, || self.volume.set_xattr(ino, name, value, how))
    }

    /// The value of an attribute.
    pub fn attribute(&self, ino: INodeNo, name: &OsStr) -> Result<Vec<u8>> {
        self.check_xattrs()?;
        self.volume.xattr(ino_of(ino)?, name.as_encoded_bytes())
    }

    /// The names of a file's attributes, a NUL behind each.
    pub fn attribute_names(&self, ino: INodeNo) -> Result<Vec<u8>> {
        self.check_xattrs()?;
        let all = self.volume.xattrs(ino_of(ino)?)?;
        Ok(all.names().flat_map(|name| name.iter().chain(&[0])).copied().collect())
    }

    /// Takes an attribute away.
    pub fn remove_attribute(&self, ino: INodeNo, name: &OsStr) -> Result<()> {
        self.check_xattrs()?;
        self.volume.remove_xattr(ino_of(ino)?, name.as_encoded_bytes())
    }
}

/// Sends `found` to a program with room for `size` bytes, or says how many they are if `size` is 0.
pub fn answer_sized(reply: ReplyXattr, size: u32, found: Result<Vec<u8>>) {
    match found {
        Ok(bytes) if size == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() <= size as usize => reply.data(&bytes),
        Ok(_) => reply.error(Errno::ERANGE),
        Err(error) => reply.error(Errno::from_i32(error.errno())),
    }
}
