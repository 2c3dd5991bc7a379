//! How much RAM there is for a program where it is started: what its memory cgroup, or the machine, has left. For `--ram auto`.

use std::fs;
use std::path::{Path, PathBuf};

use aquifer_base::limits::RAM_BYTES_MIN;
use aquifer_base::units::format_size;

/// What stays free of that: an eighth, for page tables that the kernel frees late, its own memory and the page cache, and so much at least.
const MARGIN_PART: u64 = 8;
const MARGIN_BYTES_MIN: u64 = 16 << 20;
/// A group without a limit has one of this size or more.
const NO_LIMIT: u64 = 1 << 60;

/// RAM of a group, or of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Room {
    /// What all in it may use.
    limit: u64,
    /// What they use that cannot be taken from them.
    used: u64,
}

impl Room {
    fn left(self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// How a group says it.
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

/// The RAM budget for a program that is started here.
///
/// # Errors
/// A sentence: there is too little, or the system does not tell.
pub fn budget() -> Result<u64, String> {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let machine = machine(&text("/proc/meminfo"));
    let groups = groups(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"));
    let rooms = groups.iter().flat_map(|(names, mount, group)| rooms(names, mount, group));
    let least = rooms.chain(machine).min_by_key(|room| room.left());
    let room = least.ok_or("the system does not tell how much RAM there is; say it, as --ram 1G does")?;
    from(room)
}

fn from(room: Room) -> Result<u64, String> {
    let left = room.left();
    let budget = left.saturating_sub((left / MARGIN_PART).max(MARGIN_BYTES_MIN));
    if budget < RAM_BYTES_MIN {
        return Err(format!(
            "of {} of RAM {} are in use, which leaves too little; raise the limit (docker run --memory, MemoryMax of systemd), or end what uses it",
            format_size(room.limit),
            format_size(room.used)
        ));
    }
    Ok(budget)
}

/// The machine, by `/proc/meminfo`.
fn machine(meminfo: &str) -> Option<Room> {
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

/// The limits of a group and of those above it.
fn rooms(names: &Names, mount: &Path, group: &Path) -> Vec<Room> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let levels = group.ancestors().take_while(|level| level.starts_with(mount));
    levels
        .filter_map(|level| {
            let limits = names.limits.iter().filter_map(|name| number(level.join(name)));
            let limit = limits.filter(|&limit| limit < NO_LIMIT).min()?;
            let stat = fs::read_to_string(level.join("memory.stat")).unwrap_or_default();
            let fields = stat.lines().filter_map(|line| line.split_once(' '));
            let files = fields.filter(|(name, _)| names.files.contains(name));
            let files: u64 = files.filter_map(|(_, value)| value.parse::<u64>().ok()).sum();
            let used = number(level.join(names.usage)).unwrap_or(0).saturating_sub(files);
            Some(Room { limit, used })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_machine_has_what_is_available() {
        let room = machine("MemTotal:       1048576 kB\nMemFree:  1 kB\nMemAvailable:    524288 kB\n");
        assert_eq!(room, Some(Room { limit: 1024 * MIB, used: 512 * MIB }));
        assert_eq!(machine(""), None);
    }

    #[test]
    fn a_margin_stays_free() {
        let budget = |left| from(Room { limit: 4096 * MIB, used: 4096 * MIB - left });
        assert_eq!(budget(512 * MIB), Ok(448 * MIB));
        assert_eq!(budget(64 * MIB), Ok(48 * MIB));
        assert!(budget(20 * MIB).unwrap_err().contains("4 GiB of RAM"));
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
        let found = rooms(&V2, mount.path(), &group);
        assert_eq!(found, [Room { limit: 200 * MIB, used: 0 }, Room { limit: 100 * MIB, used: 48 * MIB }]);
        assert_eq!(rooms(&V2, mount.path(), mount.path()), []);
    }
}
