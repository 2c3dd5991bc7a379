//! Files and block devices through io_uring.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use aquifer_base::random::Random;
use io_uring::{IoUring, opcode, squeue, types};

use super::{Completion, Direction, Durability, Queue, QueueTransfer};
use crate::buffer::AlignedBuffer;
use crate::device::Device;
use crate::error::{DeviceError, Operation};
use crate::file::FileDevice;
use crate::stripe::StripeLayout;

/// Each part of a transfer and each flush after it is one entry of the ring. A number of a slot and of an operation tell which.
const FLUSH: u64 = 1 << 63;

/// Devices side by side behind one ring.
pub struct RealQueue {
    devices: Vec<FileDevice>,
    files: Vec<File>,
    layout: StripeLayout,
    ring: IoUring,
    slots: Vec<Slot>,
    /// Completions that the ring gave and nobody has asked for yet.
    done: VecDeque<Completion>,
    /// Slots in which a transfer is under way.
    under_way: usize,
    start: Instant,
    stamp: u64,
}

struct Slot {
    buffer: AlignedBuffer,
    transfer: QueueTransfer,
    /// Entries of the ring that have not come back.
    pending: usize,
    moved: usize,
    result: Result<(), DeviceError>,
}

/// Distance in bytes between the numbers that make every written block unique.
const STAMP_EVERY: usize = 512;

impl RealQueue {
    /// `devices` side by side, `unit_bytes` of each in turn.
    ///
    /// # Errors
    /// What the system says: without io_uring there is no queue.
    ///
    /// # Panics
    /// Without devices, or when the unit is not a positive multiple of their blocks.
    pub fn new(devices: Vec<FileDevice>, unit_bytes: u64) -> io::Result<Self> {
        assert!(!devices.is_empty() && unit_bytes > 0);
        assert!(devices.iter().all(|device| unit_bytes.is_multiple_of(device.block_bytes() as u64)));
        let files = devices.iter().map(FileDevice::file_for_queue).collect::<io::Result<_>>()?;
        let layout = StripeLayout::new(unit_bytes, devices.len());
        Ok(RealQueue {
            devices,
            files,
            layout,
            ring: IoUring::new(8)?,
            slots: Vec::new(),
            done: VecDeque::new(),
            under_way: 0,
            start: Instant::now(),
            stamp: 0,
        })
    }

    /// The devices.
    #[must_use]
    pub fn devices(&self) -> &[FileDevice] {
        &self.devices
    }

    /// Ring entries that a transfer of `len_bytes` may need.
    fn entries_of(&self, len_bytes: usize) -> usize {
        let parts = if self.files.len() == 1 { 1 } else { len_bytes / self.layout.unit_bytes as usize + 2 };
        parts + self.files.len()
    }

    fn prepare(&mut self, slot: usize, transfer: QueueTransfer) -> Vec<squeue::Entry> {
        let Slot { buffer, .. } = &mut self.slots[slot];
        if transfer.direction != Direction::Read {
            for chunk in buffer[..transfer.len_bytes].chunks_mut(STAMP_EVERY) {
                self.stamp = self.stamp.wrapping_add(0x9E37_79B9_7F4A_7C15);
                chunk[..8].copy_from_slice(&self.stamp.to_le_bytes());
            }
        }
        let memory = buffer.as_mut_ptr();
        let mut entries = Vec::with_capacity(2);
        for part in self.layout.parts(transfer.offset, transfer.len_bytes) {
            let fd = types::Fd(self.files[part.device].as_raw_fd());
            let address = memory.wrapping_add(part.of_range.start);
            let length = part.of_range.len() as u32;
            let entry = match transfer.direction {
                Direction::Read => opcode::Read::new(fd, address, length).offset(part.offset).build(),
                Direction::Write(durability) => {
                    let flags = if durability == Durability::Dsync { libc::RWF_DSYNC } else { 0 };
                    opcode::Write::new(fd, address, length).offset(part.offset).rw_flags(flags).build()
                }
            };
            entries.push(entry.user_data(slot as u64));
            if transfer.direction == Direction::Write(Durability::FlushEach) {
                // The flush begins when the write is done.
                let last = entries.pop().expect("just pushed").flags(squeue::Flags::IO_LINK);
                entries.push(last);
                let flush = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build();
                entries.push(flush.user_data(slot as u64 | FLUSH));
            }
        }
        entries
    }

    /// Waits until the ring has done something, and takes that.
    fn reap(&mut self) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        self.take_done();
        Ok(())
    }

    /// Takes what the ring has done.
    fn take_done(&mut self) {
        let done_ns = self.now_ns();
        for entry in self.ring.completion() {
            let number = (entry.user_data() & !FLUSH) as usize;
            let slot = &mut self.slots[number];
            slot.note(entry.user_data() & FLUSH != 0, entry.result());
            if slot.pending == 0 {
                self.done.push_back(Completion { slot: number, done_ns, result: slot.result });
            }
        }
    }

    /// Hands what was pushed to the device. What the kernel does not take now, it takes when it is waited for.
    fn hand_over(&mut self) -> io::Result<()> {
        match self.ring.submit() {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }
}

impl Slot {
    /// Notes what one entry of the ring says of the transfer.
    fn note(&mut self, is_flush: bool, result: i32) {
        let (offset, len_bytes) = (self.transfer.offset, self.transfer.len_bytes);
        let operation = match (is_flush, self.transfer.direction) {
            (true, _) => Operation::Sync,
            (false, Direction::Read) => Operation::Read,
            (false, Direction::Write(_)) => Operation::Write,
        };
        self.pending -= 1;
        let outcome = match usize::try_from(result) {
            Ok(moved) => {
                self.moved += moved;
                Ok(())
            }
            Err(_) if -result == libc::ENOSPC => Err(DeviceError::Full { offset, len_bytes }),
            Err(_) => Err(DeviceError::Io { operation, offset, len_bytes, errno: -result }),
        };
        self.result = self.result.and(outcome);
        if self.pending == 0 && self.result.is_ok() && self.moved != len_bytes {
            let (wanted, got) = (len_bytes, self.moved);
            self.result = Err(DeviceError::ShortTransfer { operation, offset, wanted, got });
        }
    }
}

