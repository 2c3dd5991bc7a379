//! Swap areas of this machine: whether memory is swapped to this process, and the warning if a precaution is missing then.
//!
//! A process cannot know when it starts what its device will be used for. The kernel's list of swap areas tells when it is used for swap,
//! and wakes a process that waits for a change of the list.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::major;

use crate::Report;
use crate::precautions::Omitted;

/// The kernel's list.
const LIST: &str = "/proc/swaps";
/// The kernel's number for network block devices.
const NBD: u32 = 43;
/// The kernel's number for loop devices.
const LOOP: u32 = 7;
/// Stack of the thread that waits. Little, because a process whose memory is locked pays for all of it.
const STACK_BYTES: usize = 128 << 10;

/// What the kernel calls a device that this process may serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Area {
    /// Any network block device: the kernel does not say whose.
    Nbd,
    /// A loop device over this file.
    Loop(PathBuf),
    /// This block device.
    Device(PathBuf),
}

/// Waits until memory of this machine is swapped to `area`; gives the name of the swap area. A swap file counts as the block device under its file
/// system.
///
/// # Errors
/// The system's: the list cannot be read.
///
/// # Context
/// Blocks, for ever if nobody swaps.
pub fn wait_for(area: &Area) -> io::Result<PathBuf> {
    let mut list = File::open(LIST)?;
    let mut text = Vec::new();
    loop {
        text.clear();
        list.seek(SeekFrom::Start(0))?;
        list.read_to_end(&mut text)?;
        if let Some(name) = names(&text).into_iter().find(|name| area.is_at(name)) {
            return Ok(name);
        }
        // The kernel marks a change since the last look with POLLPRI.
        match poll(&mut [PollFd::new(&list, PollFlags::PRI)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The names in the kernel's list: its first column, in which white space and backslashes are octal numbers.
fn names(list: &[u8]) -> Vec<PathBuf> {
    let lines = list.split(|&byte| byte == b'\n').skip(1);
    let columns = lines.filter_map(|line| line.split(u8::is_ascii_whitespace).next());
    columns.filter(|name| !name.is_empty()).map(unescaped).collect()
}

fn unescaped(name: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| first == b'\\');
        let number = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(number.unwrap_or(first));
        rest = if number.is_some() { &behind[3..] } else { behind };
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}

impl Area {
    fn is_at(&self, name: &Path) -> bool {
        let Some(device) = device_of(name) else { return false };
        match self {
            Area::Nbd => major(device) == NBD,
            Area::Loop(file) => major(device) == LOOP && loop_file(device).is_some_and(|over| over == *file),
            Area::Device(path) => device_of(path) == Some(device),
        }
    }
}

/// The block device at `name`, or under the file `name`.
fn device_of(name: &Path) -> Option<u64> {
    let metadata = fs::metadata(name).ok()?;
    Some(if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() })
}

/// The file under a loop device.
fn loop_file(device: u64) -> Option<PathBuf> {
    let path = format!("/sys/dev/block/{LOOP}:{}/loop/backing_file", rustix::fs::minor(device));
    let mut name = fs::read(path).ok()?;
    name.pop();
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(&name)))
}

/// Warns of precautions that could not be taken, once memory is swapped to `area`. Clients that are other machines, and file systems, need none of them.
pub fn warn_when_swapped(omitted: Vec<Omitted>, area: Area, report: Report) {
    if omitted.is_empty() {
        return;
    }
    let wait = move || {
        // A process that may not read the kernel's list has no swap areas of its own.
        if let Ok(name) = wait_for(&area) {
            report(&format!(
                "warning: memory of this machine is swapped to {}, and can hang it:",
                name.display()
            ));
            omitted.iter().for_each(|precaution| report(&format!("warning: {precaution}")));
        }
    };
    let builder = thread::Builder::new().name("aq-block-swaps".into()).stack_size(STACK_BYTES);
    // Without the thread nobody is warned, and all is served.
    drop(builder.spawn(wait));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_first_column() {
        let list = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
            /dev/nbd0                               partition\t8388604\t\t0\t\t10\n\
            /var/swap\\040file\\134\\0                 file\t\t1048572\t\t0\t\t-2\n";
        assert_eq!(names(list), [PathBuf::from("/dev/nbd0"), PathBuf::from("/var/swap file\\\\0")]);
        assert!(names(b"Filename\n").is_empty() && names(b"").is_empty());
    }

    #[test]
    fn a_swap_file_lies_on_the_device_of_its_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("swap");
        fs::write(&file, "").unwrap();
        assert!(Area::Device(folder.path().to_owned()).is_at(&file));
        assert!(!Area::Device("/proc".into()).is_at(&file));
        assert!(!Area::Device(folder.path().to_owned()).is_at(&folder.path().join("none")));
        assert!(!Area::Loop(file.clone()).is_at(Path::new("/proc/swaps")));
    }
}
