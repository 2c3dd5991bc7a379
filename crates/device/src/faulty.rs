//! A wrapper that breaks on purpose.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::buffer::AlignedBuffer;
use crate::device::Device;
use crate::error::{DeviceError, Operation};
use crate::fault_plan::{FaultKind, FaultPlan};

/// A device that goes wrong where its [`FaultPlan`] says.
///
/// A test that wants every fault once runs its program with an empty plan, asks [`calls`](Self::calls) how
/// many calls there were, and runs it again for each of them with a fault at that call. The requests of a
/// batch are calls of their own, in their order.
///
/// # Context
/// As that of the device inside, except that a bit flip in a write allocates, and each write if the plan has stale reads.
#[derive(Debug)]
pub struct Faulty<D> {
    inner: D,
    plan: FaultPlan,
    armed: AtomicBool,
    calls: [AtomicU64; 4],
    /// What blocks held before they were written last, by their offsets, if the plan has stale reads.
    before: Mutex<HashMap<u64, Box<[u8]>>>,
}

impl<D> Faulty<D> {
    /// `inner` with the faults of `plan`, which counts from now on.
    pub fn new(inner: D, plan: FaultPlan) -> Self {
        Faulty {
            inner,
            plan,
            armed: AtomicBool::new(true),
            calls: Default::default(),
            before: Mutex::default(),
        }
    }

    /// How often `operation` was called since the device was made or last armed, calls that failed included.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.calls[operation as usize].load(Relaxed)
    }

    /// Starts the plan again: the next call of each operation is its first.
    pub fn arm(&self) {
        for calls in &self.calls {
            calls.store(0, Relaxed);
        }
        self.armed.store(true, Relaxed);
    }

    /// Stops all faults; calls are still counted.
    pub fn disarm(&self) {
        self.armed.store(false, Relaxed);
    }

    /// The device inside, where nothing goes wrong.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Counts a call and decides what happens to it.
    fn next_fault(&self, operation: Operation) -> Option<FaultKind> {
        let call = self.calls[operation as usize].fetch_add(1, Relaxed) + 1;
        if self.armed.load(Relaxed) { self.plan.fault(operation, call) } else { None }
    }
}

impl<D: Device> Faulty<D> {
    /// Keeps what a write is going to replace.
    fn keep_before(&self, offset: u64, len_bytes: usize) -> Result<(), DeviceError> {
        if !self.plan.has_stale_reads() {
            return Ok(());
        }
        let mut bytes = AlignedBuffer::new(len_bytes);
        self.inner.read_at(offset, &mut bytes)?;
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let block_bytes = self.block_bytes();
        let offsets = (offset..).step_by(block_bytes);
        before.extend(offsets.zip(bytes.chunks(block_bytes).map(Box::from)));
        Ok(())
    }

    fn read_stale(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_at(offset, buf)?;
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let block_bytes = self.block_bytes();
        for (offset, block) in (offset..).step_by(block_bytes).zip(buf.chunks_mut(block_bytes)) {
            if let Some(before) = before.get(&offset) {
                block.copy_from_slice(before);
            }
        }
        Ok(())
    }

    fn fail_read(&self, fault: FaultKind, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        match fault {
            FaultKind::BitFlip { bit } => {
                self.inner.read_at(offset, buf)?;
                flip(buf, bit);
                Ok(())
            }
            FaultKind::StaleRead => self.read_stale(offset, buf),
            FaultKind::ShortRead => {
                let wanted = buf.len();
                let got = wanted / self.block_bytes() / 2 * self.block_bytes();
                self.inner.read_at(offset, &mut buf[..got])?;
                Err(DeviceError::ShortTransfer { operation: Operation::Read, offset, wanted, got })
            }
            _ => Err(eio(Operation::Read, offset, buf.len())),
        }
    }

    fn fail_write(&self, fault: FaultKind, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        match fault {
            FaultKind::BitFlip { bit } => {
                let mut flipped = AlignedBuffer::new(buf.len());
                flipped.copy_from_slice(buf);
                flip(&mut flipped, bit);
                self.inner.write_at(offset, &flipped)
            }
            FaultKind::TornWrite { keep_blocks } => {
                let kept = keep_blocks.saturating_mul(self.block_bytes()).min(buf.len());
                self.inner.write_at(offset, &buf[..kept])?;
                Err(eio(Operation::Write, offset, buf.len()))
            }
            FaultKind::LostWrite => Ok(()),
            FaultKind::NoSpace => Err(DeviceError::Full { offset, len_bytes: buf.len() }),
            _ => Err(eio(Operation::Write, offset, buf.len())),
        }
    }
}

