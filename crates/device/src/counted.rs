//! A wrapper that counts what passes through it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::device::{Device, ReadRequest, WriteRequest};
use crate::error::DeviceError;

/// Counts the transfers that succeed. What fails is the caller's to count, with its error.
///
/// # Context
/// As that of the device inside: counting takes no lock.
#[derive(Debug)]
pub struct Counted<D> {
    inner: D,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
    discards: AtomicU64,
}

/// What a [`Counted`] device has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Reads, each request of a batch by itself.
    pub reads: u64,
    /// Bytes of these reads.
    pub read_bytes: u64,
    /// Writes, each request of a batch by itself.
    pub writes: u64,
    /// Bytes of these writes.
    pub written_bytes: u64,
    /// Calls of `sync`.
    pub syncs: u64,
    /// Calls of `discard`.
    pub discards: u64,
}

impl Counters {
    /// What was counted after `earlier`, a snapshot of the same device.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            syncs: self.syncs - earlier.syncs,
            discards: self.discards - earlier.discards,
        }
    }
}

impl<D> Counted<D> {
    /// Counts what reaches `inner` from now on.
    pub fn new(inner: D) -> Self {
        Counted {
            inner,
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            discards: AtomicU64::new(0),
        }
    }

    /// A snapshot. Transfers that run meanwhile may be in some of the counters and not yet in others.
    pub fn counters(&self) -> Counters {
        Counters {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            writes: self.writes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            discards: self.discards.load(Relaxed),
        }
    }

    /// The device inside.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn count_reads(&self, reads: usize, bytes: usize) {
        self.reads.fetch_add(reads as u64, Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    fn count_writes(&self, writes: usize, bytes: usize) {
        self.writes.fetch_add(writes as u64, Relaxed);
        self.written_bytes.fetch_add(bytes as u64, Relaxed);
    }
}

impl<D: Device> Device for Counted<D> {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.inner.block_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_at(offset, buf)?;
        self.count_reads(1, buf.len());
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.inner.write_at(offset, buf)?;
        self.count_writes(1, buf.len());
        Ok(())
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        self.inner.read_batch(requests);
        let done = requests.iter().filter(|request| request.result.is_ok());
        let (reads, bytes) = done.fold((0, 0), |(n, bytes), request| (n + 1, bytes + request.buf.len()));
        self.count_reads(reads, bytes);
    }

    fn write_batch(&self, requests: &mut [WriteRequest<'_>]) {
        self.inner.write_batch(requests);
        let done = requests.iter().filter(|request| request.result.is_ok());
        let (writes, bytes) = done.fold((0, 0), |(n, bytes), request| (n + 1, bytes + request.buf.len()));
        self.count_writes(writes, bytes);
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.inner.sync()?;
        self.syncs.fetch_add(1, Relaxed);
        Ok(())
    }

    fn before_fork(&self) {
        self.inner.before_fork();
    }

    fn in_child(&self) {
        self.inner.in_child();
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len_bytes)?;
        self.discards.fetch_add(1, Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::AlignedBuffer;
    use crate::memory::MemoryDevice;

    #[test]
    fn counts_successes_only_and_batches_by_request() {
        let device = Counted::new(MemoryDevice::new(8192, 512));
        let mut memory = AlignedBuffer::new(1536);
        device.write_at(0, &memory[..1024]).unwrap();
        device.write_at(8192, &memory[..512]).unwrap_err();
        let before = device.counters();
        let (first, rest) = memory.split_at_mut(512);
        let (second, third) = rest.split_at_mut(512);
        let mut batch =
            [ReadRequest::new(0, first), ReadRequest::new(1, second), ReadRequest::new(512, third)];
        device.read_batch(&mut batch);
        device.sync().unwrap();
        device.discard(0, 512).unwrap();
        let expected =
            Counters { reads: 2, read_bytes: 1024, writes: 1, written_bytes: 1024, syncs: 1, discards: 1 };
        assert_eq!(device.counters(), expected);
        assert_eq!(device.counters().since(&before), Counters { writes: 0, written_bytes: 0, ..expected });
    }
}
