//! A limit on the reads and writes that a program may do on a disk: the disk here is faster than most.
//!
//! The kernel's controller counts requests as they are made, before neighbours are merged into one: a page that is swapped is one, however many go
//! together. In version 1 of control groups it has groups of its own; in version 2 the memory group gets the limit.
//!
//! Reads from swap are the reading program's. Writes to swap are those of the group that has the page, and in version 1 the kernel knows no group of
//! the disk for a page of a memory group: they are the root's, and no limit is known to them.

use std::process::Command;

use crate::controller::{Controller, Version};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::group_dir::GroupDir;

const READS_V1: &str = "blkio.throttle.read_iops_device";
const WRITES_V1: &str = "blkio.throttle.write_iops_device";
const FILE_V2: &str = "io.max";

/// A group of version 1 with a limit; removed when dropped.
#[derive(Debug)]
pub struct DiskLimit(GroupDir);

impl DiskLimit {
    /// Makes a group for `peer` whose processes do at most `iops` reads and as many writes of `device` a second.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is missing: the controller in version 1, or the right to use it.
    pub fn create(peer: &str, device: &Device, iops: u64) -> Result<Self> {
        let dir = GroupDir::make(Controller::Disk, peer)?;
        if dir.version() != Version::V1 {
            let what = "a limit for the disk needs the controllers of memory and of disks in one version of cgroups; here the first is in version 1, the other is not";
            return Err(Error::Unavailable(what.to_owned()));
        }
        set(&dir, device, iops)?;
        Ok(Self(dir))
    }

    /// Arranges that `command` joins the group before its program starts.
    pub fn joined_by<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        self.0.joined_by(command)
    }
}

/// The same limit for a memory group of version 2.
///
/// # Errors
/// [`Error::Unavailable`] without the controller, or without the right to use it.
pub fn set_in_memory_group(group: &GroupDir, device: &Device, iops: u64) -> Result<()> {
    group.enable(Controller::Disk).map_err(unavailable)?;
    set(group, device, iops)
}

fn set(group: &GroupDir, device: &Device, iops: u64) -> Result<()> {
    let numbers = device.disk_numbers().map_err(unavailable)?;
    let lines = lines(group.version(), &numbers, iops);
    lines.iter().try_for_each(|(file, line)| group.set(file, line).map_err(unavailable))
}

fn unavailable(refusal: Error) -> Error {
    Error::Unavailable(format!(
        "the disk cannot be limited ({refusal}); the kernel needs CONFIG_BLK_DEV_THROTTLING"
    ))
}

/// What is to be written into which files for the disk with these numbers.
fn lines(version: Version, numbers: &str, iops: u64) -> Vec<(&'static str, String)> {
    match version {
        Version::V1 => [READS_V1, WRITES_V1].map(|file| (file, format!("{numbers} {iops}"))).into(),
        Version::V2 => vec![(FILE_V2, format!("{numbers} riops={iops} wiops={iops}"))],
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Instant;

    use super::*;

    #[test]
    fn each_version_has_files_of_its_own() {
        let version_1 = [READS_V1, WRITES_V1].map(|file| (file, "254:0 3000".to_owned()));
        assert_eq!(lines(Version::V1, "254:0", 3000), version_1);
        let version_2 = (FILE_V2, "8:16 riops=50 wiops=50".to_owned());
        assert_eq!(lines(Version::V2, "8:16", 50), [version_2]);
    }

    /// Writes without the page cache take the time that the limit says.
    #[test]
    fn writes_are_slowed() {
        let dir = Path::new("/var/tmp");
        let limit = Device::holding(dir).and_then(|device| DiskLimit::create("test", &device, 50));
        let limit = match limit {
            Ok(limit) => limit,
            Err(error) => return println!("SKIP {error}"),
        };
        let path = dir.join(format!("aquifer-bench-disk-limit-{}", std::process::id()));
        let mut command = Command::new("dd");
        command.arg("if=/dev/zero").arg(format!("of={}", path.display()));
        command.args(["bs=4096", "count=50", "oflag=direct", "status=none"]);
        let started = Instant::now();
        let status = limit.joined_by(&mut command).status().expect("coreutils");
        let seconds = started.elapsed().as_secs_f64();
        std::fs::remove_file(&path).expect("was written");
        assert!(status.success() && seconds > 0.7, "50 writes at 50 a second took {seconds} s");
    }
}
