//! Bytes.

use aquifer_volume::{PAGE_BYTES, Result, Space, VolumeError};
use fuser::INodeNo;
use libc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE};

use crate::attributes::ino_of;
use crate::server::Server;

impl Server {
    /// Bytes of a file, fewer than asked for only at its end.
    pub fn read_bytes(&self, ino: INodeNo, offset: u64, len: u32) -> Result<Vec<u8>> {
        let ino = ino_of(ino)?;
        let mut bytes = vec![0; len as usize];
        let read = self.volume.read(ino, offset, &mut bytes)?;
        bytes.truncate(read);
        if !self.is_read_only && self.write_back.is_none() {
            self.zeros_read.note(ino, offset, &bytes);
        }
        Ok(bytes)
    }

    /// Writes bytes; returns how many there was room for.
    pub fn write_bytes(&self, ino: INodeNo, offset: u64, bytes: &[u8]) -> Result<usize> {
        let ino = ino_of(ino)?;
        let mut done = 0;
        while done < bytes.len() {
            let write = || self.volume.write(ino, offset.saturating_add(done as u64), &bytes[done..]);
            match self.room.with(&self.volume, write) {
                Ok(written) => done += written,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Reserves, zeros or frees a range.
    pub fn allocate(&self, ino: INodeNo, offset: u64, len: u64, mode: i32) -> Result<()> {
        let ino = ino_of(ino)?;
        let keeps_size = mode & FALLOC_FL_KEEP_SIZE != 0;
        let bytes = offset..offset.checked_add(len).ok_or(VolumeError::TooLarge)?;
        match mode & !FALLOC_FL_KEEP_SIZE {
            0 => self.room.with(&self.volume, || self.volume.reserve(ino, bytes.clone(), keeps_size)),
            FALLOC_FL_PUNCH_HOLE if keeps_size => self.volume.punch(ino, offset, len),
            FALLOC_FL_ZERO_RANGE => {
                self.room.with(&self.volume, || self.volume.zero_and_reserve(ino, bytes.clone(), keeps_size))
            }
            _ => Err(VolumeError::System {
                step: "a way to allocate that is not known",
                errno: libc::EOPNOTSUPP,
            }),
        }
    }
}

/// The table takes a word of 8 bytes for each page, and little above that.
const TABLE_SHARE: u64 = PAGE_BYTES as u64 / 8;
/// Pages that commits on the way may take besides.
const COMMIT_PAGES: u64 = 16;

/// What `statfs` says.
pub struct Blocks {
    /// Of the volume.
    pub all: u64,
    /// That nothing is in.
    pub free: u64,
    /// That one file can take; folders and the table can take the others.
    pub available: u64,
    /// Files there can be.
    pub files: u64,
    /// Files there can be besides those that are.
    pub files_free: u64,
}

impl From<Space> for Blocks {
    fn from(space: Space) -> Self {
        let blocks = |bytes: u64| bytes / PAGE_BYTES as u64;
        let free = space.capacity_bytes.saturating_sub(space.used_bytes);
        let for_files = free.saturating_sub(space.kept_bytes);
        Blocks {
            all: blocks(space.capacity_bytes),
            free: blocks(free),
            available: blocks(for_files - for_files / TABLE_SHARE).saturating_sub(COMMIT_PAGES),
            files: space.files_max,
            files_free: space.files_max.saturating_sub(space.files),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_free_but_not_available() {
        let page = PAGE_BYTES as u64;
        let space = Space {
            capacity_bytes: 100 * page,
            used_bytes: 75 * page,
            kept_bytes: 2 * page,
            files: 1,
            files_max: 9,
        };
        let blocks = Blocks::from(space);
        // 23 pages less the words for them, and less what commits take.
        assert_eq!((blocks.all, blocks.free, blocks.available, blocks.files_free), (100, 25, 6, 8));
        let large = Space { capacity_bytes: 10_000 * page, ..space };
        assert_eq!(Blocks::from(large).available, 9_923 - 20 - 16);
        let full = Blocks::from(Space { used_bytes: 99 * page, ..space });
        assert_eq!((full.free, full.available), (1, 0));
    }
}
