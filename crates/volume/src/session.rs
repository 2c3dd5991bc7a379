//! What one user does with a volume, by path.
//!
//! | file | what |
//! |---|---|
//! | `names` | makes, moves and removes |
//! | `attributes` | permissions, owners, times, sizes |
//! | `file` | an open file |
//!
//! A user's rights are checked just before each operation: a change of permissions at the same time comes
//! before or after it.

mod attributes;
mod file;
mod names;

use std::ops::{ControlFlow, Deref};

pub use attributes::SetTime;
pub use file::{OpenFile, OpenHow};

use crate::access::{self, Access, Credentials};
use crate::error::{Result, VolumeError};
use crate::inode::{Inode, Kind};
use crate::key::Ino;
use crate::names::Listed;
use crate::path::{Found, Last, Names, resolve};
use crate::volume::Volume;

/// A user at a volume. `V` is a reference to it, or shares it, as `Arc<Volume>` does.
///
/// Paths are bytes; they begin in the volume's first folder, or with [`Session::from`] in another if no slash stands first. Besides what
/// each method says, all fail with [`VolumeError::NotFound`], [`VolumeError::NotAFolder`], [`VolumeError::NameTooLong`],
/// [`VolumeError::BadName`], [`VolumeError::TooManySymlinks`] for paths that lead nowhere, with [`VolumeError::PermissionDenied`], and
/// when the volume does.
#[derive(Clone, Debug)]
pub struct Session<V> {
    volume: V,
    who: Credentials,
    from: Ino,
}

impl<V: Deref<Target = Volume> + Clone> Session<V> {
    /// A user whose paths begin in the volume's first folder.
    #[must_use]
    pub fn new(volume: V, who: Credentials) -> Self {
        Session { volume, who, from: Ino::ROOT_FOLDER }
    }

    /// The same user, whose paths without a slash in front begin in `folder`.
    #[must_use]
    pub fn from(&self, folder: Ino) -> Self {
        Session { from: folder, ..self.clone() }
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The user.
    pub fn who(&self) -> &Credentials {
        &self.who
    }

    /// Where a path leads; what its last name stands for may be missing.
    ///
    /// # Errors
    /// Those of all paths.
    pub fn resolve(&self, path: &[u8], last: Last) -> Result<Found> {
        resolve(self, self.from, path, last)
    }

    /// The number of a file or folder.
    ///
    /// # Errors
    /// Those of all paths.
    pub fn find(&self, path: &[u8], last: Last) -> Result<Ino> {
        self.resolve(path, last)?.ino.ok_or(VolumeError::NotFound)
    }

    /// What is known of a file or folder.
    ///
    /// # Errors
    /// Those of all paths.
    pub fn stat(&self, path: &[u8], last: Last) -> Result<(Ino, Inode)> {
        let ino = self.find(path, last)?;
        Ok((ino, self.volume.inode(ino)?))
    }

    /// Fails if the user may not use a file so.
    ///
    /// # Errors
    /// Those of all paths.
    pub fn check_access(&self, path: &[u8], access: Access) -> Result<()> {
        access::check(&self.who, &self.stat(path, Last::Follow)?.1, access)
    }

    /// What a symbolic link says.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] if the file is not a symbolic link.
    pub fn read_link(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.volume.read_link(self.find(path, Last::Keep)?)
    }

    /// Lists a folder, as [`Volume::list`] does.
    ///
    /// # Errors
    /// Those of all paths.
    pub fn list(
        &self,
        path: &[u8],
        from: u64,
        visit: impl FnMut(Listed<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let (ino, inode) = self.stat(path, Last::Follow)?;
        if inode.kind != Kind::Folder {
            return Err(VolumeError::NotAFolder);
        }
        access::check(&self.who, &inode, Access::READ)?;
        self.volume.list(ino, from, visit)
    }
}

impl<V: Deref<Target = Volume> + Clone> Names for Session<V> {
    fn enter(&self, folder: Ino) -> Result<()> {
        access::check(&self.who, &self.volume.folder(folder)?, Access::EXECUTE)
    }

    fn look_up(&self, folder: Ino, name: &[u8]) -> Result<Option<(Ino, Kind)>> {
        match self.volume.lookup(folder, name) {
            Ok(ino) => Ok(Some((ino, self.volume.inode(ino)?.kind))),
            Err(VolumeError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn parent(&self, folder: Ino) -> Result<Ino> {
        Ok(if folder == Ino::ROOT_FOLDER { folder } else { self.volume.inode(folder)?.parent })
    }

    fn target(&self, folder: Ino, link: Ino) -> Result<Vec<u8>> {
        access::check_follow(&self.who, &self.volume.folder(folder)?, &self.volume.inode(link)?)?;
        self.volume.read_link(link)
    }
}
