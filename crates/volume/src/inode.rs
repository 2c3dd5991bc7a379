//! What is known of a file besides its bytes.
//!
//! ```text
//! 0 kind u8 (0: none) | 1 zero | 2 mode u16 | 4 links u32 | 8 uid u32 | 12 gid u32 | 16 size u64
//! 24 read at i64 | 32 written at i64 | 40 changed at i64 | 48 made at i64 (nanoseconds since 1970)
//! 56 pages u64 | 64 generation u32 | 68 parent u32 (folders; of extended attributes, whose) | 72 next u32 (of the free, or of those without a name)
//! 76 device u32 (devices) | 80 reserved end u32 (files) | 84 inode of the extended attributes u32 (0: none) | 88 zeros
//! ```

use std::time::SystemTime;

use crate::error::{Result, VolumeError};
use crate::key::Ino;
use crate::medium::Geometry;
use crate::word::PAGE_BYTES;

/// Bytes of an inode.
pub const INODE_BYTES: usize = 128;
/// Inodes on a page.
pub const INODES_PER_PAGE: u32 = 32;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Bytes.
    File = 1,
    /// Names.
    Folder = 2,
    /// A path.
    Symlink = 3,
    /// A named pipe. Of this kind and those below the volume keeps the name alone: what they do is the system's.
    Pipe = 4,
    /// A socket of the system's.
    Socket = 5,
    /// A block device.
    BlockDevice = 6,
    /// A character device.
    CharacterDevice = 7,
    /// Extended attributes of a file. No name stands for it.
    Xattrs = 8,
}

impl Kind {
    /// From its number on flash.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        use Kind::{BlockDevice, CharacterDevice, File, Folder, Pipe, Socket, Symlink, Xattrs};
        let all = [File, Folder, Symlink, Pipe, Socket, BlockDevice, CharacterDevice, Xattrs];
        all.into_iter().find(|kind| *kind as u8 == code)
    }

    /// From its number on flash, if a name can stand for it.
    #[must_use]
    pub fn of_name(code: u8) -> Option<Self> {
        Self::from_code(code).filter(|kind| *kind != Kind::Xattrs)
    }

    /// Whether it is a block or character device.
    #[must_use]
    pub fn is_device(self) -> bool {
        matches!(self, Kind::BlockDevice | Kind::CharacterDevice)
    }

    /// Whether it is a pipe, a socket or a device.
    #[must_use]
    pub fn is_node(self) -> bool {
        self.is_device() || matches!(self, Kind::Pipe | Kind::Socket)
    }
}

/// A moment, in nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Time(pub i64);

impl Time {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let ns = |duration: std::time::Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Time(ns(since)),
            Err(before) => Time(-ns(before.duration())),
        }
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        let duration = std::time::Duration::from_nanos(time.0.unsigned_abs());
        let moment = if time.0 < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(duration)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(duration)
        };
        moment.unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// A file, a folder, or what else has a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inode {
    /// What it is.
    pub kind: Kind,
    /// Permissions: the lower 12 bits of a mode.
    pub mode: u16,
    /// Names that it has; of a folder, 2 and one for each folder in it.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size_bytes: u64,
    /// Last read.
    pub read_at: Time,
    /// Last change of its bytes.
    pub written_at: Time,
    /// Last change of anything.
    pub changed_at: Time,
    /// When it was made.
    pub made_at: Time,
    /// Pages that it takes on flash, or will when it is written back.
    pub pages: u64,
    /// How many files had this number before.
    pub generation: u32,
    /// The folder that a folder is in; of extended attributes, the file that has them.
    pub parent: Ino,
    /// Of a device, its number as Linux packs it into 32 bits: [`device_number`].
    pub device: u32,
    /// Pages of zeros that are reserved behind the last byte end before this one.
    pub(crate) reserved_end: u32,
    /// The inode of its extended attributes, 0 for none.
    pub(crate) xattrs: u32,
    /// The next without a name, while it has none.
    pub(crate) next: u32,
}

