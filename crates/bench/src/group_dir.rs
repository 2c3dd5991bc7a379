//! The directory of a control group: made, joined by a process, removed.

use std::ffi::CStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::cleanup::{self, Guard};
use crate::controller::{Controller, Version};
use crate::error::{Error, Result};
use crate::workdir::c_path;

/// Followed by the number of the process that made the group, and the peer.
const NAME_PREFIX: &str = "aquifer-bench-";
const PROCESSES: &str = "cgroup.procs";
/// A group can only be removed once the kernel has let go of its last process.
const REMOVE_TRIES: u32 = 250;
const REMOVE_PAUSE: Duration = Duration::from_millis(20);

/// A group without limits yet; removed when dropped.
#[derive(Debug)]
pub struct GroupDir {
    path: PathBuf,
    version: Version,
    _removed_on_drop: Guard,
}

impl GroupDir {
    /// Makes a group for `peer` that `controller` can limit.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is missing: the controller, or the right to use it.
    pub fn make(controller: Controller, peer: &str) -> Result<Self> {
        let name = format!("{NAME_PREFIX}{}-{peer}", std::process::id());
        let (version, parents) = controller.parents()?;
        let mut refusals = Vec::new();
        for parent in &parents {
            remove_leftovers(parent);
            match Self::make_in(parent, &name, controller, version) {
                Ok(group) => return Ok(group),
                Err(refusal) => refusals.push(refusal.to_string()),
            }
        }
        let what = controller.name(Version::V1);
        Err(Error::Unavailable(format!(
            "no {what}-limit cgroup can be made ({}); run as root on the host, or with \
             delegated cgroups: systemd-run --user --scope -p Delegate=yes ...",
            refusals.join("; ")
        )))
    }

    fn make_in(parent: &Path, name: &str, controller: Controller, version: Version) -> Result<Self> {
        let path = parent.join(name);
        if version == Version::V2 {
            enable(parent, controller)?;
        }
        fs::create_dir(&path).map_err(Error::io("making", &path))?;
        let owned = path.clone();
        let guard = cleanup::register(move || remove(&owned));
        Ok(Self { path, version, _removed_on_drop: guard })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose files it has.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Lets `controller` limit this group of version 2 as well, which was made for another one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn enable(&self, controller: Controller) -> Result<()> {
        enable(self.path.parent().unwrap_or(&self.path), controller)
    }

    /// Writes `value` into one of its files.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value).map_err(Error::io("writing", &path))
    }

    /// Arranges that `command` joins the group before its program starts.
    pub fn joined_by<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let processes = c_path(&self.path.join(PROCESSES));
        let join = move || join_in_child(&processes);
        // SAFETY: between fork and exec only open, write and close are called, which are
        // async-signal-safe; the path was made before.
        unsafe { command.pre_exec(join) }
    }
}

/// Moves the calling process into the group at `path`.
///
/// # Errors
/// [`Error::Io`].
pub fn join(path: &Path) -> Result<()> {
    let processes = path.join(PROCESSES);
    fs::write(&processes, std::process::id().to_string()).map_err(Error::io("joining", &processes))
}

/// Moves the calling process, a child before exec, into the group with that file of processes.
fn join_in_child(processes: &CStr) -> io::Result<()> {
    // Zero stands for the process that writes.
    const SELF: &[u8] = b"0";
    // SAFETY: a terminated path, a descriptor of our own, and a buffer of the length given.
    let (written, error) = unsafe {
        let file = libc::open(processes.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        let written = libc::write(file, SELF.as_ptr().cast(), SELF.len());
        let error = io::Error::last_os_error();
        libc::close(file);
        (written, error)
    };
    if written == SELF.len() as isize { Ok(()) } else { Err(error) }
}

fn enable(parent: &Path, controller: Controller) -> Result<()> {
    let control = parent.join("cgroup.subtree_control");
    let what = format!("+{}", controller.name(Version::V2));
    fs::write(&control, what).map_err(Error::io("enabling a controller in", &control))
}

fn remove(path: &Path) {
    for _ in 0..REMOVE_TRIES {
        match fs::remove_dir(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => thread::sleep(REMOVE_PAUSE),
            _ => return,
        }
    }
    eprintln!("could not remove the control group {}", path.display());
}

/// Removes groups in `parent` whose maker was killed before it could do so.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let maker = entry.file_name().to_str().and_then(maker_of);
        if maker.is_some_and(|maker| !Path::new("/proc").join(maker.to_string()).exists()) {
            remove(&entry.path());
        }
    }
}

/// The process that made the group called `name`, if it is one of ours.
fn maker_of(name: &str) -> Option<u32> {
    name.strip_prefix(NAME_PREFIX)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_groups_have_a_maker() {
        assert_eq!(maker_of("aquifer-bench-4711-mmap-default"), Some(4711));
        assert_eq!(maker_of("aquifer-bench-x-swap"), None);
        assert_eq!(maker_of("user.slice"), None);
    }
}
