//! Emulated flash in simulated time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aquifer_base::random::Random;

use super::{Completion, Direction, Durability, Queue, QueueTransfer};
use crate::error::{DeviceError, Operation};
use crate::ftl::{Ftl, FtlError, failure};
use crate::stripe::StripeLayout;

/// What stands between the host and its devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Controller {
    /// Time that it takes for each transfer, one after the other, whatever the number of devices.
    pub transfer_ns: u64,
    /// Pages of each device that may wait in its volatile memory to be programmed, after the host was told that they are written.
    pub cache_pages: usize,
    /// Time of a write that finds room there.
    pub cache_ns: u64,
}

/// Parts of pages can be read and written, and cost a whole one.
const BLOCK_BYTES: usize = 512;

/// Emulated devices side by side.
#[derive(Debug)]
pub struct SimulatedQueue {
    devices: Vec<Ftl>,
    layout: StripeLayout,
    controller: Controller,
    /// When the controller has nothing more to do.
    controller_free_ns: u64,
    /// When pages in the caches will have been programmed, for each device.
    caches: Vec<BinaryHeap<Reverse<u64>>>,
    /// When the latest program of each device ends.
    programmed_ns: Vec<u64>,
    now_ns: u64,
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    results: Vec<Result<(), DeviceError>>,
    buffer: Vec<u8>,
}