impl Inode {
    /// A new one.
    #[must_use]
    pub fn new(kind: Kind, mode: u16, uid: u32, gid: u32) -> Self {
        let now = Time::now();
        let links = if kind == Kind::Folder { 2 } else { 1 };
        let parent = Ino::ROOT_FOLDER;
        let (read_at, written_at, changed_at, made_at) = (now, now, now, now);
        let (size_bytes, pages, generation) = (0, 0, 0);
        let (device, reserved_end, xattrs, next) = (0, 0, 0, 0);
        Inode {
            kind,
            mode,
            links,
            uid,
            gid,
            size_bytes,
            read_at,
            written_at,
            changed_at,
            made_at,
            pages,
            generation,
            parent,
            device,
            reserved_end,
            xattrs,
            next,
        }
    }

    /// As it stands on flash.
    #[must_use]
    pub fn encode(&self) -> [u8; INODE_BYTES] {
        let mut bytes = [0; INODE_BYTES];
        bytes[0] = self.kind as u8;
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(2, &self.mode.to_le_bytes());
        put(4, &self.links.to_le_bytes());
        put(8, &self.uid.to_le_bytes());
        put(12, &self.gid.to_le_bytes());
        put(16, &self.size_bytes.to_le_bytes());
        put(24, &self.read_at.0.to_le_bytes());
        put(32, &self.written_at.0.to_le_bytes());
        put(40, &self.changed_at.0.to_le_bytes());
        put(48, &self.made_at.0.to_le_bytes());
        put(56, &self.pages.to_le_bytes());
        put(64, &self.generation.to_le_bytes());
        put(68, &self.parent.0.to_le_bytes());
        put(72, &self.next.to_le_bytes());
        put(76, &self.device.to_le_bytes());
        put(80, &self.reserved_end.to_le_bytes());
        put(84, &self.xattrs.to_le_bytes());
        bytes
    }

    /// From flash; `None` where there is none.
    #[must_use]
    pub fn decode(bytes: &[u8; INODE_BYTES]) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let time_at = |at: usize| Time(u64_at(at) as i64);
        Some(Inode {
            kind: Kind::from_code(bytes[0])?,
            mode: u16::from_le_bytes([bytes[2], bytes[3]]) & 0o7777,
            links: u32_at(4),
            uid: u32_at(8),
            gid: u32_at(12),
            size_bytes: u64_at(16).min(SIZE_BYTES_MAX),
            read_at: time_at(24),
            written_at: time_at(32),
            changed_at: time_at(40),
            made_at: time_at(48),
            pages: u64_at(56),
            generation: u32_at(64),
            parent: Ino(u32_at(68) & ((1 << Ino::BITS) - 1)),
            next: u32_at(72),
            device: u32_at(76),
            reserved_end: u32_at(80),
            xattrs: u32_at(84) & ((1 << Ino::BITS) - 1),
        })
    }

    /// The first page behind all that the file may have: behind its bytes, and behind what is reserved.
    pub(crate) fn end_page(&self) -> u64 {
        self.size_bytes.div_ceil(PAGE_BYTES as u64).max(self.reserved_end.into())
    }

    /// Whether this inode has the extended attributes of `ino`.
    pub(crate) fn holds_xattrs_of(&self, ino: Ino) -> bool {
        self.kind == Kind::Xattrs && self.parent == ino
    }

    /// Notes that pages before `end_page` may be reserved.
    pub(crate) fn note_reserved(&mut self, end_page: u64) {
        self.reserved_end = self.reserved_end.max(u32::try_from(end_page).unwrap_or(u32::MAX));
    }
}

/// The number of a device, from the driver's and the one that the driver gives it.
#[must_use]
pub fn device_number(major: u32, minor: u32) -> u32 {
    minor & 0xff | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12
}

/// The driver's number, and the one that the driver gives a device.
#[must_use]
pub fn device_parts(device: u32) -> (u32, u32) {
    (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00)
}

/// Largest file: 16 TiB.
pub const SIZE_BYTES_MAX: u64 = 16 << 40;

