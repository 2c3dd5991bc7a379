//! A memory-limit control group for one peer, version 1 or 2, made and removed.

use std::ffi::CStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::workdir::c_path;

const MOUNTS: &str = "/proc/self/mounts";
const OWN: &str = "/proc/self/cgroup";
/// Followed by the number of the process that made the group, and the peer.
const NAME_PREFIX: &str = "aquifer-bench-";
const LIMIT_V1: &str = "memory.limit_in_bytes";
/// Of version 1.
const OUT_OF_MEMORY: &str = "memory.oom_control";
const NUDGE_BYTES: u64 = 4096;
const PROCESSES: &str = "cgroup.procs";
/// A group can only be removed once the kernel has let go of its last process.
const REMOVE_TRIES: u32 = 250;
const REMOVE_PAUSE: Duration = Duration::from_millis(20);

/// The interface of the memory controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V1,
    V2,
}

/// A group with a limit; removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    version: Version,
    _removed_on_drop: Guard,
}

impl Cgroup {
    /// Makes a group for `peer` whose processes, with their page cache and kernel memory, get
    /// `limit_bytes`; only with `swap` may they be swapped out.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is missing: the controller, or the right to use it.
    pub fn create(peer: &str, limit_bytes: u64, swap: bool) -> Result<Self> {
        let name = format!("{NAME_PREFIX}{}-{peer}", std::process::id());
        let (version, parents) = candidates()?;
        let mut refusals = Vec::new();
        for parent in &parents {
            remove_leftovers(parent);
            match make(version, &parent.join(&name)) {
                Ok(group) => {
                    group.limit(limit_bytes, swap)?;
                    return Ok(group);
                }
                Err(refusal) => refusals.push(refusal.to_string()),
            }
        }
        Err(Error::Unavailable(format!(
            "no memory-limit cgroup can be made ({}); run as root on the host, or with \
             delegated cgroups: systemd-run --user --scope -p Delegate=yes ...",
            refusals.join("; ")
        )))
    }

    /// The group's directory, to be given to [`join`] in the process that is to be limited.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that are charged to the group now: its processes, page cache and kernel memory.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Input`].
    pub fn used_bytes(&self) -> Result<u64> {
        used_bytes_of(&self.path, self.version)
    }

