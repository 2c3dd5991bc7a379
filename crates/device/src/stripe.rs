//! RAID-0: several devices side by side.

use std::ops::Range;

use crate::bounds::Bounds;
use crate::device::{Device, ReadRequest, WriteRequest};
use crate::error::{DeviceError, Operation};

/// Why devices cannot stand side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StripeError {
    /// None were given.
    #[error("a stripe needs at least one device")]
    NoDevices,
    /// The unit is not a number of whole blocks of every device.
    #[error(
        "a stripe unit of {unit_bytes} bytes is not a positive multiple of the blocks of {block_bytes} bytes of device {device}"
    )]
    BadUnit {
        /// The unit asked for.
        unit_bytes: u64,
        /// Number of the device, from 0.
        device: usize,
        /// Its block.
        block_bytes: usize,
    },
    /// A device is smaller than one unit.
    #[error("device {device} has {len_bytes} bytes, less than one stripe unit of {unit_bytes}")]
    TooSmall {
        /// Number of the device, from 0.
        device: usize,
        /// Its size.
        len_bytes: u64,
        /// The unit asked for.
        unit_bytes: u64,
    },
}

/// Where parts of a range are when units of equal size are dealt to devices in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripeLayout {
    /// Bytes that stand together on one device.
    pub unit_bytes: u64,
    /// Devices.
    pub devices: usize,
}

/// A part of a range that is on one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StripePart {
    /// Number of the device, from 0.
    pub device: usize,
    /// First byte on that device.
    pub offset: u64,
    /// Which bytes of the range.
    pub of_range: Range<usize>,
}

impl StripeLayout {
    /// `unit_bytes` in turn, or all there is where there is one device.
    pub(crate) fn new(unit_bytes: u64, devices: usize) -> Self {
        let unit_bytes = if devices == 1 { 1 << 62 } else { unit_bytes };
        StripeLayout { unit_bytes, devices }
    }

    /// The parts of a range, in order. Each is within one unit.
    pub fn parts(self, offset: u64, len_bytes: usize) -> impl Iterator<Item = StripePart> {
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == len_bytes {
                return None;
            }
            let at = offset + done as u64;
            let (unit, in_unit) = (at / self.unit_bytes, at % self.unit_bytes);
            let length = (self.unit_bytes - in_unit).min((len_bytes - done) as u64) as usize;
            let part = StripePart {
                device: (unit % self.devices as u64) as usize,
                offset: unit / self.devices as u64 * self.unit_bytes + in_unit,
                of_range: done..done + length,
            };
            done += length;
            Some(part)
        })
    }
}

/// Several devices as one, without redundancy: what one of them cannot give is lost. An error names the offset on the stripe; [`Stripe::device_of`]
/// tells which device that is.
///
/// # Context
/// As that of the devices. Transfers of one call to different devices run one after the other; a batch hands each device its own at once.
#[derive(Debug)]
pub struct Stripe<D> {
    devices: Vec<D>,
    layout: StripeLayout,
    bounds: Bounds,
}

impl<D: Device> Stripe<D> {
    /// As many bytes as whole units fit on the smallest device, times the devices.
    ///
    /// # Errors
    /// [`StripeError`].
    pub fn new(devices: Vec<D>, unit_bytes: u64) -> Result<Self, StripeError> {
        let block_bytes = devices.iter().map(Device::block_bytes).max().ok_or(StripeError::NoDevices)?;
        for (number, device) in devices.iter().enumerate() {
            let (block_bytes, len_bytes) = (device.block_bytes(), device.len_bytes());
            if unit_bytes == 0 || !unit_bytes.is_multiple_of(block_bytes as u64) {
                return Err(StripeError::BadUnit { unit_bytes, device: number, block_bytes });
            }
            if len_bytes < unit_bytes {
                return Err(StripeError::TooSmall { device: number, len_bytes, unit_bytes });
            }
        }
        let units = devices.iter().map(|device| device.len_bytes() / unit_bytes).min().unwrap_or(0);
        let device_bytes = units * unit_bytes * devices.len() as u64;
        let layout = StripeLayout { unit_bytes, devices: devices.len() };
        Ok(Stripe { devices, layout, bounds: Bounds { device_bytes, block_bytes } })
    }

