//! Whether something of somebody's is on a target.

use std::fs;
use std::path::Path;

use aquifer_device::{AlignedBuffer, Device, DeviceError, FileDevice};

/// Bytes at either end of a device in which every file system, partition table, RAID and volume manager leaves its mark.
const ENDS_BYTES: u64 = 1 << 20;

/// Marks of what is found most: name, offset and bytes.
const MARKS: [(&str, usize, &[u8]); 8] = [
    ("an ext file system", 0x438, &[0x53, 0xEF]),
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", 0x10040, b"_BHRfS_M"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("a LUKS volume", 0, b"LUKS"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("a partition table", 510, &[0x55, 0xAA]),
    ("a GPT partition table", 512, b"EFI PART"),
];

/// Who uses a block device or a part of it: a mount, swap, or another device on top of it.
pub(super) fn user_of(device: u64) -> Option<String> {
    let (major, minor) = (libc_major(device), libc_minor(device));
    let folder = format!("/sys/dev/block/{major}:{minor}");
    let parts = fs::read_dir(&folder).into_iter().flatten().flatten();
    let numbers = parts.filter_map(|part| fs::read_to_string(part.path().join("dev")).ok());
    let numbers: Vec<String> =
        numbers.map(|number| number.trim().to_owned()).chain([format!("{major}:{minor}")]).collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(2);
        let number = words.next()?;
        numbers.iter().any(|own| own == number).then(|| format!("mounted at {}", words.nth(1).unwrap_or("?")))
    });
    let swap = || {
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        let is_own = |line: &str| {
            let path = line.split_whitespace().next()?;
            let number = std::os::unix::fs::MetadataExt::rdev(&fs::metadata(path).ok()?);
            let number = format!("{}:{}", libc_major(number), libc_minor(number));
            numbers.contains(&number).then(|| "swap space".to_owned())
        };
        swaps.lines().skip(1).find_map(is_own)
    };
    let holder = || {
        let name = fs::read_dir(format!("{folder}/holders")).ok()?.flatten().next()?.file_name();
        Some(format!("a part of {}", name.display()))
    };
    mount.or_else(swap).or_else(holder)
}

/// What is at the ends of a device; `None` if they are empty.
pub(super) fn contents_of(device: &FileDevice) -> Result<Option<String>, DeviceError> {
    let block = device.block_bytes() as u64;
    let length = ENDS_BYTES.min(device.len_bytes()) / block * block;
    let mut buffer = AlignedBuffer::new(length as usize);
    device.read_at(0, &mut buffer)?;
    let has = |&&(_, offset, mark): &&(&str, usize, &[u8])| {
        buffer.get(offset..offset + mark.len()).is_some_and(|bytes| bytes == mark)
    };
    if let Some((what, ..)) = MARKS.iter().find(has) {
        return Ok(Some((*what).into()));
    }
    let is_empty =
        |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0) || bytes.iter().all(|&byte| byte == 0xFF);
    if !is_empty(&buffer) {
        return Ok(Some("its first megabyte is not empty".into()));
    }
    device.read_at(device.len_bytes() - length, &mut buffer)?;
    Ok((!is_empty(&buffer)).then(|| "its last megabyte is not empty".into()))
}

/// The type of the file system that a path is on.
pub(super) fn file_system_of(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let candidates = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?.to_owned();
        path.starts_with(&point).then(|| (point.len(), after.split(' ').next().unwrap_or("?").to_owned()))
    });
    // The last of equally long ones covers the others.
    candidates.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// As `makedev(3)` packs them.
pub(super) fn libc_major(device: u64) -> u64 {
    (device >> 8 & 0xFFF) | (device >> 32 & !0xFFF)
}

/// See [`libc_major`].
pub(super) fn libc_minor(device: u64) -> u64 {
    (device & 0xFF) | (device >> 12 & !0xFF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_root_file_system_is_in_use() {
        let root = fs::metadata("/").unwrap().dev();
        // A root that is not on a block device has no user to find, and one that is a folder of a mounted file system is not where that is mounted.
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let is_mounted = mounts.lines().any(|line| line.split(' ').nth(4) == Some("/"));
        if !is_mounted {
            println!("SKIP the root is a folder of a file system that is mounted elsewhere");
        } else if Path::new(&format!("/sys/dev/block/{}:{}", libc_major(root), libc_minor(root))).exists() {
            assert!(user_of(root).is_some_and(|what| what.starts_with("mounted at ")));
        }
        assert!(file_system_of(Path::new("/proc/self")).is_some_and(|kind| kind == "proc"));
    }

    #[test]
    fn device_numbers_are_taken_apart() {
        assert_eq!((libc_major(0xFE00), libc_minor(0xFE00)), (254, 0));
        assert_eq!((libc_major(0x10_0305), libc_minor(0x10_0305)), (3, 0x105));
    }

    fn device_with(mark: &[u8], offset: usize) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let mut bytes = vec![0; 4 << 20];
        bytes[offset..offset + mark.len()].copy_from_slice(mark);
        fs::write(&path, bytes).unwrap();
        contents_of(&FileDevice::create(&path, 4 << 20).unwrap()).unwrap()
    }

    #[test]
    fn whatever_is_at_the_ends_is_found() {
        assert_eq!(device_with(&[], 0), None);
        for (what, offset, mark) in MARKS {
            assert_eq!(device_with(mark, offset).as_deref(), Some(what));
        }
        assert_eq!(device_with(b"x", 77_777).as_deref(), Some("its first megabyte is not empty"));
        assert_eq!(device_with(b"x", (4 << 20) - 1).as_deref(), Some("its last megabyte is not empty"));
    }
}
