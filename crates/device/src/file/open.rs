//! The ways to open a device.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::direct::{self, Mode};
use super::own;
use super::{FileDevice, Kind, is_same_file, kernel, reserve};
use crate::batch::Concurrency;
use crate::bounds::Bounds;
use crate::error::OpenError;

/// The smallest block of any device; every length is a multiple of it.
const SECTOR_BYTES: usize = 512;

/// The unit of `st_blocks`, whatever the file system's own block is.
const STAT_BLOCK_BYTES: u64 = 512;

/// Where a device would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// How large it could be, bytes.
    pub available_bytes: u64,
    /// The file system is memory itself, as tmpfs is.
    pub is_memory: bool,
    /// Other files share it.
    pub is_shared: bool,
}

impl Site {
    fn of(file: &File) -> Self {
        Self { available_bytes: available_to(file), is_memory: kernel::is_memory(file), is_shared: true }
    }
}

impl FileDevice {
    /// Looks what [`open`](Self::open) would find at `path`, which stays as it is.
    ///
    /// # Errors
    /// Why nothing could be opened there.
    pub fn look(path: impl AsRef<Path>) -> Result<Site, OpenError> {
        let path = absolute(path.as_ref())?;
        let failed = |error| OpenError::from_io(&path, "opening", error);
        let in_folder = |folder: &Path| {
            let made =
                open_unnamed(folder).map_err(|error| OpenError::from_io(folder, "making a file in", error));
            made.map(|file| Site::of(&file))
        };
        match fs::metadata(&path).map(|metadata| metadata.file_type()) {
            Ok(kind) if kind.is_dir() => in_folder(&path),
            Ok(kind) if kind.is_block_device() => {
                let mut file = read_write().custom_flags(libc::O_EXCL).open(&path).map_err(failed)?;
                let available_bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
                Ok(Site { available_bytes, is_memory: false, is_shared: false })
            }
            Ok(kind) if kind.is_file() => {
                let file = read_write().open(&path).map_err(failed)?;
                lock(&path, &file)?;
                let site = Site::of(&file);
                kernel::unlock(&file);
                Ok(site)
            }
            Ok(_) => Err(OpenError::NotAFileOrBlockDevice { path }),
            Err(error) => {
                path.parent().map_or_else(|| Err(failed(error)), in_folder).map_err(|error| match error {
                    // Of what was named, not of the folder that it would be made in.
                    OpenError::PermissionDenied { .. } => OpenError::PermissionDenied { path: path.clone() },
                    other => other,
                })
            }
        }
    }

    /// Opens whatever `path` is: a folder gets an [unnamed file](Self::unnamed_in), a block device is
    /// [opened as such](Self::open_block), anything else is a file to [create](Self::create) or reuse.
    ///
    /// # Errors
    /// As the function that it comes to.
    pub fn open(path: impl AsRef<Path>, len_bytes: u64) -> Result<Self, OpenError> {
        let path = path.as_ref();
        match fs::metadata(path).map(|metadata| metadata.file_type()) {
            Ok(kind) if kind.is_dir() => Self::unnamed_in(path, len_bytes),
            Ok(kind) if kind.is_block_device() => Self::open_block(path, len_bytes),
            _ => Self::create(path, len_bytes),
        }
    }

    /// Opens the regular file `path` for this process alone, and makes it when it is not there, readable by
    /// its owner only. Its first `len_bytes` bytes are the device; what an old file holds stays.
    ///
    /// # Errors
    /// [`OpenError`]; a file that this call made is gone again, an old one has its old length.
    ///
    /// # Durability
    /// The file's name, length and reserved space are durable.
    pub fn create(path: impl AsRef<Path>, len_bytes: u64) -> Result<Self, OpenError> {
        let path = absolute(path.as_ref())?;
        check_length(&path, len_bytes, SECTOR_BYTES)?;
        let (file, kind) = open_or_create(&path)?;
        let mut undo = Undo { path: &path, file: &file, kind, old_len: None, keep: false };
        if let Err(error) = lock(&path, &file) {
            // The process that holds the lock owns the file, even if this call made it.
            undo.keep = matches!(error, OpenError::Busy { .. });
            return Err(error);
        }
        // Not earlier: until then another owner may have changed it.
        undo.old_len = file.metadata().ok().map(|metadata| metadata.len());
        let mode = prepare(&path, &file, len_bytes)?;
        sync_with_folder(&path, &file, kind)?;
        undo.keep = true;
        drop(undo);
        Ok(Self::assemble(file, path, kind, len_bytes, mode))
    }

