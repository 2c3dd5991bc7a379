//! Places in the swap area, also those of pages that are in RAM.
//!
//! A page that comes back by swap keeps its slot, so that it need not be written again if it goes as it came: what lies below RAM holds more
//! than what is missing there. The kernel takes the slot when the page is freed, or written to by the very access that brings it back; a page that
//! is written to later keeps it, for its next way out. So a slot of a page in RAM is a copy if the page is clean, and a place with old content if not.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};

const SWAPS: &str = "/proc/swaps";
/// Of the areas that this program makes, the highest that there is ([`crate::swap`]): nothing else goes there while they have room.
const PRIORITY: &str = "32767";
/// Without those of threads, which share memory.
const PROCESSES: &str = "cgroup.procs";

/// Bytes of a program, in the swap area and in RAM, at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Slots {
    /// Slots that are taken in the area of this program.
    pub swap_used_bytes: u64,
    /// VmSwap: pages that are in the area and not mapped.
    pub swapped_out_bytes: u64,
    /// VmRSS.
    pub resident_bytes: u64,
    /// Of its memory without files, what is as the area has it.
    pub clean_bytes: u64,
}

impl Slots {
    /// Counts those of all processes of `group` now; none where they swap to no area of this program.
    ///
    /// # Errors
    /// [`Error::Io`] if /proc cannot be read, [`Error::Input`] if it lacks the fields.
    pub fn of_group(group: &Path) -> Result<Option<Self>> {
        let Some(swap_used_bytes) = used_bytes(&read(Path::new(SWAPS))?) else { return Ok(None) };
        let mut slots = Self { swap_used_bytes, swapped_out_bytes: 0, resident_bytes: 0, clean_bytes: 0 };
        for process in read(&group.join(PROCESSES))?.lines() {
            let folder = Path::new("/proc").join(process);
            let status = read(&folder.join("status"))?;
            let missing = || Error::Input(format!("{} tells of no VmSwap or no VmRSS", folder.display()));
            let fields = field(&status, "VmSwap:").zip(field(&status, "VmRSS:"));
            let (swapped_out_bytes, resident_bytes) = fields.ok_or_else(missing)?;
            slots.swapped_out_bytes += swapped_out_bytes;
            slots.resident_bytes += resident_bytes;
            slots.clean_bytes += clean_bytes(&read(&folder.join("smaps"))?);
        }
        Ok(Some(slots))
    }

    /// The share of resident bytes that have a slot as well, from 0 to 1.
    pub fn kept_share(self) -> f64 {
        let kept_bytes = self.swap_used_bytes.saturating_sub(self.swapped_out_bytes);
        kept_bytes as f64 / self.resident_bytes.max(1) as f64
    }

    /// The share of resident bytes that are clean, of which the area thus has a copy, from 0 to 1.
    pub fn clean_share(self) -> f64 {
        self.clean_bytes as f64 / self.resident_bytes.max(1) as f64
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(Error::io("reading", path))
}

/// What is taken of the areas of this program in a table of active ones; none if it has none.
fn used_bytes(swaps: &str) -> Option<u64> {
    let used = |line: &str| {
        // Its first column, the name, has no spaces; they are written as octal there.
        let [_, _, _, used_kib, PRIORITY] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(used_kib.parse::<u64>().ok()? << 10)
    };
    swaps.lines().skip(1).filter_map(used).reduce(|sum, bytes| sum + bytes)
}

/// Clean pages in the mappings of no file of a /proc/PID/smaps: an anonymous page is dirty from its first write until it is in the swap area.
fn clean_bytes(smaps: &str) -> u64 {
    let (mut is_of_file, mut sum) = (true, 0);
    for line in smaps.lines() {
        // Of a mapping: range, rights, offset, device, inode, name.
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            [range, _, _, _, inode, ..] if range.contains('-') => is_of_file = inode != "0",
            [name, kib, "kB"] if !is_of_file && ["Private_Clean:", "Shared_Clean:"].contains(&name) => {
                sum += kib.parse::<u64>().unwrap_or(0) << 10;
            }
            _ => {}
        }
    }
    sum
}

/// A field of a /proc/PID/status file, in bytes.
fn field(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_areas_are_counted() {
        let swaps = "Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                     /swapfile                file\t\t1024\t\t512\t\t-2\n\
                     /my\\040disk/b.swap      file\t\t1024\t\t96\t\t32767\n";
        assert_eq!(used_bytes(swaps), Some(96 << 10));
        assert_eq!(used_bytes(&swaps.replace("32767", "5")), None);
        assert_eq!(used_bytes("Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"), None);
    }

    #[test]
    fn fields_are_found_in_kibibytes() {
        let status = "Name:\tx\nVmRSS:\t    2048 kB\nVmSwap:\t       4 kB\n";
        assert_eq!((field(status, "VmRSS:"), field(status, "VmSwap:")), (Some(2 << 20), Some(4096)));
        assert_eq!(field(status, "VmPTE:"), None);
    }

    #[test]
    fn clean_pages_are_those_of_no_file() {
        let smaps = "55d0a000-55d0b000 r-xp 00000000 fe:00 1234   /usr/bin/x\n\
                     Private_Clean:        40 kB\n\
                     7f00a000-7f00b000 rw-p 00000000 00:00 0\n\
                     Rss:                  64 kB\n\
                     Shared_Clean:          4 kB\n\
                     Private_Clean:         8 kB\n\
                     Private_Dirty:        52 kB\n\
                     VmFlags: rd wr mr mw me ac sd\n\
                     7ffd0000-7ffe0000 rw-p 00000000 00:00 0   [stack]\n\
                     Private_Clean:         4 kB\n";
        assert_eq!(clean_bytes(smaps), 16 << 10);
    }

    #[test]
    fn the_kept_share_is_of_what_is_resident() {
        let slots = Slots { swap_used_bytes: 70, swapped_out_bytes: 50, resident_bytes: 40, clean_bytes: 10 };
        assert_eq!((slots.kept_share(), slots.clean_share()), (0.5, 0.25));
        // The two are read one after the other, so that there may be less in use than was out.
        assert_eq!(Slots { swap_used_bytes: 49, ..slots }.kept_share(), 0.0);
    }
}
