//! A controller of control groups: where the kernel shows it, in version 1 or 2.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

const MOUNTS: &str = "/proc/self/mounts";
const OWN: &str = "/proc/self/cgroup";

/// The interface of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// A tree of groups for each controller.
    V1,
    /// One tree for all of them.
    V2,
}

/// What groups can limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Controller {
    /// Bytes of memory.
    Memory,
    /// Reads and writes of block devices.
    Disk,
}

impl Controller {
    /// Directories in which a group may be possible: the calling process's own one, then those above.
    /// (Version 2 allows no children beside processes, except in the root.)
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Unavailable`] if it is not mounted.
    pub fn parents(self) -> Result<(Version, Vec<PathBuf>)> {
        let mounts = fs::read_to_string(MOUNTS).map_err(Error::io("reading", MOUNTS))?;
        let own = fs::read_to_string(OWN).map_err(Error::io("reading", OWN))?;
        let (version, mount) = self.mount(&mounts).ok_or_else(|| {
            let name = self.name(Version::V1);
            Error::Unavailable(format!("the {name} cgroup controller is not mounted on this machine"))
        })?;
        let own = self.own_path(&own, version).unwrap_or("/");
        let inside = mount.join(own.trim_start_matches('/'));
        let parents = inside.ancestors().take_while(|dir| dir.starts_with(&mount));
        Ok((version, parents.filter(|dir| dir.is_dir()).map(Path::to_owned).collect()))
    }

    /// The kernel's name of it.
    pub fn name(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Memory, _) => "memory",
            (Self::Disk, Version::V1) => "blkio",
            (Self::Disk, Version::V2) => "io",
        }
    }

    /// Where it is mounted. In a mixed set-up it belongs to version 1.
    fn mount(self, mounts: &str) -> Option<(Version, PathBuf)> {
        let mut version_2 = None;
        for line in mounts.lines() {
            let [_, place, kind, options, ..] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
            match kind {
                "cgroup" if options.split(',').any(|option| option == self.name(Version::V1)) => {
                    return Some((Version::V1, PathBuf::from(place)));
                }
                "cgroup2" => version_2 = Some((Version::V2, PathBuf::from(place))),
                _ => {}
            }
        }
        version_2
    }

    /// The calling process's group, from the lines `ID:CONTROLLERS:PATH` of /proc/self/cgroup.
    fn own_path(self, own: &str, version: Version) -> Option<&str> {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let found = match version {
                Version::V1 => controllers.split(',').any(|controller| controller == self.name(version)),
                Version::V2 => id == "0" && controllers.is_empty(),
            };
            found.then_some(path)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                         cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                         cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                         cgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0\n";
    const UNIFIED: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";

    #[test]
    fn controllers_are_found_where_they_are_mounted() {
        let version_1 = |name| Some((Version::V1, Path::new("/sys/fs/cgroup").join(name)));
        assert_eq!(Controller::Memory.mount(MIXED), version_1("memory"));
        assert_eq!(Controller::Disk.mount(MIXED), version_1("blkio"));
        for controller in [Controller::Memory, Controller::Disk] {
            let version_2 = (Version::V2, PathBuf::from("/sys/fs/cgroup"));
            assert_eq!(controller.mount(UNIFIED), Some(version_2));
            assert_eq!(controller.mount("proc /proc proc rw 0 0\n"), None);
        }
    }

    #[test]
    fn the_own_group_is_found() {
        let mixed = "4:memory:/jobs/a:b\n3:cpuset:/\n2:blkio:/disks\n0::/login\n";
        assert_eq!(Controller::Memory.own_path(mixed, Version::V1), Some("/jobs/a:b"));
        assert_eq!(Controller::Disk.own_path(mixed, Version::V1), Some("/disks"));
        assert_eq!(Controller::Memory.own_path(mixed, Version::V2), Some("/login"));
        assert_eq!(Controller::Memory.own_path("3:cpuset:/\n", Version::V1), None);
    }
}
