//! The kernel's requests.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aquifer_volume::{Attributes, Ino, Inode, Kind, Result, Volume, VolumeError};
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::attributes::{attributes_of, ino_of, time_of};
use crate::content::Blocks;
use crate::direct::{Direct, is_direct};
use crate::holes::ZerosRead;
use crate::lookups::Lookups;
use crate::room::Room;
use crate::write_back::WriteBack;
use crate::xattrs::answer_sized;

/// How long the kernel may keep what it was told. Nobody else changes the volume; the kernel itself forgets what it changes.
pub const VALID: Duration = Duration::from_secs(60);
/// Most bytes in a request.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel sends ahead, such as reads that it expects to need.
const AHEAD_MAX: u16 = 64;
/// Longest name.
const NAME_BYTES_MAX: u32 = 255;

/// A volume that answers the kernel.
///
/// Unless it writes back, what a program wrote is in the volume when `write` returns: sizes and times are the volume's own, and a full volume is an error of
/// the `write` that met it. If it writes back, sizes and times of files are the kernel's, which says them with what it brings.
pub struct Server {
    pub volume: Arc<Volume>,
    pub lookups: Lookups,
    pub room: Room,
    pub zeros_read: Arc<ZerosRead>,
    pub direct: Arc<Direct>,
    pub write_back: Option<Arc<WriteBack>>,
    /// Whether files have extended attributes.
    pub has_xattrs: bool,
    /// Whether nothing may be changed.
    pub is_read_only: bool,
}

fn number(error: &VolumeError) -> Errno {
    Errno::from_i32(error.errno())
}

fn answer(reply: ReplyEmpty, outcome: Result<()>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(number(&error)),
    }
}

fn answer_entry(reply: ReplyEntry, outcome: Result<(Ino, Inode)>) {
    match outcome {
        Ok((ino, inode)) => {
            reply.entry(&VALID, &attributes_of(ino, &inode), Generation(inode.generation.into()));
        }
        Err(error) => reply.error(number(&error)),
    }
}

fn answer_attributes(reply: ReplyAttr, outcome: Result<(Ino, Inode)>) {
    match outcome {
        Ok((ino, inode)) => reply.attr(&VALID, &attributes_of(ino, &inode)),
        Err(error) => reply.error(number(&error)),
    }
}

// The signatures are fuser's.
#[allow(clippy::too_many_arguments)]
impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What a kernel does not know it does without. Bits of set-user-id are cleared when it says so, locks are its own, and a file is emptied
        // by a request of its own, so that its bits are cleared then too.
        for wish in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            // Handles of files stay good when the kernel has forgotten the file.
            InitFlags::FUSE_EXPORT_SUPPORT,
            // Without it the kernel asks for an attribute before each write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            let _ = config.add_capabilities(wish);
        }
        if self.write_back.is_some() {
            config
                .add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE)
                .map_err(|_| io::Error::other("the kernel has no write-back cache"))?;
        }
        let refused =
            |nearest| io::Error::other(format!("the kernel's requests have at most {nearest} bytes"));
        config.set_max_write(REQUEST_BYTES_MAX).map_err(refused)?;
        config.set_max_background(AHEAD_MAX).map_err(|_| io::Error::other("no requests ahead"))?;
        Ok(())
    }

    fn destroy(&mut self) {
        // What cannot be freed now is when the volume is opened next.
        let _ = self.lookups.forget_all(&self.volume);
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, self.look_up(parent, name));
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        // Nobody waits for an answer. What cannot be freed now is when the volume is opened next.
        let _ = ino_of(ino)
            .and_then(|ino| self.lookups.forget(&self.volume, ino, nlookup, || self.forget_kernel(ino)));
        self.room.note_let_go();
    }

    fn getattr(&self, _: &Request, ino: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        // The kernel names a handle when a `write` needs the attributes.
        let failed = handle.and(self.write_back.as_ref()).and_then(|write_back| write_back.take_failure(ino));
        match failed {
            Some(errno) => reply.error(Errno::from_i32(errno)),
            None => answer_attributes(reply, ino_of(ino).and_then(|ino| Ok((ino, self.volume.inode(ino)?)))),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let attributes = Attributes {
            mode: mode.map(|mode| mode as u16),
            uid,
            gid,
            read_at: atime.map(time_of),
            written_at: mtime.map(time_of),
            changed_at: ctime.map(|time| time_of(TimeOrNow::SpecificTime(time))),
        };
        answer_attributes(reply, self.change(request.uid(), ino, size, &attributes));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match ino_of(ino).and_then(|ino| self.volume.read_link(ino)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        answer_entry(reply, self.make_node(request, parent, name, mode, rdev));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        answer_entry(reply, self.make(request, parent, name, Kind::Folder, mode));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let outcome = ino_of(parent).and_then(|parent| self.volume.unlink(parent, name.as_encoded_bytes()));
        self.room.note_removed();
        answer(reply, outcome);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let parent = ino_of(parent);
        let outcome = parent.and_then(|parent| self.volume.remove_folder(parent, name.as_encoded_bytes()));
        self.room.note_removed();
        answer(reply, outcome);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        answer_entry(reply, self.make_symlink(request, parent, name, target.as_os_str()));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let outcome = Server::rename(self, (parent, name), (newparent, newname), flags);
        self.room.note_removed();
        answer(reply, outcome);
    }

    fn link(&self, _: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, Server::link(self, ino, newparent, newname));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Opening and closing do nothing here; after this answer the kernel asks no more, and keeps the pages of files that were closed.
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // As for files; the kernel keeps the entries of folders too, until it changes one of them.
        reply.error(Errno::ENOSYS);
    }

    // `create` is not there: the kernel makes files by `mknod`, and opens them without a request. So closing needs none either.

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_bytes(ino, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        of_file: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.write_bytes(ino, offset, data);
        if is_direct(flags, of_file) {
            return self.direct.answer(ino, offset, written, reply);
        }
        self.answer_write(ino, (offset, data), flags, written, reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if let Some(write_back) = &self.write_back {
            write_back.forget_attributes(ino);
        }
        answer(reply, self.volume.sync());
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.volume.sync());
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.list_names(ino, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        match self.list_inodes(ino, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.room.settle(&self.volume).and_then(|()| self.volume.space()).map(Blocks::from) {
            Ok(blocks) => reply.statfs(
                blocks.all,
                blocks.free,
                blocks.available,
                blocks.files,
                blocks.files_free,
                aquifer_volume::PAGE_BYTES as u32,
                NAME_BYTES_MAX,
                aquifer_volume::PAGE_BYTES as u32,
            ),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.set_attribute(ino, name, value, flags));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer_sized(reply, size, self.attribute(ino, name));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        answer_sized(reply, size, self.attribute_names(ino));
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove_attribute(ino, name));
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        match self.seek(ino, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.allocate(ino, offset, length, mode));
    }
}
