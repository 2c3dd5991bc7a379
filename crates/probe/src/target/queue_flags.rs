//! What the kernel believes about a block device.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use super::guard::{libc_major, libc_minor};
use crate::report::QueueFlags;

/// The flags of the device with a number, or of the disk that it is a partition of.
pub(super) fn of_device(device: u64) -> Option<QueueFlags> {
    let folder = PathBuf::from(format!("/sys/dev/block/{}:{}", libc_major(device), libc_minor(device)));
    let folder = fs::canonicalize(folder).ok()?;
    let disk = if folder.join("queue").is_dir() { folder } else { folder.parent()?.to_owned() };
    let queue = disk.join("queue");
    if !queue.is_dir() {
        return None;
    }
    let text = |name: &str| Some(fs::read_to_string(queue.join(name)).ok()?.trim().to_owned());
    fn number<T: FromStr>(text: Option<String>) -> Option<T> {
        text?.parse().ok()
    }
    let flag = |name: &str| text(name).map(|value| value != "0");
    Some(QueueFlags {
        device: disk.file_name()?.to_string_lossy().into_owned(),
        rotational: flag("rotational"),
        write_cache: text("write_cache"),
        fua: flag("fua"),
        discard_bytes_max: number(text("discard_max_bytes")),
        logical_block_bytes: number(text("logical_block_size")),
        physical_block_bytes: number(text("physical_block_size")),
        requests: number(text("nr_requests")),
        scheduler: text("scheduler"),
    })
}

/// The device's own name.
pub(super) fn model_of(disk: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/sys/block/{disk}/device/model")).ok()?;
    Some(text.trim().to_owned()).filter(|model| !model.is_empty())
}
