//! A file that is mapped: persistent memory (DAX), or a file in RAM (tmpfs) that outlives the process.
//!
//! On any other file what was persisted outlives the process, but not the machine: see [`FlashFile`](super::FlashFile).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence as memory_fence};

use aquifer_sys::persist::{copy_past_caches, fence, store_and_write_back, write_back};

use super::{Counts, Persist};
use crate::error::{Error, Result};

/// Fewer bytes are stored in the caches and written back, more go past them: the next block of a log begins in the line where a small one ends.
const SMALL_BYTES: usize = 256;
/// More is read by a call than through the mapping.
const CALL_BYTES: usize = 32 << 10;

/// A mapped file. Address space is reserved for all that it may become.
pub struct MemoryFile {
    file: File,
    base: *mut u8,
    capacity_bytes: usize,
    len_bytes: AtomicU64,
    growing: Mutex<()>,
    is_read_only: bool,
    /// Whether what is stored must leave the caches to be durable.
    flushes: bool,
    counts: Counts,
    /// The process that has locked the file; children of a fork share the lock, which is not theirs to give up.
    owner: u32,
}

/// Maps a file for all that it may become; of persistent memory in the mode in which its metadata are durable with the data.
fn map(file: &File, capacity_bytes: usize, protection: i32) -> io::Result<*mut u8> {
    let (len, fd) = (capacity_bytes, file.as_raw_fd());
    for flags in [libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC, libc::MAP_SHARED | libc::MAP_NORESERVE] {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, 0) };
        if mapped != libc::MAP_FAILED {
            return Ok(mapped.cast());
        }
    }
    Err(io::Error::last_os_error())
}

/// What a file is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A file system in RAM: what was stored outlives the process.
    Ram,
    /// Persistent memory: what was written back outlives the machine.
    Persistent,
    /// A disk, which needs `fdatasync`.
    Disk,
}

impl Medium {
    /// That of the file at `path`, which is made if it is missing.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn of(path: &Path) -> Result<Self> {
        const PAGE: usize = 4096;
        let failed = |what: &str| Error::io(format!("{what} {}", path.display()));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(failed("opening"))?;
        // SAFETY: all zeros are a valid value of this plain struct, which the call fills.
        let mut info: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open, and `info` is what the call fills.
        if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut info) } != 0 {
            return Err(failed("looking at the file system of")(io::Error::last_os_error()));
        }
        if info.f_type == libc::TMPFS_MAGIC {
            return Ok(Self::Ram);
        }
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), PAGE, protection, flags, file.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED {
            return Ok(Self::Disk);
        }
        // SAFETY: the mapping that was just made.
        unsafe { libc::munmap(mapped, PAGE) };
        Ok(Self::Persistent)
    }
}

// SAFETY: the mapping lives as long as the value; it is written by `persist` alone, whose callers do not overlap, and read
// as atomics.
unsafe impl Send for MemoryFile {}
// SAFETY: as above.
unsafe impl Sync for MemoryFile {}

