//! A file, a block device or a stripe as a medium.

use aquifer_device::{AlignedBuffer, Device, ReadRequest};

use super::{Beside, Geometry, Medium};
use crate::error::{Result, VolumeError};
use crate::word::{PAGE_BYTES, PageBytes, Physical};

/// A device whose pages can be overwritten, used as if they could not.
pub struct DeviceMedium<D> {
    device: D,
    geometry: Geometry,
}

impl<D: Device> DeviceMedium<D> {
    /// The whole of `device`, in segments of `pages_per_segment` pages.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] if it is too small or too large for a volume.
    pub fn new(device: D, pages_per_segment: u32) -> Result<Self> {
        let pages = device.len_bytes() / PAGE_BYTES as u64;
        Self::with_geometry(
            device,
            Geometry { segments: (pages / u64::from(pages_per_segment)) as u32, pages_per_segment },
        )
    }

    /// The part of `device` that is divided so.
    ///
    /// # Errors
    /// As [`DeviceMedium::new`].
    pub fn with_geometry(device: D, geometry: Geometry) -> Result<Self> {
        if geometry.pages() > Physical::END {
            return Err(VolumeError::Invalid("a volume has at most 8 TiB"));
        }
        if !PAGE_BYTES.is_multiple_of(device.block_bytes()) {
            return Err(VolumeError::Invalid("the device's blocks are larger than 4096 bytes"));
        }
        Ok(DeviceMedium { device, geometry })
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    fn segment_bytes(&self) -> usize {
        self.geometry.pages_per_segment as usize * PAGE_BYTES
    }
}

/// What one write takes at most; larger ones are split, so that reads of others come between.
const WRITE_BYTES_MAX: usize = 1 << 20;

impl<D: Device> Medium for DeviceMedium<D> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn is_bad(&self, _segment: u32) -> bool {
        false
    }

    fn erases(&self, _segment: u32) -> u32 {
        0
    }

    fn read(&self, at: Physical, bytes: &mut PageBytes) -> Result<()> {
        self.read_run(at, bytes)
    }

    fn read_run(&self, at: Physical, bytes: &mut [u8]) -> Result<()> {
        if bytes.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
            return Ok(self.device.read_at(at.offset_bytes(), bytes)?);
        }
        let mut aligned = AlignedBuffer::new(bytes.len());
        self.device.read_at(at.offset_bytes(), &mut aligned)?;
        bytes.copy_from_slice(&aligned);
        Ok(())
    }

    /// The buffers must be aligned to pages; [`AlignedBuffer`] is.
    fn read_many(&self, runs: &mut [(Physical, &mut [u8])]) -> Result<()> {
        let mut requests: Vec<_> =
            runs.iter_mut().map(|(at, bytes)| ReadRequest::new(at.offset_bytes(), bytes)).collect();
        self.device.read_batch(&mut requests);
        Ok(requests.into_iter().try_for_each(|request| request.result)?)
    }

    fn append(&self, at: Physical, bytes: &[u8], _beside: &[Beside]) -> Result<()> {
        let mut offset = at.offset_bytes();
        for piece in bytes.chunks(WRITE_BYTES_MAX) {
            self.device.write_at(offset, piece)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    fn prepare(&self, _segment: u32) -> Result<()> {
        Ok(())
    }

    /// With zeros: a device may pass over what is discarded.
    fn wipe(&self, segment: u32) -> Result<()> {
        let zeros = AlignedBuffer::new(WRITE_BYTES_MAX.min(self.segment_bytes()));
        let start = self.geometry.page(segment, 0).offset_bytes();
        (0..self.segment_bytes()).step_by(zeros.len()).try_for_each(|at| {
            let len = zeros.len().min(self.segment_bytes() - at);
            Ok(self.device.write_at(start + at as u64, &zeros[..len])?)
        })
    }

    fn discard(&self, segment: u32) -> Result<()> {
        let start = self.geometry.page(segment, 0).offset_bytes();
        Ok(self.device.discard(start, self.segment_bytes() as u64)?)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.device.sync()?)
    }
}
