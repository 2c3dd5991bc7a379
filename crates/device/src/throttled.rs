//! A wrapper that makes a fast device as slow as another one.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::device::{Device, ReadRequest, WriteRequest};
use crate::error::DeviceError;

/// How slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Throttle {
    /// Added to each read, and once to each batch of reads, as a device with enough parallel units behaves.
    pub read_latency: Duration,
    /// What all writers share; `None` does not limit them.
    pub write_bytes_per_second: Option<NonZeroU64>,
}

/// A device that sleeps before it transfers.
///
/// # Context
/// As that of the device inside: a sleep takes no lock and allocates nothing.
#[derive(Debug)]
pub struct Throttled<D> {
    inner: D,
    throttle: Throttle,
    start: Instant,
    queue: WriteQueue,
}

impl<D> Throttled<D> {
    /// `inner`, slowed down by `throttle`.
    pub fn new(inner: D, throttle: Throttle) -> Self {
        Throttled { inner, throttle, start: Instant::now(), queue: WriteQueue::default() }
    }

    /// The device inside.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Sleeps until the device would have written `bytes` more.
    fn wait_for_write(&self, bytes: usize) {
        let Some(rate) = self.throttle.write_bytes_per_second else { return };
        let now_ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let done_ns = self.queue.append(now_ns, bytes as u64, rate);
        std::thread::sleep(Duration::from_nanos(done_ns - now_ns));
    }

    fn wait_for_read(&self) {
        if !self.throttle.read_latency.is_zero() {
            std::thread::sleep(self.throttle.read_latency);
        }
    }
}

/// When a device that writes at a fixed rate will have done all that it was given.
#[derive(Debug, Default)]
struct WriteQueue {
    done_ns: AtomicU64,
}

impl WriteQueue {
    /// Appends `bytes` at `now_ns`; returns when they will have been written, never before `now_ns`.
    fn append(&self, now_ns: u64, bytes: u64, rate: NonZeroU64) -> u64 {
        let cost_ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate.get());
        let cost_ns = u64::try_from(cost_ns).unwrap_or(u64::MAX);
        let after = |done_ns: u64| done_ns.max(now_ns).saturating_add(cost_ns);
        // Only the sum of the costs matters, and that is in this one word: no order with other memory is
        // needed.
        let earlier = self.done_ns.fetch_update(Relaxed, Relaxed, |done_ns| Some(after(done_ns)));
        after(earlier.unwrap_or_else(|done_ns| done_ns))
    }
}

impl<D: Device> Device for Throttled<D> {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.inner.block_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.wait_for_read();
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.wait_for_write(buf.len());
        self.inner.write_at(offset, buf)
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        self.wait_for_read();
        self.inner.read_batch(requests);
    }

    fn write_batch(&self, requests: &mut [WriteRequest<'_>]) {
        self.wait_for_write(requests.iter().map(|request| request.buf.len()).sum());
        self.inner.write_batch(requests);
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.inner.sync()
    }

    fn before_fork(&self) {
        self.inner.before_fork();
    }

    fn in_child(&self) {
        self.inner.in_child();
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_queue_behind_each_other() {
        let rate = NonZeroU64::new(1_000_000).unwrap();
        let queue = WriteQueue::default();
        assert_eq!(queue.append(100, 1, rate), 1_100);
        assert_eq!(queue.append(200, 2, rate), 3_100);
        assert_eq!(queue.append(9_000, 1, rate), 10_000, "an idle device starts at once");
        assert_eq!(queue.append(9_000, 0, rate), 10_000);
    }

    #[test]
    fn absurd_rates_saturate() {
        let slowest = NonZeroU64::new(1).unwrap();
        assert_eq!(WriteQueue::default().append(7, u64::MAX, slowest), u64::MAX);
    }
}