impl MemoryFile {
    /// Opens the file, or makes an empty one, that may grow to `capacity_bytes`. Nobody else has it open meanwhile.
    ///
    /// # Errors
    /// The file cannot be opened, is in use, is longer than that, or cannot be mapped.
    pub fn open(path: &Path, capacity_bytes: u64) -> Result<Self> {
        let failed = |what: &str| Error::io(format!("{what} {}", path.display()));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(failed("opening"))?;
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(failed("another process has the heap; locking")(io::Error::last_os_error()));
        }
        let len_bytes = file.metadata().map_err(failed("looking at"))?.len();
        let capacity_bytes = capacity_bytes.max(len_bytes).next_multiple_of(4096) as usize;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let base = map(&file, capacity_bytes, protection).map_err(failed("mapping"))?;
        Ok(Self {
            file,
            base,
            capacity_bytes,
            len_bytes: AtomicU64::new(len_bytes),
            growing: Mutex::new(()),
            is_read_only: false,
            flushes: true,
            counts: Counts::default(),
            owner: std::process::id(),
        })
    }

    /// The same file; what is persisted outlives the process, and no more, as on a file system in RAM: it stays in the caches, and nothing waits for it.
    #[must_use]
    pub fn without_flushes(mut self) -> Self {
        self.flushes = false;
        self
    }

    /// Opens a file for reading, which others may do at the same time. All that would change it fails.
    ///
    /// # Errors
    /// The file cannot be opened, is in use by somebody who may change it, or cannot be mapped.
    pub fn open_read_only(path: &Path) -> Result<Self> {
        let failed = |what: &str| Error::io(format!("{what} {}", path.display()));
        let file = File::open(path).map_err(failed("opening"))?;
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) } != 0 {
            return Err(failed("another process has the heap; locking")(io::Error::last_os_error()));
        }
        let len_bytes = file.metadata().map_err(failed("looking at"))?.len();
        let capacity_bytes = len_bytes.max(1).next_multiple_of(4096) as usize;
        let base = map(&file, capacity_bytes, libc::PROT_READ).map_err(failed("mapping"))?;
        let (len_bytes, growing) = (AtomicU64::new(len_bytes), Mutex::new(()));
        Ok(Self {
            file,
            base,
            capacity_bytes,
            len_bytes,
            growing,
            is_read_only: true,
            flushes: true,
            counts: Counts::default(),
            owner: std::process::id(),
        })
    }

    fn ensure_writable(&self) -> Result<()> {
        if !self.is_read_only {
            return Ok(());
        }
        let refused = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        Err(Error::io("changing a heap that was opened for reading")(refused))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Has the kernel read no neighbours of what is looked at.
    pub(super) fn expect_random_reads(&self) {
        // SAFETY: the mapping is ours, and no byte changes. What the kernel refuses costs speed, nothing else.
        let _ = unsafe { libc::madvise(self.base.cast(), self.capacity_bytes, libc::MADV_RANDOM) };
    }

    /// Stores bytes that somebody else makes durable.
    pub(super) fn put(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= self.len_bytes());
        // SAFETY: inside the file, and nobody else writes there.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(offset as usize), bytes.len()) };
    }

    fn allocate(&self, mode: i32, offset: u64, len_bytes: u64, what: &str) -> Result<()> {
        self.ensure_writable()?;
        let (offset, len) = (offset as libc::off_t, len_bytes as libc::off_t);
        loop {
            // SAFETY: the descriptor is open.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset, len) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(Error::io(what)(error));
            }
        }
    }
}