fn flip(bytes: &mut [u8], bit: u64) {
    if !bytes.is_empty() {
        let bit = bit % (bytes.len() as u64 * 8);
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

fn eio(operation: Operation, offset: u64, len_bytes: usize) -> DeviceError {
    DeviceError::Io { operation, offset, len_bytes, errno: libc::EIO }
}

// Batches take the trait's own loop, so that each request meets the plan in order.
impl<D: Device> Device for Faulty<D> {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.inner.block_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        match self.next_fault(Operation::Read) {
            None => self.inner.read_at(offset, buf),
            Some(fault) => self.fail_read(fault, offset, buf),
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.keep_before(offset, buf.len())?;
        match self.next_fault(Operation::Write) {
            None => self.inner.write_at(offset, buf),
            Some(fault) => self.fail_write(fault, offset, buf),
        }
    }

    fn sync(&self) -> Result<(), DeviceError> {
        match self.next_fault(Operation::Sync) {
            None => self.inner.sync(),
            Some(_) => Err(eio(Operation::Sync, 0, 0)),
        }
    }

    fn before_fork(&self) {
        self.inner.before_fork();
    }

    fn in_child(&self) {
        self.inner.in_child();
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        match self.next_fault(Operation::Discard) {
            None => self.inner.discard(offset, len_bytes),
            Some(_) => Err(eio(Operation::Discard, offset, len_bytes as usize)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ReadRequest;
    use crate::memory::MemoryDevice;

    const BLOCK: usize = 512;

    fn faulty(operation: Operation, nth: u64, kind: FaultKind) -> Faulty<MemoryDevice> {
        Faulty::new(MemoryDevice::new(64 * 1024, BLOCK), FaultPlan::new(0).on_nth(operation, nth, kind))
    }

    fn filled(blocks: usize, byte: u8) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::new(blocks * BLOCK);
        buffer.fill(byte);
        buffer
    }

    /// What the device inside holds at its start.
    fn stored(device: &Faulty<MemoryDevice>, blocks: usize) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::new(blocks * BLOCK);
        device.inner().read_at(0, &mut buffer).unwrap();
        buffer
    }

    #[test]
    fn a_torn_write_keeps_its_first_blocks() {
        let device = faulty(Operation::Write, 1, FaultKind::TornWrite { keep_blocks: 1 });
        let error = device.write_at(0, &filled(3, 7)).unwrap_err();
        assert_eq!(error, eio(Operation::Write, 0, 3 * BLOCK));
        let stored = stored(&device, 3);
        assert!(stored[..BLOCK].iter().all(|&byte| byte == 7));
        assert!(stored[BLOCK..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_lost_write_and_a_full_device_store_nothing() {
        let lost = faulty(Operation::Write, 1, FaultKind::LostWrite);
        assert_eq!(lost.write_at(0, &filled(1, 7)), Ok(()));
        assert!(stored(&lost, 1).iter().all(|&byte| byte == 0));
        let full = faulty(Operation::Write, 1, FaultKind::NoSpace);
        assert_eq!(full.write_at(0, &filled(1, 7)), Err(DeviceError::Full { offset: 0, len_bytes: BLOCK }));
        assert!(stored(&full, 1).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_flipped_bit_is_returned_or_stored_without_a_word() {
        let read = faulty(Operation::Read, 1, FaultKind::BitFlip { bit: 9 + BLOCK as u64 * 8 });
        let mut buffer = AlignedBuffer::new(BLOCK);
        read.read_at(0, &mut buffer).unwrap();
        assert_eq!(buffer[..3], [0, 2, 0]);
        assert!(stored(&read, 1).iter().all(|&byte| byte == 0), "the medium is intact");
        let write = faulty(Operation::Write, 1, FaultKind::BitFlip { bit: 9 });
        write.write_at(0, &filled(1, 0xFF)).unwrap();
        assert_eq!(stored(&write, 1)[..3], [0xFF, 0xFD, 0xFF]);
    }

    #[test]
    fn a_stale_read_returns_what_was_there_before() {
        let device = faulty(Operation::Read, 2, FaultKind::StaleRead);
        for (byte, blocks) in [(7, 3), (8, 2)] {
            device.write_at(0, &filled(blocks, byte)).unwrap();
        }
        let mut buffer = AlignedBuffer::new(3 * BLOCK);
        let mut read = || {
            device.read_at(0, &mut buffer).unwrap();
            [buffer[0], buffer[BLOCK], buffer[2 * BLOCK]]
        };
        assert_eq!(read(), [8, 8, 7]);
        assert_eq!(read(), [7, 7, 0], "each block as it was before its own last write");
        assert_eq!(read(), [8, 8, 7]);
    }

    #[test]
    fn a_short_read_says_how_short() {
        let device = faulty(Operation::Read, 1, FaultKind::ShortRead);
        device.write_at(0, &filled(4, 7)).unwrap();
        let mut buffer = filled(4, 1);
        let error = device.read_at(0, &mut buffer).unwrap_err();
        let got = 2 * BLOCK;
        let expected =
            DeviceError::ShortTransfer { operation: Operation::Read, offset: 0, wanted: 4 * BLOCK, got };
        assert_eq!(error, expected);
        assert!(buffer[..got].iter().all(|&byte| byte == 7));
    }

    #[test]
    fn each_request_of_a_batch_is_a_call() {
        let device = faulty(Operation::Read, 2, FaultKind::Eio);
        let mut memory = AlignedBuffer::new(3 * BLOCK);
        let mut batch: Vec<_> = memory.chunks_mut(BLOCK).map(|buf| ReadRequest::new(0, buf)).collect();
        device.read_batch(&mut batch);
        let failed: Vec<bool> = batch.iter().map(|request| request.result.is_err()).collect();
        assert_eq!(failed, [false, true, false]);
        assert_eq!(device.calls(Operation::Read), 3);
    }

    #[test]
    fn disarmed_it_counts_and_armed_again_it_starts_over() {
        let device = faulty(Operation::Sync, 1, FaultKind::Eio);
        device.sync().unwrap_err();
        device.sync().unwrap();
        device.disarm();
        device.sync().unwrap();
        assert_eq!(device.calls(Operation::Sync), 3);
        device.arm();
        assert_eq!(device.calls(Operation::Sync), 0);
        device.sync().unwrap_err();
    }

    #[test]
    fn syncs_and_discards_fail_too() {
        let plan = FaultPlan::new(0).from_nth(Operation::Discard, 1, FaultKind::Eio);
        let device = Faulty::new(MemoryDevice::new(4096, BLOCK), plan);
        assert_eq!(device.discard(512, 512), Err(eio(Operation::Discard, 512, 512)));
        assert_eq!(device.discard(512, 512), Err(eio(Operation::Discard, 512, 512)));
    }
}