    /// Makes a file without a name in the folder `dir`. It goes when the device is dropped or the process
    /// dies.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is left in the folder.
    pub fn unnamed_in(dir: impl AsRef<Path>, len_bytes: u64) -> Result<Self, OpenError> {
        let dir = absolute(dir.as_ref())?;
        check_length(&dir, len_bytes, SECTOR_BYTES)?;
        let file = open_unnamed(&dir).map_err(|error| OpenError::from_io(&dir, "making a file in", error))?;
        let mode = prepare(&dir, &file, len_bytes)?;
        Ok(Self::assemble(file, dir, Kind::Unnamed, len_bytes, mode))
    }

    /// Opens the block device `path` for this process alone. The device is its first `len_bytes` bytes, or
    /// all of it when that is 0. Whatever it holds will be overwritten; one that is mounted is refused.
    ///
    /// # Errors
    /// [`OpenError`]; the block device is untouched.
    pub fn open_block(path: impl AsRef<Path>, len_bytes: u64) -> Result<Self, OpenError> {
        let path = absolute(path.as_ref())?;
        let failed = |error| OpenError::from_io(&path, "opening", error);
        let kind = fs::metadata(&path).map_err(failed)?.file_type();
        if !kind.is_block_device() {
            return Err(OpenError::NotAFileOrBlockDevice { path });
        }
        // Without O_CREAT, this flag means to a block device that nobody else may claim it, a mount included.
        let mut file = read_write().custom_flags(libc::O_EXCL).open(&path).map_err(failed)?;
        let actual = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let mode = block_mode(&path, &file)?;
        let len_bytes = if len_bytes == 0 { actual - actual % mode.block_bytes as u64 } else { len_bytes };
        let needed = len_bytes.max(mode.block_bytes as u64);
        if actual < needed {
            return Err(OpenError::TooSmall { path, needed, actual });
        }
        check_length(&path, len_bytes, mode.block_bytes)?;
        Ok(Self::assemble(file, path, Kind::Block, len_bytes, mode))
    }

    fn assemble(file: File, path: PathBuf, kind: Kind, len_bytes: u64, mode: Mode) -> Self {
        let bounds = Bounds { device_bytes: len_bytes, block_bytes: mode.block_bytes };
        FileDevice {
            file: own(file),
            path,
            kind,
            bounds,
            direct: mode.direct,
            remove_on_drop: false,
            owner_pid: std::process::id(),
            // A system without rings or threads is no reason to fail: batches then go one by one.
            concurrency: Concurrency::best(),
        }
    }
}

/// Puts the folder back as it was when opening fails half-way.
struct Undo<'a> {
    path: &'a Path,
    file: &'a File,
    kind: Kind,
    /// Unknown until the file is locked.
    old_len: Option<u64>,
    keep: bool,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        // The error that led here says more than a failure to clean up could.
        if self.keep {
            return;
        }
        if self.kind == Kind::Created {
            let _ = fs::remove_file(self.path);
        } else if let Some(old_len) = self.old_len {
            let _ = self.file.set_len(old_len);
        }
    }
}

fn read_write() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// The path as it will still mean the same file after a change of directory.
fn absolute(path: &Path) -> Result<PathBuf, OpenError> {
    std::path::absolute(path).map_err(|error| OpenError::from_io(path, "opening", error))
}

fn check_length(path: &Path, len_bytes: u64, block_bytes: usize) -> Result<(), OpenError> {
    if len_bytes > 0 && len_bytes.is_multiple_of(block_bytes as u64) {
        return Ok(());
    }
    Err(OpenError::BadLength { path: path.to_owned(), len_bytes, block_bytes })
}

