//! Volumes by path: ordinary files and block devices.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use aquifer_device::{AlignedBuffer, Device, FileDevice, OpenError};

use crate::anchor::{PAGES_PER_SEGMENT_MAX, PAGES_PER_SEGMENT_MIN, SEGMENTS_MIN, geometry_of};
use crate::error::{Result, VolumeError};
use crate::medium::{DeviceMedium, Medium};
use crate::word::PAGE_BYTES;

/// Smallest new volume in a file or on a block device: smaller ones have no room for the first file.
pub const BYTES_MIN: u64 = 640 << 10;

/// The file or block device at `path` as a medium for a new volume of `size_bytes`, 0 for all of a block device. `segment_bytes` is what is written
/// and cleaned at once; 0 chooses.
///
/// # Errors
/// [`VolumeError::Invalid`] for sizes that cannot be; the device could not be opened.
pub fn new_medium(path: &Path, size_bytes: u64, segment_bytes: u64) -> Result<Box<dyn Medium>> {
    let device = FileDevice::open(path, size_bytes)?;
    if device.len_bytes() < BYTES_MIN {
        return Err(VolumeError::Invalid("too small for a volume: give it 640 KiB or more"));
    }
    let segment_bytes =
        if segment_bytes == 0 { segment_bytes_for(device.len_bytes()) } else { segment_bytes };
    let pages = u32::try_from(segment_bytes / PAGE_BYTES as u64).unwrap_or(u32::MAX);
    if !pages.is_power_of_two() || !(PAGES_PER_SEGMENT_MIN..=PAGES_PER_SEGMENT_MAX).contains(&pages) {
        return Err(VolumeError::Invalid("a segment has 32 KiB to 64 MiB, a power of two"));
    }
    Ok(Box::new(DeviceMedium::new(device, pages)?))
}

/// Why a volume was not found.
#[must_use]
pub fn not_found(path: &Path, error: &std::io::Error) -> VolumeError {
    match error.kind() {
        ErrorKind::NotFound => VolumeError::Missing(path.to_owned()),
        _ => VolumeError::System {
            step: "looking for the volume",
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        },
    }
}

/// The volume in the file or block device at `path`.
///
/// # Errors
/// [`VolumeError::Missing`], [`VolumeError::NotAVolume`] and its like; the device could not be opened, for example because another process has the volume open.
pub fn open_medium(path: &Path) -> Result<Box<dyn Medium>> {
    let metadata = std::fs::metadata(path).map_err(|error| not_found(path, &error))?;
    let len_bytes = if metadata.file_type().is_block_device() { 0 } else { metadata.len() };
    if metadata.is_dir() || (metadata.is_file() && len_bytes < PAGE_BYTES as u64) {
        return Err(VolumeError::NotAVolume(format!("{} holds none", path.display())));
    }
    let device = open_device(path, len_bytes / PAGE_BYTES as u64 * PAGE_BYTES as u64)?;
    let mut aligned = AlignedBuffer::new(PAGE_BYTES);
    let geometry = geometry_of(|page, bytes| {
        device.read_at(u64::from(page) * PAGE_BYTES as u64, &mut aligned)?;
        bytes.copy_from_slice(&aligned);
        Ok(())
    })?;
    if geometry.pages() > device.len_bytes() / PAGE_BYTES as u64 {
        return Err(VolumeError::Corrupt(format!(
            "it should have {} bytes, {} has {}",
            geometry.pages() * PAGE_BYTES as u64,
            path.display(),
            device.len_bytes()
        )));
    }
    Ok(Box::new(DeviceMedium::with_geometry(device, geometry)?))
}

/// Opens a device, and tries for a second if it is in use. A killed process keeps its devices until the
/// kernel has ended its transfers, which may be after its parent has learned of its end.
fn open_device(path: &Path, len_bytes: u64) -> Result<FileDevice> {
    const TRIES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 1..TRIES {
        match FileDevice::open(path, len_bytes) {
            Err(OpenError::Busy { .. }) => sleep(PAUSE),
            outcome => return Ok(outcome?),
        }
    }
    Ok(FileDevice::open(path, len_bytes)?)
}

/// Segments of 4 MiB; smaller ones, down to 64 KiB, where there would be fewer than 64; the smallest where there would be too few for a volume.
fn segment_bytes_for(len_bytes: u64) -> u64 {
    let mut segment_bytes = 4 << 20;
    while len_bytes / segment_bytes < u64::from(SEGMENTS_MIN) * 4 && segment_bytes > 64 << 10 {
        segment_bytes /= 2;
    }
    if len_bytes / segment_bytes < u64::from(SEGMENTS_MIN) {
        segment_bytes = u64::from(PAGES_PER_SEGMENT_MIN) * PAGE_BYTES as u64;
    }
    while len_bytes / segment_bytes > 64 << 10 && segment_bytes < 64 << 20 {
        segment_bytes *= 2;
    }
    segment_bytes
}
