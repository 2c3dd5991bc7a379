//! A volume, its open files and their memory: in this process, or through the process that has the volume.

use std::ops::ControlFlow;
use std::sync::Arc;

use aquifer_volume::access::{Access, Credentials};
use aquifer_volume::path::Last;
use aquifer_volume::serve::protocol::open;
use aquifer_volume::serve::{Client, RemoteFile, RemoteMapping};
use aquifer_volume::{
    IfTaken, Ino, Inode, Listed, Mapping, OpenFile, OpenHow, Protection, Result, Session, Space, Volume,
    VolumeError,
};

/// A volume.
pub(super) enum Reach {
    /// Open in this process; shared with its open files and what is mapped.
    Own { volume: Arc<Volume>, who: Credentials },
    /// Another process has it.
    Served(Arc<Client>),
}

/// An open file.
pub(super) enum Opened {
    Own { file: OpenFile<Arc<Volume>>, volume: Arc<Volume> },
    Served(RemoteFile),
}

/// A mapped file.
pub(super) enum Memory {
    Own(Mapping),
    Served(RemoteMapping),
}

fn session(volume: &Arc<Volume>, who: &Credentials) -> Session<Arc<Volume>> {
    Session::new(Arc::clone(volume), who.clone())
}

impl Reach {
    pub(super) fn open(&self, path: &[u8], how: &OpenHow) -> Result<Opened> {
        match self {
            Reach::Own { volume, who } => {
                let file = session(volume, who).open(path, how)?;
                Ok(Opened::Own { file, volume: Arc::clone(volume) })
            }
            Reach::Served(client) => {
                let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
                let flags = flag(how.access.has(Access::READ), open::READ)
                    | flag(how.access.has(Access::WRITE), open::WRITE)
                    | flag(how.make.is_some(), open::CREATE)
                    | flag(how.is_new, open::EXCLUSIVE)
                    | flag(how.is_truncated, open::TRUNCATE);
                client.open(path, flags, how.make.unwrap_or(0)).map(Opened::Served)
            }
        }
    }

    pub(super) fn make_folder(&self, path: &[u8], mode: u16) -> Result<()> {
        match self {
            Reach::Own { volume, who } => session(volume, who).make_folder(path, mode).map(drop),
            Reach::Served(client) => client.make_folder(path, mode),
        }
    }

    /// Of a file or an empty folder.
    pub(super) fn remove(&self, path: &[u8]) -> Result<()> {
        match self {
            Reach::Own { volume, who } => {
                let session = session(volume, who);
                match session.unlink(path) {
                    Err(VolumeError::IsAFolder) => session.remove_folder(path),
                    outcome => outcome,
                }
            }
            Reach::Served(client) => client.remove(path),
        }
    }

    pub(super) fn rename(&self, path: &[u8], new: &[u8], if_taken: IfTaken) -> Result<()> {
        match self {
            Reach::Own { volume, who } => session(volume, who).rename(path, new, if_taken),
            Reach::Served(client) => client.rename(path, new, if_taken),
        }
    }

    pub(super) fn link(&self, path: &[u8], new: &[u8]) -> Result<()> {
        match self {
            Reach::Own { volume, who } => session(volume, who).link(path, new),
            Reach::Served(client) => client.link(path, new),
        }
    }

    pub(super) fn make_symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        match self {
            Reach::Own { volume, who } => session(volume, who).make_symlink(target, path).map(drop),
            Reach::Served(client) => client.make_symlink(target, path),
        }
    }

    pub(super) fn read_link(&self, path: &[u8]) -> Result<Vec<u8>> {
        match self {
            Reach::Own { volume, who } => session(volume, who).read_link(path),
            Reach::Served(client) => client.read_link(path),
        }
    }

    pub(super) fn stat(&self, path: &[u8], last: Last) -> Result<(Ino, Inode)> {
        match self {
            Reach::Own { volume, who } => session(volume, who).stat(path, last),
            Reach::Served(client) => client.stat(path, last),
        }
    }

    /// Calls `visit` while it holds nothing that other calls wait for.
    pub(super) fn list(&self, path: &[u8], visit: impl FnMut(Listed<'_>) -> ControlFlow<()>) -> Result<()> {
        match self {
            Reach::Own { volume, who } => session(volume, who).list(path, 0, visit),
            Reach::Served(client) => client.list(path, visit),
        }
    }

    pub(super) fn sync(&self) -> Result<()> {
        match self {
            Reach::Own { volume, .. } => volume.sync(),
            Reach::Served(client) => client.sync(),
        }
    }

    pub(super) fn space(&self) -> Result<Space> {
        match self {
            Reach::Own { volume, .. } => volume.space(),
            Reach::Served(client) => client.space(),
        }
    }

    /// Whether none of its files is open or mapped.
    pub(super) fn is_free(&self) -> bool {
        match self {
            Reach::Own { volume, .. } => Arc::strong_count(volume) == 1,
            Reach::Served(client) => Arc::strong_count(client) == 1,
        }
    }

    /// Makes all durable, and ends; of a volume that [is free](Reach::is_free).
    pub(super) fn close(self) -> Result<()> {
        match self {
            Reach::Own { volume, .. } => Arc::into_inner(volume).map_or(Ok(()), Volume::close),
            Reach::Served(client) => client.sync(),
        }
    }
}

impl Opened {
    pub(super) fn stat(&self) -> Result<(Ino, Inode)> {
        match self {
            Opened::Own { file, .. } => Ok((file.ino(), file.inode()?)),
            Opened::Served(file) => file.stat(),
        }
    }

    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        match self {
            Opened::Own { file, .. } => file.read(offset, bytes),
            Opened::Served(file) => file.read(offset, bytes),
        }
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        match self {
            Opened::Own { file, .. } => file.write(offset, bytes),
            Opened::Served(file) => file.write(offset, bytes),
        }
    }

    pub(super) fn append(&self, bytes: &[u8]) -> Result<(u64, usize)> {
        match self {
            Opened::Own { file, .. } => file.append(bytes),
            Opened::Served(file) => file.append(bytes),
        }
    }

    pub(super) fn truncate(&self, size_bytes: u64) -> Result<()> {
        match self {
            Opened::Own { file, .. } => file.truncate(size_bytes),
            Opened::Served(file) => file.truncate(size_bytes),
        }
    }

    pub(super) fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        match self {
            Opened::Own { file, .. } => file.punch(offset, len_bytes),
            Opened::Served(file) => file.punch(offset, len_bytes),
        }
    }

    /// Of the whole volume.
    pub(super) fn sync(&self) -> Result<()> {
        match self {
            Opened::Own { volume, .. } => volume.sync(),
            Opened::Served(file) => file.client().sync(),
        }
    }

    /// What an owner serves is shared anyway.
    pub(super) fn map(
        &self,
        offset: u64,
        len: usize,
        protection: Protection,
        is_to_share: bool,
    ) -> Result<Memory> {
        match self {
            Opened::Own { file, volume } if is_to_share => {
                volume.map_to_share(file.ino(), offset, len, protection).map(Memory::Own)
            }
            Opened::Own { file, volume } => volume.map(file.ino(), offset, len, protection).map(Memory::Own),
            Opened::Served(file) => file.map(offset, len, protection).map(Memory::Served),
        }
    }
}

impl Memory {
    /// The first byte.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        match self {
            Memory::Own(mapping) => mapping.as_ptr(),
            Memory::Served(mapping) => mapping.as_ptr(),
        }
    }
}
