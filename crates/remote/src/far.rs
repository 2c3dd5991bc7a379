//! A device whose pages lie in the RAM of donors.

use aquifer_device::{Device, DeviceError, ReadRequest};

use crate::mirror::{MirrorCounters, PAGE_BYTES, SlabEvents};

/// A device in the RAM of donors, and what it reports of itself.
pub trait FarDevice: Device {
    /// What it has done.
    fn counters(&self) -> MirrorCounters;

    /// What became of slabs and donors of late.
    fn events(&self) -> &SlabEvents;

    /// RAM of this process that it takes.
    fn ram_bytes(&self) -> u64;

    /// Parts of the device that were used, and how many of them have all the slabs that they should.
    fn placed(&self) -> (usize, usize);
}

/// Whether bytes of a device can be transferred to or from this memory.
pub(crate) fn check(device: &dyn Device, offset: u64, memory: &[u8]) -> Result<(), DeviceError> {
    check_range(device, offset, memory.len() as u64)?;
    if memory.is_empty() || memory.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
        return Ok(());
    }
    Err(DeviceError::Misaligned { offset, len_bytes: memory.len() as u64, block_bytes: PAGE_BYTES })
}

/// The requests of a batch that can be made; the others have their errors.
pub(crate) fn sound<'a, 'b>(
    device: &dyn Device,
    requests: &'a mut [ReadRequest<'b>],
) -> Vec<&'a mut ReadRequest<'b>> {
    for request in &mut *requests {
        request.result = check(device, request.offset, request.buf);
    }
    requests.iter_mut().filter(|request| request.result.is_ok()).collect()
}

/// Whether they are pages of it.
pub(crate) fn check_range(device: &dyn Device, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
    let page_bytes = PAGE_BYTES as u64;
    if !offset.is_multiple_of(page_bytes) || !len_bytes.is_multiple_of(page_bytes) {
        return Err(DeviceError::Misaligned { offset, len_bytes, block_bytes: PAGE_BYTES });
    }
    match offset.checked_add(len_bytes) {
        Some(end) if end <= device.len_bytes() => Ok(()),
        _ => Err(DeviceError::OutOfRange { offset, len_bytes, device_bytes: device.len_bytes() }),
    }
}