impl SimulatedQueue {
    /// `devices` side by side, `unit_bytes` of each in turn. Blocks have 512 bytes; parts of pages cost a whole one.
    ///
    /// # Panics
    /// Without devices, or when the unit is not a positive multiple of 512.
    #[must_use]
    pub fn new(devices: Vec<Ftl>, unit_bytes: u64, controller: Controller) -> Self {
        assert!(!devices.is_empty() && unit_bytes > 0 && unit_bytes.is_multiple_of(BLOCK_BYTES as u64));
        let layout = StripeLayout::new(unit_bytes, devices.len());
        let count = devices.len();
        SimulatedQueue {
            devices,
            layout,
            controller,
            controller_free_ns: 0,
            caches: vec![BinaryHeap::new(); count],
            programmed_ns: vec![0; count],
            now_ns: 0,
            ends: BinaryHeap::new(),
            results: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Does one transfer; returns when it ends.
    fn transfer(&mut self, transfer: QueueTransfer) -> Result<u64, FtlError> {
        let start_ns = self.controller_free_ns.max(self.now_ns) + self.controller.transfer_ns;
        self.controller_free_ns = start_ns;
        let mut end_ns = start_ns;
        let mut buffer = std::mem::take(&mut self.buffer);
        for part in self.layout.parts(transfer.offset, transfer.len_bytes) {
            let bytes = &mut buffer[part.of_range];
            let outcome = match transfer.direction {
                Direction::Read => self.devices[part.device].read_bytes(part.offset, bytes, start_ns),
                Direction::Write(durability) => {
                    self.write(part.device, part.offset, bytes, durability, start_ns)
                }
            };
            match outcome {
                Ok(part_end_ns) => end_ns = end_ns.max(part_end_ns),
                Err(error) => {
                    self.buffer = buffer;
                    return Err(error);
                }
            }
        }
        self.buffer = buffer;
        Ok(end_ns)
    }

    fn write(
        &mut self,
        device: usize,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
        at_ns: u64,
    ) -> Result<u64, FtlError> {
        let programmed_ns = self.devices[device].write_bytes(offset, bytes, at_ns)?;
        self.programmed_ns[device] = self.programmed_ns[device].max(programmed_ns);
        match durability {
            Durability::Dsync => Ok(programmed_ns),
            Durability::FlushEach => {
                let metadata_ns = self.devices[device].sync(self.programmed_ns[device])?;
                Ok(metadata_ns.max(self.programmed_ns[device]))
            }
            Durability::Cached => Ok(self.cached(device, bytes.len(), at_ns, programmed_ns)),
        }
    }

    /// When the host is told of a write that ends at `programmed_ns` on the flash.
    fn cached(&mut self, device: usize, len_bytes: usize, at_ns: u64, programmed_ns: u64) -> u64 {
        let pages = len_bytes.div_ceil(self.devices[device].page_bytes() as usize);
        if pages > self.controller.cache_pages {
            return programmed_ns;
        }
        let cache = &mut self.caches[device];
        let mut told_ns = at_ns;
        while cache.peek().is_some_and(|&Reverse(end_ns)| end_ns <= at_ns) {
            cache.pop();
        }
        while cache.len() + pages > self.controller.cache_pages {
            let Some(Reverse(end_ns)) = cache.pop() else { break };
            told_ns = told_ns.max(end_ns);
        }
        cache.extend(std::iter::repeat_n(Reverse(programmed_ns), pages));
        (told_ns + self.controller.cache_ns).min(programmed_ns.max(at_ns))
    }
}

impl Queue for SimulatedQueue {
    fn len_bytes(&self) -> u64 {
        let smallest = self.devices.iter().map(Ftl::len_bytes).min().unwrap_or(0);
        let count = self.devices.len() as u64;
        if count == 1 { smallest } else { smallest / self.layout.unit_bytes * self.layout.unit_bytes * count }
    }

    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn resize(&mut self, slots: usize, len_bytes: usize) -> Result<(), DeviceError> {
        self.results.resize(slots, Ok(()));
        if self.buffer.len() < len_bytes {
            let mut dice = Random::new(len_bytes as u64);
            self.buffer = (0..len_bytes.div_ceil(8)).flat_map(|_| dice.next().to_le_bytes()).collect();
        }
        Ok(())
    }

    fn submit(&mut self, slot: usize, transfer: QueueTransfer) -> Result<(), DeviceError> {
        let (offset, len_bytes) = (transfer.offset, transfer.len_bytes);
        let device_bytes = self.len_bytes();
        if offset.checked_add(len_bytes as u64).is_none_or(|end| end > device_bytes) {
            return Err(DeviceError::OutOfRange { offset, len_bytes: len_bytes as u64, device_bytes });
        }
        let operation =
            if transfer.direction == Direction::Read { Operation::Read } else { Operation::Write };
        let outcome = self.transfer(transfer);
        self.results[slot] =
            outcome.as_ref().map(|_| ()).map_err(|&error| failure(operation, offset, len_bytes, error));
        self.ends.push(Reverse((outcome.unwrap_or(self.now_ns), slot)));
        Ok(())
    }

    fn wait(&mut self) -> Result<Completion, DeviceError> {
        let Reverse((done_ns, slot)) = self.ends.pop().expect("a transfer is under way");
        self.now_ns = self.now_ns.max(done_ns);
        for device in &mut self.devices {
            device.forget_before(self.now_ns);
        }
        Ok(Completion { slot, done_ns: self.now_ns, result: self.results[slot] })
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        for (device, programmed_ns) in self.devices.iter_mut().zip(&self.programmed_ns) {
            let end_ns = device
                .sync(self.now_ns.max(*programmed_ns))
                .map_err(|error| failure(Operation::Sync, 0, 0, error))?;
            self.now_ns = self.now_ns.max(end_ns);
        }
        Ok(())
    }

    fn discard(&mut self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let mut done = 0;
        while done < len_bytes {
            let length = (len_bytes - done).min(self.layout.unit_bytes);
            for part in self.layout.parts(offset + done, length as usize) {
                self.devices[part.device].trim_bytes(part.offset, part.of_range.len() as u64);
            }
            done += length;
        }
        Ok(())
    }

    fn rest(&mut self, duration_ns: u64) {
        let end_ns = self.now_ns + duration_ns;
        for (device, programmed_ns) in self.devices.iter_mut().zip(&self.programmed_ns) {
            // A device that fails while it is left alone fails again at the next transfer, where somebody hears of it.
            let _ = device.rest(self.now_ns.max(*programmed_ns), end_ns);
        }
        self.now_ns = end_ns;
    }

    fn flash(&self) -> &[Ftl] {
        &self.devices
    }
}
