//! The structures of the header.

use std::ffi::{c_char, c_int};
use std::path::PathBuf;

use aquifer_volume::{Ino, Inode, Kind, OpenOptions, PAGE_BYTES, Space};

use crate::abi::path;
use crate::sized::SizedOptions;

/// `aq_volume_options`
#[repr(C)]
pub struct AqVolumeOptions {
    _struct_bytes: usize,
    ram_bytes: u64,
    read_only: c_int,
    socket_path: *const c_char,
}

// SAFETY: as the trait wants it.
unsafe impl SizedOptions for AqVolumeOptions {
    const NAME: &'static str = "aq_volume_options";
}

impl AqVolumeOptions {
    /// Where `aquifer stats` and `top` ask, if anywhere.
    ///
    /// # Safety
    /// The path is NULL or a string.
    pub(super) unsafe fn socket(&self) -> Option<PathBuf> {
        // SAFETY: as the caller promises.
        unsafe { path(self.socket_path) }
    }

    pub(super) fn to_options(&self) -> OpenOptions {
        let defaults = OpenOptions::default();
        let ram_bytes = if self.ram_bytes == 0 { defaults.ram_bytes } else { self.ram_bytes };
        OpenOptions { ram_bytes, is_read_only: self.read_only != 0 }
    }
}

/// `aq_space`
#[repr(C)]
pub struct AqSpace {
    struct_bytes: usize,
    capacity_bytes: u64,
    used_bytes: u64,
    kept_bytes: u64,
    files: u64,
    files_max: u64,
}

impl AqSpace {
    pub(super) fn new(struct_bytes: usize, space: &Space) -> Self {
        let Space { capacity_bytes, used_bytes, kept_bytes, files, files_max } = *space;
        Self { struct_bytes, capacity_bytes, used_bytes, kept_bytes, files, files_max }
    }
}

/// `aq_inode`
#[repr(C)]
pub struct AqInode {
    struct_bytes: usize,
    ino: u64,
    generation: u64,
    size_bytes: u64,
    flash_bytes: u64,
    read_at_ns: i64,
    written_at_ns: i64,
    changed_at_ns: i64,
    made_at_ns: i64,
    kind: u32,
    mode: u32,
    links: u32,
    uid: u32,
    gid: u32,
    device: u32,
}

impl AqInode {
    pub(super) fn new(struct_bytes: usize, ino: Ino, inode: &Inode) -> Self {
        Self {
            struct_bytes,
            ino: ino.0.into(),
            generation: inode.generation.into(),
            size_bytes: inode.size_bytes,
            flash_bytes: inode.pages * PAGE_BYTES as u64,
            read_at_ns: inode.read_at.0,
            written_at_ns: inode.written_at.0,
            changed_at_ns: inode.changed_at.0,
            made_at_ns: inode.made_at.0,
            kind: kind_number(inode.kind),
            mode: inode.mode.into(),
            links: inode.links,
            uid: inode.uid,
            gid: inode.gid,
            device: inode.device,
        }
    }
}

/// `aq_entry`
#[repr(C)]
pub struct AqEntry {
    pub(super) name: *const c_char,
    pub(super) name_bytes: usize,
    pub(super) ino: u64,
    pub(super) kind: u32,
    pub(super) zero: u32,
}

/// `enum aq_kind`
pub(super) fn kind_number(kind: Kind) -> u32 {
    match kind {
        Kind::File => 1,
        Kind::Folder => 2,
        Kind::Symlink => 3,
        Kind::Pipe => 4,
        Kind::Socket => 5,
        Kind::BlockDevice => 6,
        Kind::CharacterDevice => 7,
        // No name stands for them, and no file is opened by number.
        Kind::Xattrs => 0,
    }
}
