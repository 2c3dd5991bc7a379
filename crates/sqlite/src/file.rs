//! A file of a volume that SQLite has open.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aquifer_volume::{Ino, Kind, Result, VolumeError};

use crate::locks::{Level, Locks};
use crate::mapped::{self, Mapped};
use crate::names;
use crate::volumes::{Lease, Naming};
use crate::wal_index::{Holding, WalIndex};

/// What the connections to a file share.
#[derive(Default)]
pub struct Shared {
    locks: Mutex<Locks>,
    wal_index: Mutex<WalIndex>,
}

impl Shared {
    /// Locks of the database.
    pub fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index of its write-ahead log.
    pub fn wal_index(&self) -> MutexGuard<'_, WalIndex> {
        self.wal_index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Default)]
pub struct Mode {
    /// It may be made.
    pub may_make: bool,
    /// It must be made.
    pub must_make: bool,
    /// Its name goes at once, its bytes when it is closed.
    pub is_temporary: bool,
    /// Nothing may be written to it.
    pub is_read_only: bool,
}

/// A file that is open.
pub struct File {
    /// Stands before the lease, which it needs, as does the naming.
    mapped: Mapped,
    /// Of a main database.
    naming: Option<Naming>,
    lease: Lease,
    ino: Ino,
    path: Vec<u8>,
    shared: Arc<Shared>,
    /// What the connection may do.
    pub level: Level,
    /// Once the connection uses a write-ahead log.
    pub holding: Option<Holding>,
    /// While the writes of a transaction wait for its commit.
    pub batch: Option<Batch>,
    /// Whether the log stays when the last connection closes.
    pub keeps_wal: bool,
    /// Whether SQLite may trust that a write changes no other byte.
    pub is_powersafe: bool,
    is_read_only: bool,
}

