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
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{Counts, MemoryFile, Persist};
use crate::error::{Error, Result};

/// Syncs that those share who wait at the same time.
#[derive(Default)]
struct Syncs {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// How many have begun, and how many of these have ended.
    begun: u64,
    ended: u64,
    /// The operating system's error of the one that failed.
    failed: Option<i32>,
}

impl Syncs {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a `sync` that begins after this call, and makes it if nobody does.
    fn join(&self, sync: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.lock();
        // The one under way may have begun before the bytes were stored.
        let wanted = state.begun + 1;
        while state.ended < wanted && state.failed.is_none() {
            if state.begun == state.ended {
                state.begun += 1;
                drop(state);
                let synced = sync();
                state = self.lock();
                state.ended += 1;
                state.failed = synced.err().map(|error| error.raw_os_error().unwrap_or(libc::EIO));
                self.ended.notify_all();
            } else {
                state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        state.failed.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }
}

/// A mapped file on a disk.
pub struct FlashFile {
    mapped: MemoryFile,
    file: File,
    syncs: Syncs,
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
        Ok(Self { mapped, file, syncs: Syncs::default(), counts: Counts::default() })
    }

    /// Whether there is anything but a hole from `start` to `end`.
    fn has_data(&self, start: u64, end: u64) -> bool {
        // SAFETY: the descriptor is open, and nobody minds where it stands.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), start as libc::off_t, libc::SEEK_DATA) };
        match u64::try_from(found) {
            Ok(found) => found < end,
            // A file system that knows no holes has data everywhere.
            Err(_) => io::Error::last_os_error().raw_os_error() != Some(libc::ENXIO),
        }
    }

    /// Makes all durable that was stored before this call.
    fn sync_all(&self) -> Result<()> {
        self.syncs.join(|| self.file.sync_data()).map_err(Error::io("making the heap's file durable"))
    }

    /// Writes ranges, and waits once until all are durable.
    fn persist_all(&self, ranges: &[(u64, &[u8])]) -> Result<()> {
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
}

/// What is written again at a time.
const REWRITTEN_BYTES: usize = 64 << 10;

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

    fn reserve(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.mapped.reserve(offset, len_bytes)
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.persist_all(&[(offset, bytes)])
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

    /// Pages that the disk refused are clean all the same, and no sync writes them again: so all are written.
    fn settle(&self, ranges: &[(u64, u64)]) -> Result<()> {
        let mut bytes = vec![0; REWRITTEN_BYTES];
        for &(start, len) in ranges {
            let end = self.len_bytes().min(start + len);
            for at in (start..end).step_by(bytes.len()).filter(|&at| self.has_data(at, end)) {
                let bytes = &mut bytes[..(end - at).min(REWRITTEN_BYTES as u64) as usize];
                self.mapped.read(at, bytes);
                self.mapped.put(at, bytes);
            }
        }
        self.sync(ranges)
    }

    #[cfg(feature = "in-place")]
    fn persist_in_place(&self, ranges: &[(u64, &[u8])]) -> Result<()> {
        self.persist_all(ranges)
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
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_comes_during_a_sync_waits_for_another_one() {
        let (syncs, calls) = (Syncs::default(), AtomicU64::new(0));
        let ((begun, has_begun), (allowed, is_allowed)) = (channel(), channel());
        std::thread::scope(|scope| {
            let (syncs, calls) = (&syncs, &calls);
            scope.spawn(move || {
                let first = || {
                    calls.fetch_add(1, Ordering::Relaxed);
                    begun.send(()).expect("heard");
                    is_allowed.recv().expect("said");
                    Ok(())
                };
                syncs.join(first).expect("no failure");
            });
            has_begun.recv().expect("said");
            let count = || {
                calls.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            let later = move || syncs.join(count);
            let later = [scope.spawn(later), scope.spawn(later)];
            // Time for both threads to wait for the first sync. A late thread waits for a sync of its own all
            // the same.
            std::thread::sleep(Duration::from_millis(50));
            allowed.send(()).expect("heard");
            later.into_iter().for_each(|thread| thread.join().expect("no panic").expect("no failure"));
        });
        assert!(calls.into_inner() >= 2);
    }

    #[test]
    fn after_a_failure_nothing_is_durable_any_more() {
        let syncs = Syncs::default();
        syncs.join(|| Ok(())).expect("no failure");
        let failed = syncs.join(|| Err(io::Error::from_raw_os_error(libc::EIO)));
        assert_eq!(failed.expect_err("it failed").raw_os_error(), Some(libc::EIO));
        let later = syncs.join(|| panic!("it would not tell"));
        assert_eq!(later.expect_err("nobody knows").raw_os_error(), Some(libc::EIO));
    }

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
        let State { begun, ended, .. } = *file.syncs.lock();
        assert!(begun == ended && ended > 0 && ended as usize <= THREADS * EACH, "{ended} syncs");
        assert_eq!(file.counts().fences() as usize, THREADS * EACH);
    }
}