/// What the table of inodes says of itself, in the place of inode 0.
///
/// ```text
/// 0 zero | 4 next number that no file ever had u32 | 8 first free u32 | 12 first without a name u32 | 16 files u32 | 20 zeros
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InodesHeader {
    /// The next number that no file ever had.
    pub next_new: u32,
    /// The first number whose file is gone, 0 for none.
    pub first_free: u32,
    /// The first file that has no name and is still open, 0 for none.
    pub first_nameless: u32,
    /// Files, folders, and what else has a name.
    pub files: u32,
}

impl InodesHeader {
    /// As it stands on flash.
    #[must_use]
    pub fn encode(&self) -> [u8; INODE_BYTES] {
        let mut bytes = [0; INODE_BYTES];
        bytes[4..8].copy_from_slice(&self.next_new.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.first_free.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.first_nameless.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.files.to_le_bytes());
        bytes
    }

    /// Refuses numbers that a volume of this size cannot have.
    ///
    /// # Errors
    /// [`VolumeError::Corrupt`].
    pub(crate) fn refuse_impossible(&self, geometry: Geometry) -> Result<()> {
        if self.next_new <= inodes_max(geometry) {
            return Ok(());
        }
        let what = format!("its table of inodes says {} of them, and has no room for so many", self.next_new);
        Err(VolumeError::Corrupt(what))
    }

    /// From flash.
    #[must_use]
    pub fn decode(bytes: &[u8; INODE_BYTES]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        InodesHeader {
            next_new: u32_at(4),
            first_free: u32_at(8),
            first_nameless: u32_at(12),
            files: u32_at(16),
        }
    }
}

/// Inodes that a volume can have: a page holds 32 of them, and stays when they are free again.
pub(crate) fn inodes_max(geometry: Geometry) -> u32 {
    u32::try_from(geometry.pages() * u64::from(INODES_PER_PAGE)).unwrap_or(u32::MAX).min(1 << Ino::BITS)
}

/// A free inode: only its generation and the next free number are kept.
#[must_use]
pub fn encode_free(generation: u32, next: u32) -> [u8; INODE_BYTES] {
    let mut bytes = [0; INODE_BYTES];
    bytes[64..68].copy_from_slice(&generation.to_le_bytes());
    bytes[72..76].copy_from_slice(&next.to_le_bytes());
    bytes
}

/// Generation and next free number of a free inode.
#[must_use]
pub fn decode_free(bytes: &[u8; INODE_BYTES]) -> (u32, u32) {
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    (u32_at(64), u32_at(72))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_as_written() {
        let mut inode = Inode::new(Kind::Symlink, 0o7755, 1, 2);
        (inode.size_bytes, inode.pages, inode.generation, inode.next) = (3, 4, 5, 6);
        (inode.read_at, inode.parent, inode.device, inode.reserved_end) = (Time(-7), Ino(8), 9, 10);
        inode.xattrs = 11;
        assert_eq!(Inode::decode(&inode.encode()), Some(inode));
        assert_eq!(Inode::decode(&[0; INODE_BYTES]), None);
        let header = InodesHeader { next_new: 1, first_free: 2, first_nameless: 3, files: 4 };
        assert_eq!(InodesHeader::decode(&header.encode()), header);
        assert_eq!(decode_free(&encode_free(9, 10)), (9, 10));
    }

    #[test]
    fn each_kind_has_a_code() {
        for code in 0..=u8::MAX {
            let kind = Kind::from_code(code);
            assert_eq!(kind.map(|kind| kind as u8), (1..=8).contains(&code).then_some(code));
            assert_eq!(Kind::of_name(code), kind.filter(|_| code < 8));
        }
    }

    #[test]
    fn numbers_of_devices_are_linux_own() {
        for (major, minor, device) in
            [(1, 3, 0x103), (8, 0, 0x800), (259, 257, 0x11_0301), (0xfff, 0xf_ffff, u32::MAX)]
        {
            assert_eq!(device_number(major, minor), device);
            assert_eq!(device_parts(device), (major, minor));
        }
    }

    #[test]
    fn times_before_1970_exist() {
        for ns in [0, 1, -1, i64::MAX, -i64::MAX] {
            assert_eq!(Time::from(SystemTime::from(Time(ns))), Time(ns));
        }
    }
}
