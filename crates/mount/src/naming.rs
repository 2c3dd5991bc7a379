//! Names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use aquifer_volume::{Attributes, IfTaken, Ino, Inode, Kind, Result, VolumeError};
use fuser::{INodeNo, RenameFlags, Request};

use crate::attributes::{ino_of, kind_of};
use crate::server::Server;

/// Permissions in a mode; the rest of it says what kind of file.
const MODE_MASK: u32 = 0o7777;
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

impl Server {
    /// The file of a name, of which the kernel is told. The kernel asks for `.` and `..` of what it has only a number of, from a handle that it gave to a
    /// program or an NFS client before it forgot the file.
    pub fn look_up(&self, folder: INodeNo, name: &OsStr) -> Result<(Ino, Inode)> {
        let folder = ino_of(folder)?;
        let ino = match name.as_bytes() {
            b"." => self.volume.hold_by_number(folder).map(|()| folder)?,
            b".." => self.volume.hold_parent(folder)?,
            name => self.volume.lookup_and_hold(folder, name)?,
        };
        self.tell(ino)
    }

    /// The inode of a file that the caller holds, of which the kernel is told.
    pub fn tell(&self, ino: Ino) -> Result<(Ino, Inode)> {
        let inode = self.volume.inode(ino);
        match &inode {
            Ok(_) => self.lookups.add(&self.volume, ino)?,
            Err(_) => self.volume.let_go(ino)?,
        }
        Ok((ino, inode?))
    }

    /// A new file or folder, of which the kernel is told.
    pub fn make(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        kind: Kind,
        mode: u32,
    ) -> Result<(Ino, Inode)> {
        let folder = ino_of(folder)?;
        let (gid, inherited) = self.group_for(request, folder)?;
        let mode = if kind == Kind::Folder { mode | inherited } else { mode } & MODE_MASK;
        let ino = self.room.with(&self.volume, || {
            self.volume.make(folder, name.as_bytes(), kind, mode as u16, request.uid(), gid)
        })?;
        self.volume.hold(ino);
        self.tell(ino)
    }

    /// A new file, pipe, socket or device, of which the kernel is told. `device` is the number of a device.
    pub fn make_node(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        device: u32,
    ) -> Result<(Ino, Inode)> {
        let kind = kind_of(mode)?;
        if kind == Kind::File {
            return self.make(request, folder, name, kind, mode);
        }
        let folder = ino_of(folder)?;
        let (gid, _) = self.group_for(request, folder)?;
        let mut node = Inode::new(kind, (mode & MODE_MASK) as u16, request.uid(), gid);
        node.device = device;
        let ino = self.volume.make_node(folder, name.as_bytes(), &node)?;
        self.volume.hold(ino);
        self.tell(ino)
    }

    /// A new symbolic link, of which the kernel is told.
    pub fn make_symlink(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        target: &OsStr,
    ) -> Result<(Ino, Inode)> {
        let folder = ino_of(folder)?;
        let (gid, _) = self.group_for(request, folder)?;
        let ino = self.room.with(&self.volume, || {
            self.volume.make_symlink(folder, name.as_bytes(), target.as_bytes(), request.uid(), gid)
        })?;
        self.volume.hold(ino);
        self.tell(ino)
    }

    /// The group of what is made in a folder, and the mode that folders in it get: a folder with the set-group-id bit gives its own.
    fn group_for(&self, request: &Request, folder: Ino) -> Result<(u32, u32)> {
        let parent = self.volume.inode(folder)?;
        if u32::from(parent.mode) & SET_GROUP_ID == 0 {
            return Ok((request.gid(), 0));
        }
        Ok((parent.gid, SET_GROUP_ID))
    }

    /// Another name for a file, of which the kernel is told.
    pub fn link(&self, ino: INodeNo, folder: INodeNo, name: &OsStr) -> Result<(Ino, Inode)> {
        let ino = ino_of(ino)?;
        self.volume.link(ino, ino_of(folder)?, name.as_bytes())?;
        self.volume.hold(ino);
        self.tell(ino)
    }

    /// Changes a name.
    pub fn rename(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr), flags: RenameFlags) -> Result<()> {
        let if_taken = if flags.is_empty() {
            IfTaken::Replace
        } else if flags == RenameFlags::RENAME_NOREPLACE {
            IfTaken::Fail
        } else if flags == RenameFlags::RENAME_EXCHANGE {
            IfTaken::Exchange
        } else {
            return Err(VolumeError::Invalid("this way to rename is not known"));
        };
        let (from, to) = ((ino_of(from.0)?, from.1.as_bytes()), (ino_of(to.0)?, to.1.as_bytes()));
        self.volume.rename(from, to, if_taken)
    }

    /// Changes size and attributes, and takes away what a file lends where the kernel leaves that to the volume (`FUSE_HANDLE_KILLPRIV_V2`): with a new
    /// owner, with a new size from a user other than root, and with a request that changes nothing, which the kernel sends for other changes of bytes.
    pub fn change(
        &self,
        user: u32,
        ino: INodeNo,
        size_bytes: Option<u64>,
        attributes: &Attributes,
    ) -> Result<(Ino, Inode)> {
        let ino = ino_of(ino)?;
        let mut attributes = *attributes;
        // Where the kernel writes back it says its own time of the change.
        let timeless = Attributes { changed_at: None, ..attributes };
        let is_empty = size_bytes.is_none() && timeless == Attributes::default();
        let is_cut = size_bytes.is_some() && user != 0;
        if is_empty || is_cut || attributes.uid.or(attributes.gid).is_some() {
            attributes.mode = attributes.mode.or(self.mode_without_lent(ino)?);
        }
        if let Some(size_bytes) = size_bytes {
            self.volume.truncate(ino, size_bytes)?;
        }
        if attributes == Attributes::default() {
            return Ok((ino, self.volume.inode(ino)?));
        }
        Ok((ino, self.volume.set_attributes(ino, &attributes)?))
    }

    /// The mode that a file has without the rights that it lends; `None` if it lends none.
    fn mode_without_lent(&self, ino: Ino) -> Result<Option<u16>> {
        let inode = self.volume.inode(ino)?;
        let mode = u32::from(inode.mode);
        let group = if mode & GROUP_EXECUTE == 0 { 0 } else { SET_GROUP_ID };
        let kept = mode & !(SET_USER_ID | group);
        Ok((inode.kind != Kind::Folder && kept != mode).then_some(kept as u16))
    }
}
