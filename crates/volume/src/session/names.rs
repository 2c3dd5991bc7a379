//! Names by path: makes, moves and removes.

use std::ops::Deref;

use super::Session;
use crate::access::{self, Access};
use crate::error::{Result, VolumeError};
use crate::inode::{Inode, Kind};
use crate::key::Ino;
use crate::names::{IfTaken, Renamed};
use crate::path::Last;
use crate::volume::Volume;

impl<V: Deref<Target = Volume> + Clone> Session<V> {
    /// Makes a folder.
    ///
    /// # Errors
    /// [`VolumeError::Exists`], [`VolumeError::NoSpace`], [`VolumeError::TooManyLinks`].
    pub fn make_folder(&self, path: &[u8], mode: u16) -> Result<Ino> {
        let (folder, name) = self.new_place(path, true)?;
        self.volume.add(folder, &name, &[], false, |folder| self.new_inode(folder, Kind::Folder, mode))
    }

    /// A new inode for a folder in which the user may make names.
    pub(super) fn new_inode(&self, folder: &Inode, kind: Kind, mode: u16) -> Result<Inode> {
        access::check(&self.who, folder, Access::CHANGE_NAMES)?;
        let (mode, gid) = access::for_new(&self.who, folder, kind, mode);
        Ok(Inode::new(kind, mode, self.who.uid, gid))
    }

    /// Makes a symbolic link that leads to `target`, which need not be there.
    ///
    /// # Errors
    /// As [`Session::make_folder`]; [`VolumeError::NameTooLong`] for the target.
    pub fn make_symlink(&self, target: &[u8], path: &[u8]) -> Result<Ino> {
        let (folder, name) = self.new_place(path, false)?;
        self.volume.add_symlink(folder, &name, target, |folder| {
            Ok(Inode { mode: 0o777, ..self.new_inode(folder, Kind::Symlink, 0o777)? })
        })
    }

    /// Gives a file another name. A symbolic link at the end of `path` is itself named.
    ///
    /// # Errors
    /// [`VolumeError::Exists`], [`VolumeError::TooManyLinks`], [`VolumeError::NoSpace`]; [`VolumeError::NotOwner`] for folders, and for files of others
    /// that the user may not read and write.
    pub fn link(&self, path: &[u8], new: &[u8]) -> Result<()> {
        let (ino, inode) = self.stat(path, Last::Keep)?;
        access::check_link(&self.who, &inode)?;
        let (folder, name) = self.new_place(new, false)?;
        self.volume
            .link_if(ino, folder, &name, |folder| access::check(&self.who, folder, Access::CHANGE_NAMES))
    }

    /// Takes its name away from a file or symbolic link.
    ///
    /// # Errors
    /// [`VolumeError::IsAFolder`]; [`VolumeError::NotOwner`] in a sticky folder.
    pub fn unlink(&self, path: &[u8]) -> Result<()> {
        let found = self.resolve(path, Last::Name)?;
        let Some((folder, name)) = &found.place else { return Err(VolumeError::IsAFolder) };
        self.volume.unlink_if(*folder, name, |folder, inode| {
            access::check_removal(&self.who, folder, inode)?;
            if found.is_folder_meant && inode.kind != Kind::Folder {
                Err(VolumeError::NotAFolder)
            } else {
                Ok(())
            }
        })
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// [`VolumeError::NotEmpty`]; [`VolumeError::NotOwner`] in a sticky folder; [`VolumeError::Invalid`] for paths that end with `/`, `.`
    /// or `..` alone.
    pub fn remove_folder(&self, path: &[u8]) -> Result<()> {
        let found = self.resolve(path, Last::Name)?;
        let Some((folder, name)) = &found.place else {
            return Err(VolumeError::Invalid("this folder can only be removed by its name in another"));
        };
        self.volume
            .remove_folder_if(*folder, name, |folder, inode| access::check_removal(&self.who, folder, inode))
    }

    /// Changes the name of a file or folder, as [`Volume::rename`] does.
    ///
    /// # Errors
    /// Those of [`Volume::rename`]; [`VolumeError::NotOwner`] in a sticky folder; [`VolumeError::Invalid`] for paths that end with `/`, `.`
    /// or `..` alone.
    pub fn rename(&self, path: &[u8], new: &[u8], if_taken: IfTaken) -> Result<()> {
        const NAMELESS: VolumeError =
            VolumeError::Invalid("a path that ends with '/', '.' or '..' alone has no name to change");
        let (source, target) = (self.resolve(path, Last::Name)?, self.resolve(new, Last::Name)?);
        let (Some(from), Some(to)) = (&source.place, &target.place) else { return Err(NAMELESS) };
        let may = |renamed: &Renamed| {
            let Renamed { from: source_folder, moved, to: target_folder, taken } = renamed;
            access::check_removal(&self.who, source_folder, moved)?;
            access::check(&self.who, target_folder, Access::CHANGE_NAMES)?;
            if moved.kind != Kind::Folder && (source.is_folder_meant || target.is_folder_meant) {
                return Err(VolumeError::NotAFolder);
            }
            if let Some(taken) = taken {
                access::check_removal(&self.who, target_folder, taken)?;
            }
            if from.0 != to.0 {
                self.check_new_parent(moved)?;
                if let (IfTaken::Exchange, Some(taken)) = (if_taken, taken) {
                    self.check_new_parent(taken)?;
                }
            }
            Ok(())
        };
        self.volume.rename_if((from.0, &from.1), (to.0, &to.1), if_taken, may)
    }

    /// A folder that gets another parent is changed itself.
    fn check_new_parent(&self, moved: &Inode) -> Result<()> {
        match moved.kind {
            Kind::Folder => access::check(&self.who, moved, Access::WRITE),
            _ => Ok(()),
        }
    }

    /// Folder and name for something new.
    fn new_place(&self, path: &[u8], may_end_in_slash: bool) -> Result<(Ino, Vec<u8>)> {
        let found = self.resolve(path, Last::Name)?;
        match found.place {
            Some(place) if found.ino.is_none() => {
                if found.is_folder_meant && !may_end_in_slash {
                    return Err(VolumeError::NotFound);
                }
                Ok(place)
            }
            _ => Err(VolumeError::Exists),
        }
    }
}
