//! Block devices and directories, and what the kernel believes about a device.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use aquifer_device::queue::{Queue, RealQueue};
use aquifer_device::{Device, FileDevice};

use super::guard::{self, libc_major, libc_minor};
use crate::error::ProbeError;
use crate::report::{QueueFlags, Target, TargetKind};

/// Share of a file system's free space that the probe's files may take.
const FREE_SHARE: f64 = 0.5;

/// A path that may be measured.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    kind: TargetKind,
    /// Number of the block device below.
    device: u64,
    size_bytes: u64,
    block_bytes: u32,
}

impl Place {
    /// Looks at what `path` is, without changing it. `may_erase` says that what it holds may be overwritten.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn look(path: &Path, may_erase: bool) -> Result<Self, ProbeError> {
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ProbeError::NoTarget { path: path.into() },
            _ => aquifer_device::OpenError::from_io(path, "looking at", error).into(),
        })?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            Self::directory(path, metadata.dev())
        } else if kind.is_block_device() {
            Self::block_device(path, metadata.rdev(), may_erase)
        } else if kind.is_file() {
            Self::file(path, &metadata, may_erase)
        } else {
            Err(aquifer_device::OpenError::NotAFileOrBlockDevice { path: path.into() }.into())
        }
    }

    fn directory(path: &Path, device: u64) -> Result<Self, ProbeError> {
        // A small file shows whether files can be made here, and in which blocks they are transferred.
        let sample = FileDevice::unnamed_in(path, 1 << 20)?;
        let size_bytes = sample.available_bytes();
        let block_bytes = sample.block_bytes() as u32;
        Ok(Place { path: path.into(), kind: TargetKind::Directory, device, size_bytes, block_bytes })
    }

    fn file(path: &Path, metadata: &fs::Metadata, may_erase: bool) -> Result<Self, ProbeError> {
        if metadata.len() > 0 && !may_erase {
            return Err(ProbeError::FileInUse { path: path.into(), bytes: metadata.len() });
        }
        let size_bytes = metadata.len() / 4096 * 4096;
        if size_bytes < SPAN_BYTES_MIN {
            return Err(ProbeError::NoRoom {
                path: path.into(),
                available: size_bytes,
                needed: SPAN_BYTES_MIN,
            });
        }
        let block_bytes = FileDevice::create(path, size_bytes)?.block_bytes() as u32;
        Ok(Place {
            path: path.into(),
            kind: TargetKind::File,
            device: metadata.dev(),
            size_bytes,
            block_bytes,
        })
    }

    fn block_device(path: &Path, device: u64, may_erase: bool) -> Result<Self, ProbeError> {
        if let Some(what) = guard::user_of(device) {
            return Err(ProbeError::InUse { path: path.into(), what });
        }
        let opened = FileDevice::open_block(path, 0)?;
        if !may_erase && let Some(what) = guard::contents_of(&opened)? {
            return Err(ProbeError::HoldsData { path: path.into(), what });
        }
        let (size_bytes, block_bytes) = (opened.len_bytes(), opened.block_bytes() as u32);
        Ok(Place { path: path.into(), kind: TargetKind::BlockDevice, device, size_bytes, block_bytes })
    }

    pub(super) fn describe(&self) -> Target {
        let queue = queue_flags_of(self.device);
        let model = queue.as_ref().and_then(|queue| model_of(&queue.device));
        Target {
            name: self.path.display().to_string(),
            kind: self.kind,
            size_bytes: self.size_bytes,
            tested_bytes: 0,
            block_bytes: self.block_bytes,
            model,
            file_system: if self.kind == TargetKind::BlockDevice {
                None
            } else {
                guard::file_system_of(&self.path)
            },
            queue,
            emulation: None,
        }
    }

    pub(super) fn available_bytes(&self) -> u64 {
        match self.kind {
            TargetKind::Directory => (self.size_bytes as f64 * FREE_SHARE) as u64 / 4096 * 4096,
            _ => self.size_bytes,
        }
    }

    pub(super) fn can_discard(&self) -> bool {
        self.kind == TargetKind::BlockDevice
    }

    fn open(&self, bytes: u64) -> Result<FileDevice, ProbeError> {
        Ok(match self.kind {
            TargetKind::Directory => FileDevice::unnamed_in(&self.path, bytes)?,
            TargetKind::BlockDevice => FileDevice::open_block(&self.path, bytes)?,
            TargetKind::File | TargetKind::Nand => FileDevice::create(&self.path, bytes)?,
        })
    }
}

/// The flags that the kernel has for the device with a number, or of the disk that it is a partition of.
fn queue_flags_of(device: u64) -> Option<QueueFlags> {
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
fn model_of(disk: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/sys/block/{disk}/device/model")).ok()?;
    Some(text.trim().to_owned()).filter(|model| !model.is_empty())
}

/// Opens `count` devices in turn over places. A directory may have several files; anything else is one device.
pub(super) fn open(
    first: &Place,
    beside: &[Place],
    count: u32,
    unit_bytes: u32,
    bytes: u64,
) -> Result<Box<dyn Queue>, ProbeError> {
    let places: Vec<&Place> = std::iter::once(first).chain(beside).collect();
    let single = places.iter().find(|place| place.kind != TargetKind::Directory);
    if let Some(single) = single
        && count as usize > places.len()
    {
        let text = format!(
            "{} is one device; name more targets to measure stripes of {count}",
            single.path.display()
        );
        return Err(ProbeError::BadStripe(text));
    }
    let in_turn = places.iter().cycle().take(count as usize);
    let devices = in_turn.map(|place| place.open(bytes)).collect::<Result<Vec<_>, _>>()?;
    let queue =
        RealQueue::new(devices, unit_bytes.into()).map_err(|source| ProbeError::NoRings { source })?;
    Ok(Box::new(queue))
}

/// Less than this says nothing about a device.
pub(crate) const SPAN_BYTES_MIN: u64 = 16 << 20;