    /// The device that has the byte at an offset.
    #[must_use]
    pub fn device_of(&self, offset: u64) -> usize {
        (offset / self.layout.unit_bytes % self.devices.len() as u64) as usize
    }

    /// The devices, in turn.
    pub fn devices(&self) -> &[D] {
        &self.devices
    }

    /// The range of a request, in terms of the stripe rather than of one of its devices.
    fn on_stripe(
        &self,
        operation: Operation,
        offset: u64,
        len_bytes: usize,
        error: DeviceError,
    ) -> DeviceError {
        match error {
            DeviceError::Io { errno, .. } => DeviceError::Io { operation, offset, len_bytes, errno },
            DeviceError::ShortTransfer { wanted, got, .. } => {
                DeviceError::ShortTransfer { operation, offset, wanted, got }
            }
            DeviceError::Full { .. } => DeviceError::Full { offset, len_bytes },
            DeviceError::WornOut { .. } => DeviceError::WornOut { offset, len_bytes },
            error => error,
        }
    }
}

impl<D: Device> Device for Stripe<D> {
    fn len_bytes(&self) -> u64 {
        self.bounds.device_bytes
    }

    fn block_bytes(&self) -> usize {
        self.bounds.block_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.bounds.check_transfer(offset, buf)?;
        for part in self.layout.parts(offset, buf.len()) {
            let (start, length) = (offset + part.of_range.start as u64, part.of_range.len());
            self.devices[part.device]
                .read_at(part.offset, &mut buf[part.of_range])
                .map_err(|error| self.on_stripe(Operation::Read, start, length, error))?;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.bounds.check_transfer(offset, buf)?;
        for part in self.layout.parts(offset, buf.len()) {
            let (start, length) = (offset + part.of_range.start as u64, part.of_range.len());
            self.devices[part.device]
                .write_at(part.offset, &buf[part.of_range])
                .map_err(|error| self.on_stripe(Operation::Write, start, length, error))?;
        }
        Ok(())
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        let mut of_devices: Vec<Vec<ReadRequest<'_>>> = self.devices.iter().map(|_| Vec::new()).collect();
        let mut origins: Vec<Vec<(usize, u64)>> = self.devices.iter().map(|_| Vec::new()).collect();
        let mut results = Vec::with_capacity(requests.len());
        for (index, request) in requests.iter_mut().enumerate() {
            results.push(self.bounds.check_transfer(request.offset, request.buf));
            if results[index].is_err() {
                continue;
            }
            let mut rest = &mut *request.buf;
            for part in self.layout.parts(request.offset, rest.len()) {
                let (piece, after) = rest.split_at_mut(part.of_range.len());
                rest = after;
                of_devices[part.device].push(ReadRequest::new(part.offset, piece));
                origins[part.device].push((index, request.offset + part.of_range.start as u64));
            }
        }
        for (device, (parts, origins)) in self.devices.iter().zip(of_devices.iter_mut().zip(&origins)) {
            device.read_batch(parts);
            for (part, &(index, start)) in parts.iter().zip(origins) {
                let result = part
                    .result
                    .map_err(|error| self.on_stripe(Operation::Read, start, part.buf.len(), error));
                results[index] = results[index].and(result);
            }
        }
        drop(of_devices);
        for (request, result) in requests.iter_mut().zip(results) {
            request.result = result;
        }
    }

    fn write_batch(&self, requests: &mut [WriteRequest<'_>]) {
        let mut of_devices: Vec<Vec<WriteRequest<'_>>> = self.devices.iter().map(|_| Vec::new()).collect();
        let mut origins: Vec<Vec<(usize, u64)>> = self.devices.iter().map(|_| Vec::new()).collect();
        for (index, request) in requests.iter_mut().enumerate() {
            request.result = self.bounds.check_transfer(request.offset, request.buf);
            if request.result.is_err() {
                continue;
            }
            for part in self.layout.parts(request.offset, request.buf.len()) {
                origins[part.device].push((index, request.offset + part.of_range.start as u64));
                of_devices[part.device].push(WriteRequest::new(part.offset, &request.buf[part.of_range]));
            }
        }
        for (device, (parts, origins)) in self.devices.iter().zip(of_devices.iter_mut().zip(&origins)) {
            device.write_batch(parts);
            for (part, &(index, start)) in parts.iter().zip(origins) {
                let result = part
                    .result
                    .map_err(|error| self.on_stripe(Operation::Write, start, part.buf.len(), error));
                requests[index].result = requests[index].result.and(result);
            }
        }
    }

    /// Of every device, also when one of them fails.
    fn sync(&self) -> Result<(), DeviceError> {
        self.devices.iter().map(Device::sync).fold(Ok(()), Result::and)
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.bounds.check_range(offset, len_bytes)?;
        // A range that may be longer than memory: unit by unit.
        let mut done = 0;
        while done < len_bytes {
            let length = (len_bytes - done).min(self.layout.unit_bytes) as usize;
            for part in self.layout.parts(offset + done, length) {
                self.devices[part.device].discard(part.offset, part.of_range.len() as u64)?;
            }
            done += length as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlignedBuffer, FaultKind, FaultPlan, Faulty, MemoryDevice};

    fn memory(len_bytes: u64) -> MemoryDevice {
        MemoryDevice::new(len_bytes, 512)
    }

    #[test]
    fn units_go_to_devices_in_turn() {
        let layout = StripeLayout { unit_bytes: 1024, devices: 3 };
        let parts: Vec<_> =
            layout.parts(512, 3072).map(|part| (part.device, part.offset, part.of_range)).collect();
        assert_eq!(parts, [(0, 512, 0..512), (1, 0, 512..1536), (2, 0, 1536..2560), (0, 1024, 2560..3072)]);
    }

    #[test]
    fn the_smallest_device_sets_the_size() {
        let stripe = Stripe::new(vec![memory(10_240), memory(4608)], 1024).unwrap();
        assert_eq!(stripe.len_bytes(), 2 * 4096);
        assert_eq!((stripe.device_of(0), stripe.device_of(1024), stripe.device_of(2048)), (0, 1, 0));
    }

    #[test]
    fn what_cannot_be_a_stripe_is_refused() {
        let none: Vec<MemoryDevice> = Vec::new();
        assert_eq!(Stripe::new(none, 512).unwrap_err(), StripeError::NoDevices);
        let unit = Stripe::new(vec![memory(4096)], 700).unwrap_err();
        assert_eq!(unit, StripeError::BadUnit { unit_bytes: 700, device: 0, block_bytes: 512 });
        let small = Stripe::new(vec![memory(8192), memory(512)], 1024).unwrap_err();
        assert_eq!(small, StripeError::TooSmall { device: 1, len_bytes: 512, unit_bytes: 1024 });
    }

    #[test]
    fn the_failure_of_one_device_is_told_where_it_is_on_the_stripe() {
        let broken = Faulty::new(
            memory(4096),
            FaultPlan::new(1).with_probability(Operation::Read, 1.0, FaultKind::Eio),
        );
        let sound = Faulty::new(memory(4096), FaultPlan::new(1));
        let stripe = Stripe::new(vec![sound, broken], 1024).unwrap();
        let mut buffer = AlignedBuffer::new(1024);
        stripe.read_at(0, &mut buffer).unwrap();
        let error = stripe.read_at(3072, &mut buffer).unwrap_err();
        assert!(matches!(error, DeviceError::Io { offset: 3072, .. }), "{error}");
        let (mut first, mut second) = (AlignedBuffer::new(1024), AlignedBuffer::new(2048));
        let mut requests = [ReadRequest::new(0, &mut first), ReadRequest::new(2048, &mut second)];
        stripe.read_batch(&mut requests);
        assert!(requests[0].result.is_ok());
        assert!(matches!(requests[1].result, Err(DeviceError::Io { offset: 3072, .. })));
    }
}