/// The file, and whether it was there before.
fn open_or_create(path: &Path) -> Result<(File, Kind), OpenError> {
    let failed = |error| OpenError::from_io(path, "opening", error);
    // Opening a pipe or a tape would already do something to it, so look first.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(OpenError::NotAFileOrBlockDevice { path: path.to_owned() });
    }
    match read_write().create_new(true).open(path) {
        Ok(file) => Ok((file, Kind::Created)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((read_write().open(path).map_err(failed)?, Kind::Reused))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Makes this process the owner of the file.
fn lock(path: &Path, file: &File) -> Result<(), OpenError> {
    kernel::lock_exclusive(file).map_err(|error| OpenError::from_io(path, "locking", error))?;
    // An owner that removed the file before it let go leaves a lock that protects nothing.
    if is_same_file(path, file) { Ok(()) } else { Err(OpenError::Busy { path: path.to_owned() }) }
}

/// Reserves the space and settles how the file is read and written.
fn prepare(path: &Path, file: &File, len_bytes: u64) -> Result<Mode, OpenError> {
    let available = available_to(file);
    reserve::reserve(file, len_bytes).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            OpenError::NoSpace { path: path.to_owned(), wanted: len_bytes, available }
        }
        Some(libc::EFBIG) => OpenError::FileLimit { path: path.to_owned(), wanted: len_bytes },
        _ => OpenError::from_io(path, "reserving the space of", error),
    })?;
    let mode = direct::choose(file);
    check_length(path, len_bytes, mode.block_bytes)?;
    Ok(mode)
}

/// The size that `file` could grow to.
fn available_to(file: &File) -> u64 {
    let held = file.metadata().map_or(0, |metadata| metadata.blocks() * STAT_BLOCK_BYTES);
    held.saturating_add(kernel::available_bytes(file))
}

/// Makes length and space of the file durable, and its name if that is new.
fn sync_with_folder(path: &Path, file: &File, kind: Kind) -> Result<(), OpenError> {
    let failed = |error| OpenError::from_io(path, "syncing", error);
    file.sync_all().map_err(failed)?;
    let folder = path.parent().filter(|_| kind == Kind::Created);
    // A folder that may be written but not read cannot be synced; there the name is durable when the kernel
    // likes.
    match folder.map(File::open) {
        Some(Ok(folder)) => match folder.sync_all() {
            // A file system that does not know how to sync a folder.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result.map_err(failed),
        },
        _ => Ok(()),
    }
}

/// A file in `dir` that has no name, or none any more where the file system cannot do without.
fn open_unnamed(dir: &Path) -> io::Result<File> {
    match read_write().custom_flags(libc::O_TMPFILE).open(dir) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            create_and_unlink(dir)
        }
        result => result,
    }
}

fn create_and_unlink(dir: &Path) -> io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let name = format!(".aquifer-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = dir.join(name);
        match read_write().create_new(true).open(&path) {
            // Left over from a process of the same number that died between the two calls.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
}

/// A block device is always read directly, in its own blocks.
fn block_mode(path: &Path, file: &File) -> Result<Mode, OpenError> {
    let failed = |error| OpenError::from_io(path, "preparing", error);
    let block_bytes = kernel::sector_bytes(file).map_err(failed)?;
    if !matches!(block_bytes, 512 | 4096) {
        let text = format!("its blocks of {block_bytes} bytes are neither 512 nor 4096");
        return Err(failed(io::Error::other(text)));
    }
    kernel::set_direct(file, true).map_err(failed)?;
    Ok(Mode { direct: true, block_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fallback_for_unnamed_files_leaves_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let _first = create_and_unlink(dir.path()).unwrap();
        let _second = create_and_unlink(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn undo_removes_new_files_and_shortens_old_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let (file, kind) = open_or_create(&path).unwrap();
        assert_eq!(kind, Kind::Created);
        drop(Undo { path: &path, file: &file, kind, old_len: None, keep: false });
        assert!(!path.exists());
        fs::write(&path, b"old").unwrap();
        let (file, kind) = open_or_create(&path).unwrap();
        assert_eq!(kind, Kind::Reused);
        let undo = Undo { path: &path, file: &file, kind, old_len: Some(3), keep: false };
        file.set_len(8192).unwrap();
        drop(undo);
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_lock_on_a_removed_file_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let (file, _) = open_or_create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(matches!(lock(&path, &file), Err(OpenError::Busy { .. })));
    }
}