impl Persist for MemoryFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes.load(Ordering::Acquire)
    }

    fn grow(&self, len_bytes: u64) -> Result<()> {
        self.ensure_writable()?;
        let _growing = self.growing.lock();
        let before = self.len_bytes();
        if len_bytes <= before {
            return Ok(());
        }
        if len_bytes > self.capacity_bytes as u64 {
            return Err(Error::Full { capacity_bytes: self.capacity_bytes as u64 });
        }
        // Memory that is allocated now is not missing later, when a store would have no way to say so.
        self.allocate(0, before, len_bytes - before, "growing the heap's file")?;
        self.len_bytes.store(len_bytes, Ordering::Release);
        Ok(())
    }

    fn reserve(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.allocate(libc::FALLOC_FL_KEEP_SIZE, offset, len_bytes, "keeping room for the heap's file")
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.ensure_writable()?;
        assert!(offset + bytes.len() as u64 <= self.len_bytes() && offset.is_multiple_of(4));
        self.counts.add_range(offset, bytes.len());
        if !self.flushes {
            self.put(offset, bytes);
            // What is stored later is not there before it.
            memory_fence(Ordering::Release);
            return Ok(());
        }
        // SAFETY: inside the file, and nobody else writes there.
        unsafe {
            let target = self.base.add(offset as usize);
            if bytes.len() < SMALL_BYTES {
                store_and_write_back(bytes, target);
            } else {
                copy_past_caches(bytes, target);
            }
        }
        fence();
        self.counts.add_fence();
        Ok(())
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.ensure_writable()?;
        self.put(offset, bytes);
        Ok(())
    }

    fn sync(&self, ranges: &[(u64, u64)]) -> Result<()> {
        for &(offset, len) in ranges {
            assert!(offset + len <= self.len_bytes());
            if self.flushes {
                // SAFETY: inside the file.
                write_back(unsafe { self.base.add(offset as usize) }, len as usize);
            }
            self.counts.add_range(offset, len as usize);
        }
        if self.flushes {
            fence();
            self.counts.add_fence();
        }
        Ok(())
    }

    fn settle(&self, ranges: &[(u64, u64)]) -> Result<()> {
        if self.is_read_only {
            // It may be on a disk. What a disk refused before it does not write now.
            self.file.sync_data().map_err(Error::io("making the heap's file durable"))?;
        }
        self.sync(ranges)
    }

    #[cfg(feature = "in-place")]
    fn persist_in_place(&self, ranges: &[(u64, &[u8])]) -> Result<()> {
        self.ensure_writable()?;
        for &(offset, bytes) in ranges {
            assert!(offset + bytes.len() as u64 <= self.len_bytes());
            // SAFETY: inside the file, and nobody else writes there.
            unsafe { store_and_write_back(bytes, self.base.add(offset as usize)) };
            self.counts.add_range(offset, bytes.len());
        }
        fence();
        self.counts.add_fence();
        Ok(())
    }

    #[inline]
    fn read(&self, offset: u64, out: &mut [u8]) {
        let inside = self.len_bytes().saturating_sub(offset).min(out.len() as u64) as usize;
        // Without a page fault for each of many pages. What cannot be read this way cannot be read at all.
        if out.len() >= CALL_BYTES && self.file.read_exact_at(&mut out[..inside], offset).is_ok() {
            return out[inside..].fill(0);
        }
        if inside < out.len() {
            out[inside..].fill(0);
            return self.read_inside(offset, &mut out[..inside]);
        }
        // SAFETY: inside the file.
        let from = unsafe { self.base.add(offset as usize) };
        match <&mut [u8; 8]>::try_from(&mut *out) {
            // SAFETY: inside the file, aligned.
            Ok(out) if from.addr().is_multiple_of(4) => *out = unsafe { load_two(from) },
            _ => self.read_inside(offset, out),
        }
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        self.allocate(mode, offset, len_bytes, "giving back memory of the heap's file")
    }

    fn refill(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.allocate(0, offset, len_bytes, "taking memory for the heap's file")
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl MemoryFile {
    /// Copies bytes of the file, word by word.
    fn read_inside(&self, offset: u64, mut out: &mut [u8]) {
        if out.is_empty() {
            return;
        }
        // SAFETY: inside the file.
        let mut from = unsafe { self.base.add(offset as usize) }.cast_const();
        let offset_in_word = from.addr() % 4;
        if offset_in_word > 0 {
            // SAFETY: the word that has the first byte; it is in the same page of the file.
            let word = unsafe { load_word(from.sub(offset_in_word)) }.to_ne_bytes();
            let count = out.len().min(4 - offset_in_word);
            out[..count].copy_from_slice(&word[offset_in_word..offset_in_word + count]);
            out = &mut out[count..];
            // SAFETY: at most the end of the file.
            from = unsafe { from.add(count) };
        }
        let (pairs, rest) = out.as_chunks_mut::<8>();
        for pair in pairs {
            // SAFETY: inside the file, aligned.
            *pair = unsafe { load_two(from) };
            // SAFETY: at most the end of the file.
            from = unsafe { from.add(8) };
        }
        let (words, rest) = rest.as_chunks_mut::<4>();
        for word in words {
            // SAFETY: inside the file, aligned.
            *word = unsafe { load_word(from) }.to_ne_bytes();
            // SAFETY: at most the end of the file.
            from = unsafe { from.add(4) };
        }
        if !rest.is_empty() {
            let len = rest.len();
            // SAFETY: the word is in the page of the file that has its first byte, whatever the file's length.
            rest.copy_from_slice(&unsafe { load_word(from) }.to_ne_bytes()[..len]);
        }
    }
}

/// # Safety
/// Eight readable bytes, aligned to 4.
#[inline]
unsafe fn load_two(from: *const u8) -> [u8; 8] {
    // SAFETY: the caller's.
    let (first, second) = unsafe { (load_word(from), load_word(from.add(4))) };
    let mut out = [0; 8];
    out[..4].copy_from_slice(&first.to_ne_bytes());
    out[4..].copy_from_slice(&second.to_ne_bytes());
    out
}

/// # Safety
/// Four readable bytes, aligned to 4.
#[inline]
unsafe fn load_word(from: *const u8) -> u32 {
    // SAFETY: the caller's; atomic, because somebody may be writing what is then thrown away.
    unsafe { AtomicU32::from_ptr(from.cast_mut().cast()) }.load(Ordering::Relaxed)
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has a pointer into it.
        unsafe { libc::munmap(self.base.cast(), self.capacity_bytes) };
        // A child of a fork that has the descriptor too would keep the file locked.
        if self.owner == std::process::id() {
            // SAFETY: the descriptor is open.
            unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(capacity_bytes: u64) -> (tempfile::TempDir, MemoryFile) {
        let dir = tempfile::tempdir().expect("a directory");
        let file = MemoryFile::open(&dir.path().join("heap"), capacity_bytes).expect("a file");
        (dir, file)
    }

    #[test]
    fn reads_what_was_persisted_at_any_alignment() {
        let (_dir, file) = file(1 << 20);
        file.grow(8192).expect("room");
        let bytes: Vec<u8> = (0..200).collect();
        file.persist(100, &bytes).expect("inside");
        for start in 0..40 {
            for len in 0..60 {
                let mut out = vec![9; len];
                file.read(100 + start as u64, &mut out);
                assert_eq!(out, bytes[start..start + len]);
            }
        }
        assert_eq!((file.counts().fences(), file.counts().bytes()), (1, 200));
    }

    #[test]
    fn beyond_the_end_are_zeros() {
        let (_dir, file) = file(1 << 20);
        file.grow(4096).expect("room");
        file.persist(4088, &[1; 8]).expect("inside");
        let mut out = [9; 16];
        file.read(4088, &mut out);
        assert_eq!(out, [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        file.read(1 << 40, &mut out);
        assert_eq!(out, [0; 16]);
    }

    #[test]
    fn is_full_at_its_capacity_and_open_once() {
        let (dir, file) = file(8192);
        assert!(matches!(file.grow(8193), Err(Error::Full { capacity_bytes: 8192 })));
        let again = MemoryFile::open(&dir.path().join("heap"), 8192);
        assert!(matches!(again, Err(Error::Io { .. })));
        drop(file);
        MemoryFile::open(&dir.path().join("heap"), 8192).expect("free again");
    }

    /// A child of a fork has a copy of the descriptor, and may live longer than the heap is open.
    #[test]
    fn a_copy_of_the_descriptor_keeps_no_lock() {
        let (dir, file) = file(8192);
        let copy = file.file().try_clone().expect("a descriptor");
        drop(file);
        MemoryFile::open(&dir.path().join("heap"), 8192).expect("free again");
        drop(copy);
    }

    /// A child that closes its copy of the heap, as an exiting interpreter does, leaves its parent the lock.
    #[test]
    fn a_child_does_not_give_up_its_parents_lock() {
        let (dir, file) = file(8192);
        // SAFETY: the child calls nothing that another thread may have locked: `drop` unmaps, closes and asks for a number.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(file);
            // SAFETY: nothing of the child is needed any more.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: `status` is ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        let refused = MemoryFile::open(&dir.path().join("heap"), 8192).map(drop);
        assert!(refused.is_err(), "the parent has it");
        drop(file);
        MemoryFile::open(&dir.path().join("heap"), 8192).expect("free again");
    }

    #[test]
    fn punched_bytes_are_zeros() {
        let (_dir, file) = file(1 << 20);
        file.grow(16384).expect("room");
        file.persist(8192, &[7; 4096]).expect("inside");
        file.punch(8192, 4096).expect("supported");
        let mut out = [1; 64];
        file.read(8192, &mut out);
        assert_eq!(out, [0; 64]);
    }
}