fn system_failure(operation: Operation, error: &io::Error) -> DeviceError {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    DeviceError::Io { operation, offset: 0, len_bytes: 0, errno }
}

impl Queue for RealQueue {
    fn len_bytes(&self) -> u64 {
        let smallest = self.devices.iter().map(Device::len_bytes).min().unwrap_or(0);
        let count = self.devices.len() as u64;
        if count == 1 { smallest } else { smallest / self.layout.unit_bytes * self.layout.unit_bytes * count }
    }

    fn block_bytes(&self) -> usize {
        self.devices.iter().map(Device::block_bytes).max().unwrap_or(512)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_simulated(&self) -> bool {
        false
    }

    fn resize(&mut self, slots: usize, len_bytes: usize) -> Result<(), DeviceError> {
        assert_eq!(self.under_way, 0, "nothing is under way");
        let entries = (slots * self.entries_of(len_bytes)).clamp(8, 4096).next_power_of_two();
        self.ring = IoUring::new(entries as u32).map_err(|error| system_failure(Operation::Read, &error))?;
        let mut dice = Random::new(slots as u64);
        self.slots.clear();
        self.slots.resize_with(slots, || {
            let mut buffer = AlignedBuffer::new(len_bytes);
            buffer
                .chunks_mut(8)
                .for_each(|chunk| chunk.copy_from_slice(&dice.next().to_le_bytes()[..chunk.len()]));
            let transfer = QueueTransfer { direction: Direction::Read, offset: 0, len_bytes: 0 };
            Slot { buffer, transfer, pending: 0, moved: 0, result: Ok(()) }
        });
        Ok(())
    }

    fn submit(&mut self, slot: usize, transfer: QueueTransfer) -> Result<(), DeviceError> {
        let (offset, len_bytes, device_bytes) = (transfer.offset, transfer.len_bytes, self.len_bytes());
        if offset.checked_add(len_bytes as u64).is_none_or(|end| end > device_bytes) {
            return Err(DeviceError::OutOfRange { offset, len_bytes: len_bytes as u64, device_bytes });
        }
        assert!(len_bytes <= self.slots[slot].buffer.len(), "the slot was made for less");
        assert_eq!(self.slots[slot].pending, 0, "the slot is free");
        let entries = self.prepare(slot, transfer);
        let state = &mut self.slots[slot];
        (state.transfer, state.pending, state.moved, state.result) = (transfer, entries.len(), 0, Ok(()));
        self.under_way += 1;
        for entry in entries {
            // SAFETY: the memory belongs to the slot, which keeps it until its entries have come back: `resize` and `drop` wait for that.
            while unsafe { self.ring.submission().push(&entry) }.is_err() {
                self.ring.submit().map_err(|error| system_failure(Operation::Write, &error))?;
            }
        }
        // At once: a transfer that waited for others to be asked for would not be under way, and its latency would be theirs.
        self.hand_over().map_err(|error| system_failure(Operation::Write, &error))
    }

    fn wait(&mut self) -> Result<Completion, DeviceError> {
        assert!(self.under_way > 0, "a transfer is under way");
        if self.done.is_empty() {
            self.take_done();
        }
        while self.done.is_empty() {
            self.reap().map_err(|error| system_failure(Operation::Read, &error))?;
        }
        self.under_way -= 1;
        Ok(self.done.pop_front().expect("a transfer has ended"))
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.devices.iter().map(Device::sync).fold(Ok(()), Result::and)
    }

    fn discard(&mut self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let mut done = 0;
        while done < len_bytes {
            // In ranges of at most 1 GiB, so that nobody waits long for one.
            let length = (len_bytes - done).min(self.layout.unit_bytes).min(1 << 30);
            for part in self.layout.parts(offset + done, length as usize) {
                self.devices[part.device].discard(part.offset, part.of_range.len() as u64)?;
            }
            done += length;
        }
        Ok(())
    }

    fn rest(&mut self, duration_ns: u64) {
        std::thread::sleep(Duration::from_nanos(duration_ns));
    }
}

impl Drop for RealQueue {
    /// The kernel may still write to the memory of what is under way.
    fn drop(&mut self) {
        while self.slots.iter().any(|slot| slot.pending > 0) {
            if self.reap().is_err() {
                // Memory that the kernel may use must not be given to others.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round keeps its depth: nothing waits in the ring until somebody asks for what is done.
    #[test]
    fn a_transfer_is_under_way_when_it_was_submitted() {
        let device = FileDevice::unnamed_in(std::env::temp_dir(), 2 << 20).expect("a file");
        let mut queue = match RealQueue::new(vec![device], 8192) {
            Ok(queue) => queue,
            Err(error) => return println!("SKIP a_transfer_is_under_way: no io_uring: {error}"),
        };
        queue.resize(2, 4096).expect("two slots");
        for slot in 0..2 {
            let offset = slot as u64 * 4096;
            let write = Direction::Write(Durability::Cached);
            queue
                .submit(slot, QueueTransfer { direction: write, offset, len_bytes: 4096 })
                .expect("submitted");
            assert!(queue.ring.submission().is_empty(), "the kernel has it");
        }
        let slots: std::collections::BTreeSet<_> =
            (0..2).map(|_| queue.wait().expect("written").slot).collect();
        assert_eq!(slots.len(), 2);
    }
}
