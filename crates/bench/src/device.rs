//! The block device under a file, and what the kernel counts of it.

use std::fs;
use std::io;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const SECTOR_BYTES: u64 = 512;
/// Writes below this rate count as idle when waiting for a device to settle.
pub const IDLE_WRITE_BYTES_PER_S: u64 = 4 << 20;
const SETTLE_STEP: Duration = Duration::from_millis(200);

/// A disk or partition with its counters in /sys.
#[derive(Clone, Debug)]
pub struct Device {
    name: String,
    counters_path: PathBuf,
    sys: PathBuf,
}

/// Totals since boot; subtract two of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Counters {
    /// Completed reads.
    pub reads: u64,
    /// Bytes they transferred.
    pub read_bytes: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes they transferred.
    pub written_bytes: u64,
}

impl Device {
    /// The device that holds the file system of `path`.
    ///
    /// # Errors
    /// [`Error::Io`] if `path` does not exist, [`Error::Unavailable`] if its file system is not on
    /// a block device that the kernel keeps counters of (tmpfs, network).
    pub fn holding(path: &Path) -> Result<Self> {
        let device = fs::metadata(path).map_err(Error::io("looking at", path))?.st_dev();
        let id = format!("{}:{}", libc::major(device), libc::minor(device));
        let sys = match Path::new("/sys/dev/block").join(&id).canonicalize() {
            Ok(sys) => sys,
            Err(_) => Self::source_of_mount(&id).ok_or_else(|| {
                Error::Unavailable(format!(
                    "{} is not on a block device (device {id}); give a directory on a disk",
                    path.display()
                ))
            })?,
        };
        let name = sys.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, counters_path: sys.join("stat"), sys })
    }

    /// File systems such as btrfs have device numbers of their own; the mount table names the disk.
    fn source_of_mount(id: &str) -> Option<PathBuf> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let device = fs::metadata(mount_source(&mounts, id)?).ok()?.st_rdev();
        let id = format!("{}:{}", libc::major(device), libc::minor(device));
        Path::new("/sys/dev/block").join(id).canonicalize().ok()
    }

    /// The kernel's name, as in `sda2`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Major and minor number of the whole disk, also of a partition's, as in `8:0`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn disk_numbers(&self) -> Result<String> {
        let path = disk_of(&self.sys).join("dev");
        let numbers = fs::read_to_string(&path).map_err(Error::io("reading", &path))?;
        Ok(numbers.trim().to_owned())
    }

    /// The counters now.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn counters(&self) -> Result<Counters> {
        let path = &self.counters_path;
        let stat = fs::read_to_string(path).map_err(Error::io("reading", path))?;
        let malformed = || Error::io("reading", path)(io::Error::from(io::ErrorKind::InvalidData));
        Counters::parse(&stat).ok_or_else(malformed)
    }

    /// Waits until hardly anything is written any more, so that one peer's late writes do not slow
    /// the next one, but not longer than `limit`. Returns the last rate in bytes per second: what
    /// is left after `limit` are other programs' writes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn settle(&self, limit: Duration) -> Result<u64> {
        let start = Instant::now();
        let mut before = self.counters()?;
        loop {
            thread::sleep(SETTLE_STEP);
            let now = self.counters()?;
            let rate = now.since(before).written_bytes * 1000 / SETTLE_STEP.as_millis() as u64;
            if rate <= IDLE_WRITE_BYTES_PER_S || start.elapsed() >= limit {
                return Ok(rate);
            }
            before = now;
        }
    }
}

impl Counters {
    /// The fields of /sys/block/NAME/stat.
    pub fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<u64> = stat.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [reads, _, read_sectors, _, writes, _, written_sectors, ..] = fields[..] else {
            return None;
        };
        let (read_bytes, written_bytes) = (read_sectors * SECTOR_BYTES, written_sectors * SECTOR_BYTES);
        Some(Self { reads, read_bytes, writes, written_bytes })
    }

    /// What happened between `earlier` and this.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }
}

/// The directory in /sys of the disk that has the partition, or is the disk, of the directory `sys`.
fn disk_of(sys: &Path) -> &Path {
    let is_partition = sys.join("partition").exists();
    sys.parent().filter(|_| is_partition).unwrap_or(sys)
}

/// The source (as in `/dev/sda2`) of the mount with device number `id` in a mountinfo file.
fn mount_source<'a>(mountinfo: &'a str, id: &str) -> Option<&'a str> {
    let line = mountinfo.lines().find(|line| line.split(' ').nth(2) == Some(id))?;
    let (_, tail) = line.split_once(" - ")?;
    tail.split(' ').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_stat_file() {
        let stat = "  8021   3 652178  3411  1200 40 99000 800 0 1 2 0 0 0 0 5 6\n";
        let counters = Counters::parse(stat).expect("well formed");
        assert_eq!((counters.reads, counters.read_bytes), (8021, 652_178 * 512));
        assert_eq!((counters.writes, counters.written_bytes), (1200, 99_000 * 512));
        assert_eq!(Counters::parse("1 2 3"), None);
    }

    #[test]
    fn differences_count_from_the_earlier_reading() {
        let earlier = Counters { reads: 1, read_bytes: 10, writes: 2, written_bytes: 20 };
        let later = Counters { reads: 4, read_bytes: 15, writes: 2, written_bytes: 26 };
        let between = Counters { reads: 3, read_bytes: 5, writes: 0, written_bytes: 6 };
        assert_eq!(later.since(earlier), between);
    }

    #[test]
    fn a_partition_is_of_the_disk_above() {
        let disk = std::env::temp_dir().join(format!("aquifer-bench-sys-{}", std::process::id()));
        let partition = disk.join("vda1");
        fs::create_dir_all(&partition).expect("a temporary directory");
        fs::write(partition.join("partition"), "1\n").expect("writable");
        assert_eq!((disk_of(&partition), disk_of(&disk)), (disk.as_path(), disk.as_path()));
        fs::write(disk.join("dev"), "254:0\n").expect("writable");
        let device =
            Device { name: "vda1".to_owned(), counters_path: partition.join("stat"), sys: partition.clone() };
        assert_eq!(device.disk_numbers().expect("just written"), "254:0");
        fs::remove_dir_all(&disk).expect("ours");
    }

    #[test]
    fn finds_the_disk_of_a_mount() {
        let mountinfo = "28 1 0:25 / / rw shared:1 - btrfs /dev/nvme0n1p2 rw,ssd\n\
                         29 28 0:26 / /tmp rw - tmpfs tmpfs rw\n";
        assert_eq!(mount_source(mountinfo, "0:25"), Some("/dev/nvme0n1p2"));
        assert_eq!(mount_source(mountinfo, "9:9"), None);
    }
}
