//! A swap area of our own for the kernel-swap peer, always taken away again.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::workdir::{c_path, reserve};

const FILE_NAME: &str = "aquifer-bench.swap";
const SWAPS: &str = "/proc/swaps";
const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
/// `SWAP_FLAG_PREFER` with the highest priority, so that areas of the machine stay unused.
const SWAP_FLAGS: libc::c_int = 0x8000 | 0x7fff;

/// An active swap file, with read-around switched off; both are undone when dropped.
#[derive(Debug)]
pub struct SwapArea {
    bytes: u64,
    _undone_on_drop: (Option<Guard>, Guard),
}

impl SwapArea {
    /// Makes a swap file of `bytes` in `dir` and activates it. The caller holds the lock on `dir`,
    /// so a file of that name can only be left over from a killed run; it is replaced.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is missing: the right, the tool, the space, or a file
    /// system that can hold swap files.
    pub fn create(dir: &Path, bytes: u64) -> Result<Self> {
        let path = dir.join(FILE_NAME);
        let path = fs::canonicalize(dir).map(|dir| dir.join(FILE_NAME)).unwrap_or(path);
        remove(&path);
        let owned = path.clone();
        let file_guard = cleanup::register(move || remove(&owned));
        allocate(&path, bytes)?;
        make_swap(&path)?;
        switch_on(&path)?;
        let cluster_guard = set_page_cluster("0")?;
        Ok(Self { bytes, _undone_on_drop: (cluster_guard, file_guard) })
    }

    /// Activates the block device at `device`, of `bytes`. Nothing that matters is on it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is missing: the right or the tool.
    pub fn on_device(device: &Path, bytes: u64) -> Result<Self> {
        make_swap(device)?;
        let owned = device.to_owned();
        let area_guard = cleanup::register(move || {
            switch_off(&owned);
        });
        switch_on(device)?;
        let cluster_guard = set_page_cluster("0")?;
        Ok(Self { bytes, _undone_on_drop: (cluster_guard, area_guard) })
    }

    /// Size of the area.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Reserves `bytes` of disk for the new file at `path`, without writing them.
fn allocate(path: &Path, bytes: u64) -> Result<()> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(path);
    let file = file.map_err(Error::io("creating", path))?;
    reserve(&file, path, bytes)
}

fn make_swap(path: &Path) -> Result<()> {
    // Administrators' directories are often missing from the PATH of ordinary users.
    let search = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output =
        Command::new("mkswap").env("PATH", search).arg(path).output().map_err(|error| {
            Error::Unavailable(format!("mkswap does not run ({error}); install util-linux"))
        })?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(Error::Unavailable(format!("mkswap {} failed: {}", path.display(), message.trim())))
}

fn switch_on(path: &Path) -> Result<()> {
    let name = c_path(path);
    // SAFETY: a terminated string that outlives the call.
    if unsafe { libc::swapon(name.as_ptr(), SWAP_FLAGS) } == 0 {
        return Ok(());
    }
    let reason = Error::last_os("activating", path);
    Err(Error::Unavailable(format!("{reason}; swap files need root and a file system such as ext4 or xfs")))
}

/// Deactivates, which brings its pages back to RAM. Whether it is no swap area any more.
fn switch_off(path: &Path) -> bool {
    let active = fs::read_to_string(SWAPS).is_ok_and(|swaps| is_active(&swaps, path));
    let name = c_path(path);
    // SAFETY: a terminated string that outlives the call.
    if active && unsafe { libc::swapoff(name.as_ptr()) } != 0 {
        eprintln!("{}; try: swapoff {}", Error::last_os("deactivating", path), path.display());
        return false;
    }
    true
}

/// Deactivates and deletes the swap file, if there is one.
fn remove(path: &Path) {
    if switch_off(path) && path.exists() && fs::remove_file(path).is_err() {
        eprintln!("{}", Error::last_os("removing", path));
    }
}

/// Whether the table of active areas lists `path`; spaces are written as octal there.
fn is_active(swaps: &str, path: &Path) -> bool {
    let listed = path.to_string_lossy().replace(' ', "\\040");
    swaps.lines().skip(1).any(|line| line.split_whitespace().next() == Some(listed.as_str()))
}

/// Pages per swap read, as a power of two; the guard puts the old value back. A caller that finds `value` there puts nothing back: the second of two would leave it.
fn set_page_cluster(value: &str) -> Result<Option<Guard>> {
    let old = fs::read_to_string(PAGE_CLUSTER).map_err(Error::io("reading", PAGE_CLUSTER))?;
    if old.trim() == value {
        return Ok(None);
    }
    fs::write(PAGE_CLUSTER, value).map_err(Error::io("writing", PAGE_CLUSTER))?;
    Ok(Some(cleanup::register(move || {
        if let Err(error) = fs::write(PAGE_CLUSTER, &old) {
            eprintln!("{PAGE_CLUSTER} could not be set back to {}: {error}", old.trim());
        }
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_active_areas() {
        let swaps = "Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                     /swapfile                file\t\t1024\t\t0\t\t-2\n\
                     /my\\040disk/b.swap      file\t\t1024\t\t0\t\t32767\n";
        assert!(is_active(swaps, Path::new("/swapfile")));
        assert!(is_active(swaps, Path::new("/my disk/b.swap")));
        assert!(!is_active(swaps, Path::new("/swap")));
        assert!(!is_active(swaps, Path::new("Filename")));
    }
}
