//! The file, as the kernel asks for it.

use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aquifer_device::{Device, DeviceError};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::process::{getgid, getuid};

use super::buffers::Buffers;

/// The file's name in its folder.
pub const FILE_NAME: &str = "device";

/// The file's number; the folder's is 1.
const FILE: INodeNo = INodeNo(2);
/// Nothing about the file ever changes but its bytes.
const VALID: Duration = Duration::from_secs(3600);
/// Most bytes in a request.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel has under way at once, besides those that somebody waits for.
const BACKGROUND_MAX: u16 = 64;
/// Blocks of `st_blocks`, whatever else a block is.
const STAT_BLOCK_BYTES: u64 = 512;

/// A folder with one file, whose bytes are the device's.
pub struct DeviceFile {
    device: Arc<dyn Device>,
    buffers: Buffers,
    /// Held by who writes a part of a block.
    parts: Mutex<()>,
    made_at: SystemTime,
}

impl DeviceFile {
    /// The file, with memory for as many requests at once as there are `threads`.
    pub fn new(device: Arc<dyn Device>, threads: usize) -> Self {
        // A request that begins and ends inside blocks needs the whole of both.
        let len_bytes = REQUEST_BYTES_MAX as usize + 2 * device.block_bytes();
        DeviceFile {
            device,
            buffers: Buffers::new(threads, len_bytes),
            parts: Mutex::new(()),
            made_at: SystemTime::now(),
        }
    }

    fn attributes(&self, ino: INodeNo) -> Option<FileAttr> {
        let (kind, perm, nlink, size) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0o700, 2, 0),
            FILE => (FileType::RegularFile, 0o600, 1, self.device.len_bytes()),
            _ => return None,
        };
        Some(FileAttr {
            ino,
            size,
            blocks: size / STAT_BLOCK_BYTES,
            atime: self.made_at,
            mtime: self.made_at,
            ctime: self.made_at,
            crtime: self.made_at,
            kind,
            perm,
            nlink,
            uid: getuid().as_raw(),
            gid: getgid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// Gives `answer` the bytes of a range, which may begin and end anywhere.
    fn read_range(&self, offset: u64, len: u32, answer: impl FnOnce(Result<&[u8], DeviceError>)) {
        let block = self.device.block_bytes() as u64;
        let size = self.device.len_bytes();
        let len = u64::from(len.min(REQUEST_BYTES_MAX)).min(size.saturating_sub(offset));
        if len == 0 {
            return answer(Ok(&[]));
        }
        let begin = offset - offset % block;
        // The size is a multiple of the block, so the last one is whole.
        let whole = (offset + len).next_multiple_of(block) - begin;
        let mut buffer = self.buffers.borrow();
        let blocks = &mut buffer[..whole as usize];
        match self.device.read_at(begin, blocks) {
            Ok(()) => answer(Ok(&blocks[(offset - begin) as usize..][..len as usize])),
            Err(error) => answer(Err(error)),
        }
    }

    /// Writes a range, which may begin and end anywhere. The loop device asks for whole blocks; of a program's write the kernel makes requests that end
    /// where its pages do.
    fn write_range(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let block = self.device.block_bytes() as u64;
        let (len_bytes, device_bytes) = (data.len() as u64, self.device.len_bytes());
        let outside = DeviceError::OutOfRange { offset, len_bytes, device_bytes };
        let end = offset.checked_add(len_bytes).filter(|&end| end <= device_bytes).ok_or(outside)?;
        let begin = offset - offset % block;
        let whole = end.next_multiple_of(block) - begin;
        let mut buffer = self.buffers.borrow();
        let blocks = buffer.get_mut(..whole as usize).ok_or(outside)?;
        let is_whole = whole == len_bytes;
        // Two writes that share a block must both be in it.
        let _alone = (!is_whole).then(|| self.parts.lock().unwrap_or_else(PoisonError::into_inner));
        if !is_whole {
            self.device.read_at(begin, blocks)?;
        }
        // The kernel's bytes lie wherever the request that carries them has them.
        blocks[(offset - begin) as usize..][..data.len()].copy_from_slice(data);
        self.device.write_at(begin, blocks)
    }
}

/// The number that the kernel hears.
fn number(error: &DeviceError) -> Errno {
    match error {
        DeviceError::Misaligned { .. } => Errno::EINVAL,
        DeviceError::Full { .. } | DeviceError::WornOut { .. } | DeviceError::OutOfRange { .. } => {
            Errno::ENOSPC
        }
        DeviceError::Io { errno, .. } => Errno::from_i32(*errno),
        DeviceError::ShortTransfer { .. } => Errno::EIO,
    }
}

// The signatures are fuser's.
#[allow(clippy::too_many_arguments)]
impl Filesystem for DeviceFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel that does not know it waits for one request after the other.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let refused =
            |nearest| io::Error::other(format!("the kernel's requests have at most {nearest} bytes"));
        config.set_max_write(REQUEST_BYTES_MAX).map_err(refused)?;
        config.set_max_background(BACKGROUND_MAX).map_err(|_| io::Error::other("no requests at once"))?;
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(attributes) if parent == INodeNo::ROOT && name == FILE_NAME => {
                reply.entry(&VALID, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Some(attributes) => reply.attr(&VALID, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let Some(attributes) = self.attributes(ino) else { return reply.error(Errno::ENOENT) };
        // Times come with writes. The rest is as it is.
        let is_as_it_is = mode.is_none() && uid.is_none() && gid.is_none();
        if is_as_it_is && size.is_none_or(|size| size == attributes.size) {
            reply.attr(&VALID, &attributes);
        } else {
            reply.error(Errno::EPERM);
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if ino != FILE {
            return reply.error(Errno::EISDIR);
        }
        // Every read and write comes here as it is asked: a page cache over a block device that has one would keep everything twice, and its write-back
        // needs memory at the moment when swapping is to give some.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

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
        if ino != FILE {
            return reply.error(Errno::EISDIR);
        }
        self.read_range(offset, size, |outcome| match outcome {
            Ok(bytes) => reply.data(bytes),
            Err(error) => reply.error(number(&error)),
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if ino != FILE {
            return reply.error(Errno::EISDIR);
        }
        match self.write_range(offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.device.sync() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if ino != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, FILE_NAME),
        ];
        for (at, (ino, kind, name)) in (1u64..).zip(entries).skip(offset.min(3) as usize) {
            if reply.add(ino, at, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        // A hole in a file reads as zeros; what a device discards reads as anything. So there are no holes: who asks writes zeros instead.
        reply.error(Errno::EOPNOTSUPP);
    }
}