    /// Lets processes that find no memory wait instead of being killed: the kernel gives up too early when all pages are just being written to a swap
    /// area. Whoever waits is woken by [`Cgroup::nudge`]. Version 2 cannot do it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn wait_for_memory(&self) -> Result<()> {
        let path = self.path.join(OUT_OF_MEMORY);
        match self.version {
            Version::V1 => fs::write(&path, "1").map_err(Error::io("writing", &path)),
            Version::V2 => Ok(()),
        }
    }

    /// Wakes processes that wait for memory: they look for it again. To be called every few milliseconds.
    pub fn nudge(&self) {
        let waits = |state: String| state.lines().any(|line| line == "under_oom 1");
        if self.version == Version::V2 || !fs::read_to_string(self.path.join(OUT_OF_MEMORY)).is_ok_and(waits)
        {
            return;
        }
        let path = self.path.join(LIMIT_V1);
        let Some(limit) = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u64>().ok())
        else {
            return;
        };
        // A limit that grows wakes them. It cannot shrink while they hold more, and is no larger than a page the next time.
        for limit in [limit + NUDGE_BYTES, limit] {
            if fs::write(&path, limit.to_string()).is_err() {
                return;
            }
        }
    }

    /// Arranges that `command` joins the group before its program starts.
    pub fn joined_by<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let processes = c_path(&self.path.join(PROCESSES));
        let join = move || join_in_child(&processes);
        // SAFETY: between fork and exec only open, write and close are called, which are
        // async-signal-safe; the path was made before.
        unsafe { command.pre_exec(join) }
    }

    fn limit(&self, limit_bytes: u64, swap: bool) -> Result<()> {
        let set = |file: &str, value: &str| {
            let path = self.path.join(file);
            fs::write(&path, value).map_err(Error::io("writing", &path))
        };
        let limit = limit_bytes.to_string();
        match self.version {
            Version::V1 => {
                set(LIMIT_V1, &limit)?;
                if swap { Ok(()) } else { set("memory.swappiness", "0") }
            }
            Version::V2 => {
                set("memory.max", &limit)?;
                // The file only exists in kernels with swap.
                let path = self.path.join("memory.swap.max");
                if path.exists() { set("memory.swap.max", if swap { "max" } else { "0" }) } else { Ok(()) }
            }
        }
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

/// Bytes that are charged to the calling process's own group now.
///
/// # Errors
/// [`Error::Io`], [`Error::Input`]; [`Error::Unavailable`] without the controller.
pub fn own_used_bytes() -> Result<u64> {
    let (version, groups) = candidates()?;
    let own = groups.first().ok_or_else(|| Error::Unavailable("this process has no cgroup".to_owned()))?;
    used_bytes_of(own, version)
}

fn used_bytes_of(group: &Path, version: Version) -> Result<u64> {
    let path = group.join(match version {
        Version::V1 => "memory.usage_in_bytes",
        Version::V2 => "memory.current",
    });
    let text = fs::read_to_string(&path).map_err(Error::io("reading", &path))?;
    text.trim().parse().map_err(|_| Error::Input(format!("{} holds no number", path.display())))
}

fn make(version: Version, path: &Path) -> Result<Cgroup> {
    if version == Version::V2 {
        let control = path.parent().unwrap_or(path).join("cgroup.subtree_control");
        fs::write(&control, "+memory").map_err(Error::io("enabling memory in", &control))?;
    }
    fs::create_dir(path).map_err(Error::io("making", path))?;
    let owned = path.to_owned();
    let guard = cleanup::register(move || remove(&owned));
    Ok(Cgroup { path: path.to_owned(), version, _removed_on_drop: guard })
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

/// Directories in which a group may be possible: the calling process's own one, then those above.
/// (Version 2 allows no children beside processes, except in the root.)
fn candidates() -> Result<(Version, Vec<PathBuf>)> {
    let mounts = fs::read_to_string(MOUNTS).map_err(Error::io("reading", MOUNTS))?;
    let own = fs::read_to_string(OWN).map_err(Error::io("reading", OWN))?;
    let (version, mount) = memory_mount(&mounts).ok_or_else(|| {
        Error::Unavailable("the memory cgroup controller is not mounted on this machine".to_owned())
    })?;
    let own = own_path(&own, version).unwrap_or("/");
    let inside = mount.join(own.trim_start_matches('/'));
    let parents = inside.ancestors().take_while(|dir| dir.starts_with(&mount));
    Ok((version, parents.filter(|dir| dir.is_dir()).map(Path::to_owned).collect()))
}

/// Where the memory controller is mounted. In a mixed set-up it belongs to version 1.
fn memory_mount(mounts: &str) -> Option<(Version, PathBuf)> {
    let mut version_2 = None;
    for line in mounts.lines() {
        let [_, place, kind, options, ..] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        match kind {
            "cgroup" if options.split(',').any(|option| option == "memory") => {
                return Some((Version::V1, PathBuf::from(place)));
            }
            "cgroup2" => version_2 = Some((Version::V2, PathBuf::from(place))),
            _ => {}
        }
    }
    version_2
}

/// The calling process's group, from the lines `ID:CONTROLLERS:PATH` of /proc/self/cgroup.
fn own_path(own: &str, version: Version) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let found = match version {
            Version::V1 => controllers.split(',').any(|controller| controller == "memory"),
            Version::V2 => id == "0" && controllers.is_empty(),
        };
        found.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                         cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                         cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";
    const UNIFIED: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";

    #[test]
    fn finds_the_memory_controller() {
        let version_1 = (Version::V1, PathBuf::from("/sys/fs/cgroup/memory"));
        assert_eq!(memory_mount(MIXED), Some(version_1));
        assert_eq!(memory_mount(UNIFIED), Some((Version::V2, PathBuf::from("/sys/fs/cgroup"))));
        assert_eq!(memory_mount("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn only_our_groups_have_a_maker() {
        assert_eq!(maker_of("aquifer-bench-4711-mmap-default"), Some(4711));
        assert_eq!(maker_of("aquifer-bench-x-swap"), None);
        assert_eq!(maker_of("user.slice"), None);
    }

    #[test]
    fn finds_the_own_group() {
        let mixed = "4:memory:/jobs/a:b\n3:cpuset:/\n0::/login\n";
        assert_eq!(own_path(mixed, Version::V1), Some("/jobs/a:b"));
        assert_eq!(own_path(mixed, Version::V2), Some("/login"));
        assert_eq!(own_path("3:cpuset:/\n", Version::V1), None);
    }
}
