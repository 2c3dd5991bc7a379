//! Devices to test, and the folders, loop devices and mounts that they stand on.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aquifer_device::{AlignedBuffer, Device};
use tempfile::TempDir;

/// More than two stripes of the memory device, and not a whole number of them.
pub const DEVICE_BYTES: u64 = (2 << 20) + (64 << 10);

/// A device, and whatever must outlive it.
pub struct Fixture {
    device: Box<dyn Device>,
    _ground: Box<dyn Any>,
}

impl Fixture {
    pub fn new(device: Box<dyn Device>, ground: impl Any) -> Self {
        Fixture { device, _ground: Box::new(ground) }
    }

    /// A device in a folder of its own.
    pub fn in_folder(make: impl FnOnce(&Path) -> Box<dyn Device>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Fixture::new(make(dir.path()), dir)
    }

    pub fn device(&self) -> &dyn Device {
        &*self.device
    }
}

/// `len_bytes` bytes in which every 8 tell `tag` and where they are.
pub fn pattern(tag: u64, len_bytes: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::new(len_bytes);
    for (index, word) in buffer.chunks_exact_mut(8).enumerate() {
        let value = (tag << 32 | index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        word.copy_from_slice(&value.to_le_bytes());
    }
    buffer
}

/// What the device holds at `offset`.
pub fn read(device: &dyn Device, offset: u64, len_bytes: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::new(len_bytes);
    device.read_at(offset, &mut buffer).unwrap();
    buffer
}

/// Held while a child process may have copies of this process's files, which it has until it calls `exec`.
static CHILDREN: RwLock<()> = RwLock::new(());

/// Keeps other tests from starting children, so that a file that is closed now is closed.
pub fn without_children() -> RwLockReadGuard<'static, ()> {
    CHILDREN.read().unwrap_or_else(PoisonError::into_inner)
}

/// Tells [`without_children`] that there may be a child.
pub fn with_a_child() -> RwLockWriteGuard<'static, ()> {
    CHILDREN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program; its output without the last newline, or `None` when it fails or is not there.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let _child = with_a_child();
    let output = Command::new(program).args(arguments).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// A loop device over a file in a folder of its own.
pub struct LoopDevice {
    pub path: PathBuf,
    _folder: TempDir,
}

impl LoopDevice {
    /// `None` without the rights or the program.
    pub fn new(len_bytes: u64, sector_bytes: usize) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let image = folder.path().join("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(len_bytes)).ok()?;
        let sector = sector_bytes.to_string();
        let arguments = ["--find", "--show", "--sector-size", &sector, image.to_str()?];
        let path = PathBuf::from(run("losetup", &arguments)?);
        Some(LoopDevice { path, _folder: folder })
    }

    /// Makes a file system on it and mounts that.
    pub fn mount(&self) -> Option<Mount> {
        run("mkfs.ext4", &["-q", self.path.to_str()?])?;
        Mount::new(&[self.path.to_str()?])
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = run("losetup", &["--detach", &self.path.to_string_lossy()]);
    }
}

/// A mounted file system in a folder of its own.
pub struct Mount {
    folder: TempDir,
}

impl Mount {
    /// A file system in memory. `None` without the rights.
    pub fn tmpfs(options: &str) -> Option<Self> {
        Mount::new(&["-t", "tmpfs", "-o", options, "tmpfs"])
    }

    fn new(arguments: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        run("mount", &[arguments, &[folder.path().to_str()?]].concat())?;
        Some(Mount { folder })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = run("umount", &[&self.folder.path().to_string_lossy()]);
    }
}
