//! Devices and file systems to measure, and what the tests need to be allowed for them.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A user that owns nothing.
pub const NOBODY: u32 = 65534;

/// Says that a test looks at nothing here, and why.
pub fn skipped(test: &str, reason: &str) {
    println!("SKIPPED {test}: {reason}");
}

/// Runs a program; what it printed, or what it complains about.
fn system(program: &str, arguments: &[&str]) -> Result<String, String> {
    let failed = |why: String| format!("{program} {}: {why}", arguments.join(" "));
    let output: Output =
        Command::new(program).args(arguments).output().map_err(|error| failed(error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(failed(text(&output.stderr))) }
}

/// A loop device over a sparse file in a folder of its own.
pub struct LoopDevice {
    pub path: PathBuf,
    image: PathBuf,
    _folder: TempDir,
}

impl LoopDevice {
    /// A device of zeros, or why there can be none.
    pub fn new(len_bytes: u64) -> Result<Self, String> {
        let folder = TempDir::new().expect("a folder");
        let image = folder.path().join("image");
        File::create(&image).and_then(|file| file.set_len(len_bytes)).expect("room");
        let path = system("losetup", &["--find", "--show", &image.to_string_lossy()])?.into();
        Ok(Self { path, image, _folder: folder })
    }

    /// Makes a file system on it.
    pub fn format(&self) -> Result<(), String> {
        system("mkfs.ext4", &["-q", &self.path.to_string_lossy()]).map(drop)
    }

    /// Mounts its file system.
    pub fn mount(&self) -> Result<Mount, String> {
        Mount::new(&[&self.path.to_string_lossy()])
    }

    /// Whether anything was written to it.
    pub fn is_written(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(&self.image).expect("it is there").blocks() > 0
    }

    /// Takes all its bytes away, also from those who have it open.
    pub fn vanish(&self) {
        File::options().write(true).open(&self.image).and_then(|file| file.set_len(0)).expect("it is there");
        system("losetup", &["--set-capacity", &self.path.to_string_lossy()]).expect("a loop device");
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = system("losetup", &["--detach", &self.path.to_string_lossy()]);
    }
}

/// A mounted file system in a folder of its own.
pub struct Mount {
    folder: TempDir,
}

impl Mount {
    /// A file system in memory, or why there can be none.
    pub fn tmpfs(options: &str) -> Result<Self, String> {
        Self::new(&["-t", "tmpfs", "-o", options, "tmpfs"])
    }

    fn new(arguments: &[&str]) -> Result<Self, String> {
        let folder = TempDir::new().expect("a folder");
        system("mount", &[arguments, &[&folder.path().to_string_lossy()]].concat())?;
        Ok(Self { folder })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = system("umount", &[&self.folder.path().to_string_lossy()]);
    }
}

/// Lets others look into a folder, which temporary folders do not.
pub fn open_to_all(folder: &TempDir) {
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
}

/// A file with `bytes`, in a folder that goes when the test ends.
pub fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("file");
    fs::write(&path, bytes).expect("room");
    (folder, path)
}

/// What a folder holds.
pub fn listed(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}
