//! An open file.

use std::ops::Deref;

use super::Session;
use crate::access::{self, Access};
use crate::error::{Result, VolumeError};
use crate::files::NODE;
use crate::inode::{Inode, Kind};
use crate::key::Ino;
use crate::path::Last;
use crate::volume::Volume;

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenHow {
    /// [`Access::READ`], [`Access::WRITE`] or both.
    pub access: Access,
    /// Makes the file with these permissions if it is not there.
    pub make: Option<u16>,
    /// With `make`: fails if it is there.
    pub is_new: bool,
    /// Takes its bytes away.
    pub is_truncated: bool,
    /// Stops at a symbolic link at the end of the path, with [`VolumeError::TooManySymlinks`].
    pub keeps_link: bool,
}

impl OpenHow {
    /// To read.
    pub const READ: OpenHow =
        OpenHow { access: Access::READ, make: None, is_new: false, is_truncated: false, keeps_link: false };

    /// To write from the first byte; made if it is not there.
    #[must_use]
    pub fn write_anew(mode: u16) -> Self {
        OpenHow { access: Access::WRITE, make: Some(mode), is_truncated: true, ..Self::READ }
    }

    /// To write to a file that is not there yet.
    #[must_use]
    pub fn make_new(mode: u16) -> Self {
        OpenHow { is_new: true, is_truncated: false, ..Self::write_anew(mode) }
    }
}

/// A file that is open: its bytes stay until this is dropped, also if it loses its last name.
#[derive(Debug)]
pub struct OpenFile<V: Deref<Target = Volume> + Clone> {
    session: Session<V>,
    ino: Ino,
    access: Access,
}

impl<V: Deref<Target = Volume> + Clone> Session<V> {
    /// Opens a file, or a folder to read its attributes.
    ///
    /// # Errors
    /// [`VolumeError::Exists`], [`VolumeError::IsAFolder`] to write, [`VolumeError::NoSpace`], [`VolumeError::ReadOnly`].
    pub fn open(&self, path: &[u8], how: &OpenHow) -> Result<OpenFile<V>> {
        /// Each further attempt means that the file came or went in the moment between looking and opening.
        const ATTEMPTS: u32 = 1000;
        let last = match how {
            OpenHow { make: Some(_), is_new: true, .. } => Last::Name,
            OpenHow { keeps_link: true, .. } => Last::Keep,
            _ => Last::Follow,
        };
        for _ in 0..ATTEMPTS {
            let found = self.resolve(path, last)?;
            let opened = match (found.ino, found.place, how.make) {
                (Some(_), _, Some(_)) if how.is_new => return Err(VolumeError::Exists),
                (Some(ino), ..) => self.open_old(ino, how),
                (None, _, Some(_)) if found.is_folder_meant => return Err(VolumeError::IsAFolder),
                (None, Some((folder, name)), Some(mode)) => self.open_new(folder, &name, mode, how),
                (None, ..) => return Err(VolumeError::NotFound),
            };
            match opened {
                Err(VolumeError::Exists) if !how.is_new => {}
                Err(VolumeError::NotFound) if found.ino.is_some() => {}
                opened => return opened,
            }
        }
        Err(VolumeError::NotFound)
    }

    fn open_old(&self, ino: Ino, how: &OpenHow) -> Result<OpenFile<V>> {
        let before = self.volume.inode(ino)?;
        match before.kind {
            Kind::Symlink => return Err(VolumeError::TooManySymlinks),
            Kind::Folder if how.access.has(Access::WRITE) || how.make.is_some() || how.is_truncated => {
                return Err(VolumeError::IsAFolder);
            }
            kind if kind.is_node() => return Err(NODE),
            _ => {}
        }
        let needed = if how.is_truncated { how.access.and(Access::WRITE) } else { how.access };
        access::check(&self.who, &before, needed)?;
        let file = self.hold(ino, how.access);
        // It may have gone, and another may have got its number, before it was held.
        let inode = self.volume.inode(ino)?;
        if inode.generation != before.generation || inode.links == 0 {
            return Err(VolumeError::NotFound);
        }
        if how.is_truncated && inode.size_bytes > 0 {
            self.volume.truncate(ino, 0)?;
            self.note_written(ino)?;
        }
        Ok(file)
    }

    fn open_new(&self, folder: Ino, name: &[u8], mode: u16, how: &OpenHow) -> Result<OpenFile<V>> {
        let ino =
            self.volume.add(folder, name, &[], true, |folder| self.new_inode(folder, Kind::File, mode))?;
        Ok(OpenFile { session: self.clone(), ino, access: how.access })
    }

    fn hold(&self, ino: Ino, access: Access) -> OpenFile<V> {
        self.volume.hold(ino);
        OpenFile { session: self.clone(), ino, access }
    }
}

impl<V: Deref<Target = Volume> + Clone> OpenFile<V> {
    /// Its number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// What is known of it.
    ///
    /// # Errors
    /// The volume's.
    pub fn inode(&self) -> Result<Inode> {
        self.session.volume.inode(self.ino)
    }

    /// As [`Volume::read`].
    ///
    /// # Errors
    /// [`VolumeError::PermissionDenied`] if it is not open to read; the volume's.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.need(Access::READ)?;
        self.session.volume.read(self.ino, offset, bytes)
    }

    /// As [`Volume::write`].
    ///
    /// # Errors
    /// [`VolumeError::PermissionDenied`] if it is not open to write; the volume's.
    ///
    /// # Durability
    /// None before [`Volume::sync`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        self.need(Access::WRITE)?;
        let written = self.session.volume.write(self.ino, offset, bytes)?;
        self.session.note_written(self.ino)?;
        Ok(written)
    }

    /// As [`Volume::append`].
    ///
    /// # Errors
    /// As [`OpenFile::write`].
    pub fn append(&self, bytes: &[u8]) -> Result<(u64, usize)> {
        self.need(Access::WRITE)?;
        let written = self.session.volume.append(self.ino, bytes)?;
        self.session.note_written(self.ino)?;
        Ok(written)
    }

    /// As [`Volume::truncate`].
    ///
    /// # Errors
    /// As [`OpenFile::write`].
    pub fn truncate(&self, size_bytes: u64) -> Result<()> {
        self.need(Access::WRITE)?;
        self.session.volume.truncate(self.ino, size_bytes)?;
        self.session.note_written(self.ino)
    }

    /// As [`Volume::punch`].
    ///
    /// # Errors
    /// As [`OpenFile::write`].
    pub fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.need(Access::WRITE)?;
        self.session.volume.punch(self.ino, offset, len_bytes)?;
        self.session.note_written(self.ino)
    }

    fn need(&self, access: Access) -> Result<()> {
        if self.access.has(access) { Ok(()) } else { Err(VolumeError::PermissionDenied) }
    }
}

impl<V: Deref<Target = Volume> + Clone> Drop for OpenFile<V> {
    fn drop(&mut self) {
        // Bytes that cannot be freed now are freed when the volume is opened next.
        let _ = self.session.volume.let_go(self.ino);
    }
}
