//! Permissions, owners, times and sizes by path.

use std::ops::Deref;

use super::Session;
use crate::access::{self, Access};
use crate::error::Result;
use crate::inode::{Inode, Time};
use crate::key::Ino;
use crate::path::Last;
use crate::volume::{Attributes, Volume};

/// What to do with a time of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// Nothing.
    Keep,
    /// It is now.
    Now,
    /// It was then.
    To(Time),
}

impl SetTime {
    fn resolved(self, now: Time) -> Option<Time> {
        match self {
            SetTime::Keep => None,
            SetTime::Now => Some(now),
            SetTime::To(time) => Some(time),
        }
    }
}

impl<V: Deref<Target = Volume> + Clone> Session<V> {
    /// Changes permissions; symbolic links are followed, and have none that count.
    ///
    /// # Errors
    /// [`VolumeError::NotOwner`](crate::VolumeError::NotOwner).
    pub fn chmod(&self, path: &[u8], mode: u16) -> Result<Inode> {
        self.chmod_ino(self.find(path, Last::Follow)?, mode)
    }

    /// As [`Session::chmod`], of a file that is known.
    ///
    /// # Errors
    /// [`VolumeError::NotOwner`](crate::VolumeError::NotOwner).
    pub fn chmod_ino(&self, ino: Ino, mode: u16) -> Result<Inode> {
        let mode = access::changed_mode(&self.who, &self.volume.inode(ino)?, mode)?;
        self.volume.set_attributes(ino, &Attributes { mode: Some(mode), ..Attributes::default() })
    }

    /// Gives a file another owner or group; rights of the owner that it lends are lost.
    ///
    /// # Errors
    /// [`VolumeError::NotOwner`](crate::VolumeError::NotOwner).
    pub fn chown(&self, path: &[u8], last: Last, uid: Option<u32>, gid: Option<u32>) -> Result<Inode> {
        self.chown_ino(self.find(path, last)?, uid, gid)
    }

    /// As [`Session::chown`], of a file that is known.
    ///
    /// # Errors
    /// [`VolumeError::NotOwner`](crate::VolumeError::NotOwner).
    pub fn chown_ino(&self, ino: Ino, uid: Option<u32>, gid: Option<u32>) -> Result<Inode> {
        let mode = access::mode_for_owner(&self.who, &self.volume.inode(ino)?, uid, gid)?;
        self.volume.set_attributes(ino, &Attributes { mode: Some(mode), uid, gid, ..Attributes::default() })
    }

    /// Sets when a file was last read and written.
    ///
    /// # Errors
    /// [`VolumeError::NotOwner`](crate::VolumeError::NotOwner).
    pub fn set_times(&self, path: &[u8], last: Last, read_at: SetTime, written_at: SetTime) -> Result<Inode> {
        self.set_times_ino(self.find(path, last)?, read_at, written_at)
    }

    /// As [`Session::set_times`], of a file that is known.
    ///
    /// # Errors
    /// [`VolumeError::NotOwner`](crate::VolumeError::NotOwner).
    pub fn set_times_ino(&self, ino: Ino, read_at: SetTime, written_at: SetTime) -> Result<Inode> {
        let inode = self.volume.inode(ino)?;
        let times = [read_at, written_at];
        if times == [SetTime::Keep; 2] {
            return Ok(inode);
        }
        access::check_times(&self.who, &inode, times == [SetTime::Now; 2])?;
        let now = Time::now();
        let (read_at, written_at) = (read_at.resolved(now), written_at.resolved(now));
        self.volume.set_attributes(ino, &Attributes { read_at, written_at, ..Attributes::default() })
    }

    /// Changes the size of a file, as [`Volume::truncate`] does.
    ///
    /// # Errors
    /// [`VolumeError::IsAFolder`](crate::VolumeError::IsAFolder), [`VolumeError::TooLarge`](crate::VolumeError::TooLarge).
    pub fn truncate(&self, path: &[u8], size_bytes: u64) -> Result<()> {
        let (ino, inode) = self.stat(path, Last::Follow)?;
        access::check(&self.who, &inode, Access::WRITE)?;
        self.volume.truncate(ino, size_bytes)?;
        self.note_written(ino)
    }

    /// Takes lent rights away from a file whose bytes the user has changed.
    pub(super) fn note_written(&self, ino: Ino) -> Result<()> {
        let inode = self.volume.inode(ino)?;
        let mode = access::mode_after_write(&self.who, &inode);
        if mode != inode.mode {
            self.volume.set_attributes(ino, &Attributes { mode: Some(mode), ..Attributes::default() })?;
        }
        Ok(())
    }
}
