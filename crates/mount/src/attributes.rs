//! Inodes in the kernel's words.

use std::time::SystemTime;

use aquifer_volume::{Ino, Inode, Kind, PAGE_BYTES, Result, Time, VolumeError};
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};

/// Blocks of `st_blocks`, whatever else a block is.
const BLOCK_BYTES: u64 = 512;

/// The kernel's number of a file. Only the root folder's is another: the kernel says 1.
pub fn number_of(ino: Ino) -> INodeNo {
    if ino == Ino::ROOT_FOLDER { INodeNo::ROOT } else { INodeNo(ino.0.into()) }
}

/// The file of a kernel's number.
///
/// # Errors
/// [`VolumeError::NotFound`] for numbers that the kernel was never told.
pub fn ino_of(number: INodeNo) -> Result<Ino> {
    if number == INodeNo::ROOT {
        return Ok(Ino::ROOT_FOLDER);
    }
    let ino = u32::try_from(number.0).map(Ino).map_err(|_| VolumeError::NotFound)?;
    if ino < Ino::FIRST_FREE { Err(VolumeError::NotFound) } else { Ok(ino) }
}

/// The kernel's word for what a file is.
pub fn type_of(kind: Kind) -> FileType {
    match kind {
        // The kernel is never told of extended attributes as a file.
        Kind::File | Kind::Xattrs => FileType::RegularFile,
        Kind::Folder => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Pipe => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::CharacterDevice => FileType::CharDevice,
    }
}

/// What `mknod` asks for by the upper bits of a mode.
///
/// # Errors
/// [`VolumeError::Invalid`] for bits that have no meaning.
pub fn kind_of(mode: u32) -> Result<Kind> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Ok(Kind::File),
        libc::S_IFIFO => Ok(Kind::Pipe),
        libc::S_IFSOCK => Ok(Kind::Socket),
        libc::S_IFBLK => Ok(Kind::BlockDevice),
        libc::S_IFCHR => Ok(Kind::CharacterDevice),
        _ => Err(VolumeError::Invalid("a kind of file that does not exist")),
    }
}

/// What `stat` says of a file.
pub fn attributes_of(ino: Ino, inode: &Inode) -> FileAttr {
    FileAttr {
        ino: number_of(ino),
        size: inode.size_bytes,
        blocks: inode.pages * (PAGE_BYTES as u64 / BLOCK_BYTES),
        atime: inode.read_at.into(),
        mtime: inode.written_at.into(),
        ctime: inode.changed_at.into(),
        crtime: inode.made_at.into(),
        kind: type_of(inode.kind),
        perm: inode.mode,
        nlink: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        rdev: inode.device,
        blksize: PAGE_BYTES as u32,
        flags: 0,
    }
}

/// A moment that `utimensat` names.
pub fn time_of(time: TimeOrNow) -> Time {
    match time {
        TimeOrNow::SpecificTime(time) => Time(exact(time)),
        TimeOrNow::Now => Time::now(),
    }
}

/// Nanoseconds since 1970 of a moment that came through `fuser`, which takes the nanoseconds of a moment before 1970 away where they are to be added.
fn exact(time: SystemTime) -> i64 {
    let Err(before) = time.duration_since(SystemTime::UNIX_EPOCH) else { return Time::from(time).0 };
    let (seconds, ns) = (before.duration().as_secs(), before.duration().subsec_nanos());
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    i64::from(ns).saturating_sub(seconds.saturating_mul(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for ino in [Ino::ROOT_FOLDER, Ino::FIRST_FREE, Ino(1 << 27)] {
            assert_eq!(ino_of(number_of(ino)), Ok(ino));
        }
    }

    #[test]
    fn tables_have_no_number() {
        for number in [0, 2, 1 << 32] {
            assert_eq!(ino_of(INodeNo(number)), Err(VolumeError::NotFound));
        }
    }

    #[test]
    fn moments_before_1970_are_what_the_kernel_said() {
        // The kernel says -5 s and 200 ns; fuser makes this of it.
        let said = SystemTime::UNIX_EPOCH - std::time::Duration::new(5, 200);
        assert_eq!(time_of(TimeOrNow::SpecificTime(said)), Time(-5_000_000_000 + 200));
        let later = SystemTime::UNIX_EPOCH + std::time::Duration::new(5, 200);
        assert_eq!(time_of(TimeOrNow::SpecificTime(later)), Time(5_000_000_200));
    }

    #[test]
    fn blocks_are_of_512_bytes() {
        let mut inode = Inode::new(Kind::File, 0o640, 1, 2);
        (inode.size_bytes, inode.pages) = (1 << 20, 3);
        let attributes = attributes_of(Ino(9), &inode);
        assert_eq!((attributes.size, attributes.blocks), (1 << 20, 24));
    }
}
