//! Memory cgroups of this process, and the machine: how much RAM there is for it, and how much of that is used.

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

use aquifer_sys::kept_file::KeptFile;
pub use aquifer_vm::Room;

/// A group without a limit has one of this size or more.
const NO_LIMIT: u64 = 1 << 60;
/// Numbers are short, and `memory.stat` is not.
const NUMBER_BYTES: usize = 32;
const STAT_BYTES: usize = 8192;

/// How the kernel names what it tells of a group.
struct Names {
    /// Files with limits.
    limits: &'static [&'static str],
    usage: &'static str,
    /// Fields of `memory.stat`: pages of files, which the kernel takes when it needs room.
    files: &'static [&'static str],
}

const V2: Names = Names {
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    files: &["active_file", "inactive_file"],
};
const V1: Names = Names {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    files: &["total_active_file", "total_inactive_file"],
};

/// One group.
struct Level {
    limits: Vec<KeptFile>,
    /// Nothing is counted of what is told by nobody.
    usage: Option<KeptFile>,
    stat: Option<KeptFile>,
    files: &'static [&'static str],
}

/// The groups that this process is in, whether they have a limit or not. Their files stay open.
pub struct Groups {
    levels: Vec<Level>,
}

impl Groups {
    /// Those of this process.
    #[must_use]
    pub fn of_self() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let found = groups(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"));
        let levels = found.iter().flat_map(|(names, mount, group)| levels(names, mount, group));
        Self { levels: levels.collect() }
    }

    /// The one with a limit that has the least left. Allocates nothing.
    #[must_use]
    pub fn tightest(&self) -> Option<Room> {
        self.levels.iter().filter_map(Level::room).min_by_key(|room| room.left())
    }
}

/// The machine, by `/proc/meminfo`.
#[must_use]
pub fn machine() -> Option<Room> {
    machine_by(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn machine_by(meminfo: &str) -> Option<Room> {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
    };
    let (limit, left) = (field("MemTotal:")?, field("MemAvailable:")?);
    Some(Room { limit, used: limit.saturating_sub(left) })
}

/// The groups of this process that may limit its memory, each with where its hierarchy is mounted.
fn groups(cgroup: &str, mountinfo: &str) -> Vec<(Names, PathBuf, PathBuf)> {
    let mut found = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let is_v2 = controllers.is_empty();
        if !is_v2 && !controllers.split(',').any(|name| name == "memory") {
            continue;
        }
        let Some((root, mount)) = mounted(mountinfo, is_v2) else { continue };
        // A container may see its own group as the root of all.
        let below = Path::new(path).strip_prefix(&root).unwrap_or(Path::new(path));
        let below = below.strip_prefix("/").unwrap_or(below);
        found.push((if is_v2 { V2 } else { V1 }, mount.clone(), mount.join(below)));
    }
    found
}

/// The root of a hierarchy as it is mounted here, and where.
fn mounted(mountinfo: &str, is_v2: bool) -> Option<(PathBuf, PathBuf)> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut kind = after.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1)?);
        let is_it = match name {
            "cgroup2" => is_v2,
            "cgroup" => !is_v2 && options.split(',').any(|option| option == "memory"),
            _ => false,
        };
        let mut fields = before.split(' ').skip(3);
        is_it.then_some((fields.next()?.into(), fields.next()?.into()))
    })
}

/// A group and those above it.
fn levels(names: &Names, mount: &Path, group: &Path) -> Vec<Level> {
    let open = |level: &Path, name: &str| {
        KeptFile::open(&CString::new(level.join(name).into_os_string().into_encoded_bytes()).ok()?)
    };
    let above = group.ancestors().take_while(|level| level.starts_with(mount));
    let of = |level: &Path| {
        // The root of all has none.
        let limits: Vec<_> = names.limits.iter().filter_map(|name| open(level, name)).collect();
        limits.first()?;
        let (usage, stat) = (open(level, names.usage), open(level, "memory.stat"));
        Some(Level { limits, usage, stat, files: names.files })
    };
    above.filter_map(of).collect()
}

impl Level {
    /// `None` if it has no limit.
    fn room(&self) -> Option<Room> {
        let limits = self.limits.iter().filter_map(number);
        let limit = limits.filter(|&limit| limit < NO_LIMIT).min()?;
        let mut text = [0; STAT_BYTES];
        let stat = self.stat.as_ref().map_or(&[][..], |file| file.read(&mut text));
        let fields = stat.split(|&byte| byte == b'\n').filter_map(|line| {
            let (name, value) = line.split_at_checked(line.iter().position(|&byte| byte == b' ')?)?;
            self.files.iter().any(|file| file.as_bytes() == name).then(|| digits(&value[1..]))?
        });
        let used = self.usage.as_ref().and_then(number).unwrap_or(0).saturating_sub(fields.sum());
        Some(Room { limit, used })
    }
}

/// The number that a file holds.
fn number(file: &KeptFile) -> Option<u64> {
    digits(file.read(&mut [0; NUMBER_BYTES]).trim_ascii())
}

fn digits(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_machine_has_what_is_available() {
        let room = machine_by("MemTotal:       1048576 kB\nMemFree:  1 kB\nMemAvailable:    524288 kB\n");
        assert_eq!(room, Some(Room { limit: 1024 * MIB, used: 512 * MIB }));
        assert_eq!(machine_by(""), None);
    }

    #[test]
    fn groups_are_found_in_both_versions() {
        let mounts = "\
            25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - tmpfs tmpfs ro\n\
            26 25 0:24 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw,nsdelegate\n\
            31 25 0:29 /pods/a /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n\
            32 25 0:30 / /sys/fs/cgroup/cpu rw shared:11 - cgroup cgroup rw,cpu\n";
        let found = groups("5:cpu:/x\n4:memory:/pods/a/b\n0::/user.slice\n", mounts);
        let paths: Vec<_> =
            found.iter().map(|(names, _, group)| (names.usage, group.to_str().unwrap())).collect();
        let v1 = ("memory.usage_in_bytes", "/sys/fs/cgroup/memory/b");
        let v2 = ("memory.current", "/sys/fs/cgroup/unified/user.slice");
        assert_eq!(paths, [v1, v2]);
    }

    #[test]
    fn the_tightest_level_counts() {
        let mount = tempfile::tempdir().unwrap();
        let group = mount.path().join("outer/inner");
        fs::create_dir_all(&group).unwrap();
        let write = |path: &str, text: &str| fs::write(mount.path().join(path), text).unwrap();
        write("outer/memory.max", "104857600\n");
        write("outer/memory.current", "52428800\n");
        write("outer/memory.stat", "anon 10\nactive_file 1048576\ninactive_file 1048576\n");
        write("outer/inner/memory.max", "max\n");
        write("outer/inner/memory.high", "209715200\n");
        write("outer/inner/memory.current", "0\n");
        let rooms = |group: &Path| {
            levels(&V2, mount.path(), group).iter().filter_map(Level::room).collect::<Vec<_>>()
        };
        assert_eq!(
            rooms(&group),
            [Room { limit: 200 * MIB, used: 0 }, Room { limit: 100 * MIB, used: 48 * MIB }]
        );
        assert_eq!(rooms(mount.path()), []);
        let groups = Groups { levels: levels(&V2, mount.path(), &group) };
        assert_eq!(groups.tightest().map(Room::left), Some(52 * MIB));
    }
}