impl File {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`] for it or its folder; [`VolumeError::Exists`], [`VolumeError::IsAFolder`]; those of the volume.
    pub fn open(lease: Lease, path: Vec<u8>, mode: Mode) -> Result<Self> {
        let ino = {
            let _naming = lease.lock_naming();
            let ino = find_or_make(&lease, &path, mode)?;
            let volume = lease.volume()?;
            volume.hold(ino);
            if mode.is_temporary {
                let place = names::find(volume, &path)?;
                volume.unlink(place.folder, &place.name)?;
            }
            ino
        };
        let shared = lease.shared(ino);
        Ok(File {
            mapped: Mapped::default(),
            naming: None,
            lease,
            ino,
            path,
            shared,
            level: Level::None,
            holding: None,
            batch: None,
            keeps_wal: false,
            is_powersafe: true,
            is_read_only: mode.is_read_only,
        })
    }

    /// Notes by which names SQLite knows the database and what belongs to it.
    pub fn set_naming(&mut self, naming: Naming) {
        self.naming = Some(naming);
    }

    /// The volume.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// What the connections to it share.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Reads; returns how many bytes there were.
    ///
    /// # Errors
    /// They could not be read.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.lease.volume()?.read(self.ino, offset, bytes)
    }

    /// Writes all of `bytes`, at once or with the batch.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`]: some of them may be written.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.allow_changes()?;
        if let Some(batch) = &mut self.batch {
            batch.add(offset, bytes);
            return Ok(());
        }
        let copy;
        let bytes = if mapped::may_be_mapped() {
            copy = bytes.to_vec();
            &copy
        } else {
            bytes
        };
        let volume = self.lease.volume()?;
        let written = match volume.write(self.ino, offset, bytes) {
            Err(VolumeError::NoSpace) => 0,
            outcome => outcome?,
        };
        if written == bytes.len() {
            return Ok(());
        }
        // What was freed since the last commit can be written after the next one.
        volume.sync()?;
        let (offset, bytes) = (offset + written as u64, &bytes[written..]);
        if volume.write(self.ino, offset, bytes)? < bytes.len() {
            return Err(VolumeError::NoSpace);
        }
        Ok(())
    }

    /// Writes the batch atomically.
    ///
    /// # Errors
    /// As [`aquifer_volume::Volume::write_together`].
    pub fn write_batch(&mut self) -> Result<()> {
        let Some(batch) = self.batch.take() else { return Ok(()) };
        let (volume, writes) = (self.lease.volume()?, batch.writes());
        match volume.write_together(self.ino, &writes) {
            Err(VolumeError::NoSpace) => {
                volume.sync()?;
                volume.write_together(self.ino, &writes)
            }
            outcome => outcome,
        }
    }

    /// What SQLite has as memory.
    pub fn mapped(&mut self) -> &mut Mapped {
        &mut self.mapped
    }

    /// Where bytes of the file are mapped; `None` where SQLite is to read them.
    ///
    /// # Errors
    /// As [`Mapped::page`].
    pub fn page(&mut self, offset: u64, len: usize) -> Result<Option<*mut u8>> {
        // What waits in a batch is not in the file yet.
        if self.mapped.limit_bytes() == 0 || self.batch.is_some() {
            return Ok(None);
        }
        let size_bytes = self.size_bytes()?;
        self.mapped.page(self.lease.volume()?, self.ino, size_bytes, offset, len)
    }

    /// Changes the size.
    ///
    /// # Errors
    /// As [`aquifer_volume::Volume::truncate`].
    pub fn truncate(&self, size_bytes: u64) -> Result<()> {
        self.allow_changes()?;
        self.lease.volume()?.truncate(self.ino, size_bytes)
    }

    /// The size.
    ///
    /// # Errors
    /// The inode could not be read.
    pub fn size_bytes(&self) -> Result<u64> {
        Ok(self.lease.volume()?.inode(self.ino)?.size_bytes)
    }

    /// Whether its name means another file by now, or none.
    ///
    /// # Errors
    /// The folders could not be read.
    pub fn has_moved(&self) -> Result<bool> {
        let found = match names::find(self.lease.volume()?, &self.path) {
            Err(VolumeError::NotFound) => None,
            outcome => outcome?.target,
        };
        Ok(found.map(|(ino, _)| ino) != Some(self.ino))
    }

    fn allow_changes(&self) -> Result<()> {
        if self.is_read_only { Err(VolumeError::ReadOnly) } else { Ok(()) }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(holding) = self.holding.take() {
            self.shared.wal_index().leave(holding);
        }
        self.shared.locks().lower(&mut self.level, Level::None);
        if let Ok(volume) = self.lease.volume() {
            // If its bytes cannot be freed now, they are when the volume is opened next.
            let _ = volume.let_go(self.ino);
        }
    }
}

fn find_or_make(lease: &Lease, path: &[u8], mode: Mode) -> Result<Ino> {
    let volume = lease.volume()?;
    let place = names::find(volume, path)?;
    match place.target {
        Some(_) if mode.must_make => Err(VolumeError::Exists),
        Some((ino, Kind::File)) => Ok(ino),
        Some((_, Kind::Folder)) => Err(VolumeError::IsAFolder),
        Some((_, Kind::Symlink)) => Err(VolumeError::Invalid(
            "a symbolic link: its journal would stand beside the link; name the database itself",
        )),
        Some(_) => Err(VolumeError::Invalid("a pipe, a socket or a device holds no database")),
        None if mode.may_make => {
            // SAFETY: these only tell who runs the process.
            let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
            volume.make(place.folder, &place.name, Kind::File, 0o644, uid, gid)
        }
        None => Err(VolumeError::NotFound),
    }
}

/// Writes of a transaction that wait for its commit, in their order.
#[derive(Default)]
pub struct Batch {
    writes: Vec<(u64, Vec<u8>)>,
}

impl Batch {
    /// Adds a write.
    pub fn add(&mut self, offset: u64, bytes: &[u8]) {
        self.writes.push((offset, bytes.to_vec()));
    }

    /// All of them, offset and bytes.
    pub fn writes(&self) -> Vec<(u64, &[u8])> {
        self.writes.iter().map(|(offset, bytes)| (*offset, &bytes[..])).collect()
    }
}
