//! A file on a disk: bytes are durable when the disk says so.
//!
//! Reads go through the mapping and are the kernel's to cache. A persist stores the bytes there and waits for an `fdatasync` that began
//! afterwards; those who wait at the same time share one (group commit; DeWitt et al., SIGMOD 1984). After one that failed nobody knows what
//! is durable, and a second one would not tell (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020): then all
//! later ones fail.
//!
//! A disk that cannot read what is looked at ends the process with SIGBUS, as with any mapped file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{Counts, MemoryFile, Persist};
use crate::error::{Error, Result};

#[derive(Default)]
struct Syncs {
    /// How many have begun, and how many of these have ended.
    begun: u64,
    ended: u64,
    /// The operating system's error of the one that failed.
    failed: Option<i32>,
}

/// A mapped file on a disk.
pub struct FlashFile {
    mapped: MemoryFile,
    file: File,
    syncs: Mutex<Syncs>,
    ended: Condvar,
    counts: Counts,
}

impl FlashFile {
    /// As [`MemoryFile::open`].
    ///
    /// # Errors
    /// The same.
    pub fn open(path: &Path, capacity_bytes: u64) -> Result<Self> {
        let mapped = MemoryFile::open(path, capacity_bytes)?;
        mapped.expect_random_reads();
        let file = mapped.file().try_clone().map_err(Error::io("opening the heap's file again"))?;
        sync_directory(path)?;
        Ok(Self { mapped, file, syncs: Mutex::default(), ended: Condvar::new(), counts: Counts::default() })
    }

    fn syncs(&self) -> MutexGuard<'_, Syncs> {
        self.syncs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a sync that begins after this call, and makes it if nobody does.
    fn sync_all(&self) -> Result<()> {
        let mut syncs = self.syncs();
        // The one under way may have begun before the bytes were stored.
        let wanted = syncs.begun + 1;
        while syncs.ended < wanted && syncs.failed.is_none() {
            if syncs.begun == syncs.ended {
                syncs.begun += 1;
                drop(syncs);
                let synced = self.file.sync_data();
                syncs = self.syncs();
                syncs.ended += 1;
                syncs.failed = synced.err().map(|error| error.raw_os_error().unwrap_or(libc::EIO));
                self.ended.notify_all();
            } else {
                syncs = self.ended.wait(syncs).unwrap_or_else(PoisonError::into_inner);
            }
        }
        match syncs.failed {
            Some(errno) => {
                Err(Error::io("making the heap's file durable")(io::Error::from_raw_os_error(errno)))
            }
            None => Ok(()),
        }
    }
}

/// Makes the name of a new file durable.
fn sync_directory(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(Error::io(format!("making the directory {} durable", directory.display())))
}

impl Persist for FlashFile {
    fn len_bytes(&self) -> u64 {
        self.mapped.len_bytes()
    }

    fn grow(&self, len_bytes: u64) -> Result<()> {
        self.mapped.grow(len_bytes)
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.persist_in_place(&[(offset, bytes)])
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.mapped.put(offset, bytes);
        Ok(())
    }

    fn sync(&self, ranges: &[(u64, u64)]) -> Result<()> {
        self.sync_all()?;
        for &(offset, len) in ranges {
            self.counts.add_range(offset, len as usize);
        }
        self.counts.add_fence();
        Ok(())
    }

    fn persist_in_place(&self, ranges: &[(u64, &[u8])]) -> Result<()> {
        for &(offset, bytes) in ranges {
            self.mapped.put(offset, bytes);
        }
        self.sync_all()?;
        for &(offset, bytes) in ranges {
            self.counts.add_range(offset, bytes.len());
        }
        self.counts.add_fence();
        Ok(())
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        self.mapped.read(offset, out);
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.mapped.punch(offset, len_bytes)
    }

    fn refill(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.mapped.refill(offset, len_bytes)
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_is_behind_each_persist() {
        const THREADS: usize = 8;
        const EACH: usize = 50;
        let dir = tempfile::tempdir().expect("a directory");
        let file = FlashFile::open(&dir.path().join("heap"), 1 << 20).expect("a file");
        file.grow(1 << 20).expect("room");
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let file = &file;
                scope.spawn(move || {
                    for n in 0..EACH {
                        let offset = ((thread * EACH + n) * 64) as u64;
                        file.persist(offset, &[thread as u8 + 1; 64]).expect("inside");
                    }
                });
            }
        });
        let mut out = vec![0; THREADS * EACH * 64];
        file.read(0, &mut out);
        assert!(out.iter().enumerate().all(|(at, &byte)| usize::from(byte) == at / 64 / EACH + 1));
        let Syncs { begun, ended, .. } = *file.syncs();
        assert!(begun == ended && ended > 0 && ended as usize <= THREADS * EACH, "{ended} syncs");
        assert_eq!(file.counts().fences() as usize, THREADS * EACH);
    }
}
