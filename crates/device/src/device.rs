//! The trait that everything with blocks implements.

use std::sync::Arc;

use crate::error::DeviceError;

/// A fixed-size array of blocks that is read and written at offsets.
///
/// Every method can be called from many threads at once. Transfers that overlap in time and place have no
/// defined order, and a read that meets a write may see any mixture of old and new blocks.
pub trait Device: Send + Sync {
    /// Usable size; a multiple of [`block_bytes`](Self::block_bytes).
    fn len_bytes(&self) -> u64;

    /// The offset, length and memory of every transfer are multiples of this; 512 or 4096.
    fn block_bytes(&self) -> usize;

    /// Fills `buf` from `offset` or fails; never a short read. An empty `buf` does nothing.
    ///
    /// # Errors
    /// [`DeviceError`]; the contents of `buf` are then undefined.
    ///
    /// # Context
    /// Blocks. Runs in fault handlers: allocates nothing, takes no lock that a faulting thread may hold, and
    /// is repeated when a signal interrupts it. Devices that cannot promise this say so.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes the whole of `buf` at `offset` or fails. An empty `buf` does nothing.
    ///
    /// # Errors
    /// [`DeviceError`]; the range may then hold old blocks, new blocks or some of each.
    ///
    /// # Durability
    /// None before [`sync`](Self::sync) returns; reads see the bytes at once.
    ///
    /// # Context
    /// Blocks. Same promises as [`read_at`](Self::read_at).
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError>;

    /// Does all reads, as many at a time as the device likes; the outcome of each stands in its `result`. One
    /// that fails does not stop the others.
    ///
    /// # Context
    /// May allocate and lock: not for fault handlers.
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        for request in requests {
            request.result = self.read_at(request.offset, request.buf);
        }
    }

    /// Does all writes, as many at a time and in whatever order the device likes. The `result` of each
    /// request gets its own outcome; a failed write does not stop the others.
    ///
    /// # Context
    /// May allocate and lock: not for fault handlers.
    fn write_batch(&self, requests: &mut [WriteRequest<'_>]) {
        for request in requests {
            request.result = self.write_at(request.offset, request.buf);
        }
    }

    /// Makes every write that returned before this call durable.
    ///
    /// # Errors
    /// [`DeviceError`]; which of the earlier writes are durable is then unknown, and a second `sync` that
    /// succeeds proves nothing about them, because the kernel may have dropped the pages that it could not
    /// write.
    fn sync(&self) -> Result<(), DeviceError>;

    /// The process is about to fork, and no transfer is under way. Afterwards the device reads the same in the child, which writes nothing, until the parent writes
    /// on.
    fn before_fork(&self) {}

    /// This is the child of a process that forked.
    ///
    /// # Context
    /// Async-signal-safe.
    fn in_child(&self) {}

    /// Says that the contents of the range are no longer needed. A hint: reads of the range then return old
    /// bytes, zeros or anything else until it is written again.
    ///
    /// # Errors
    /// [`DeviceError`]; the contents of the range are then undefined too.
    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError>;
}

/// One read of a batch.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// First byte on the device.
    pub offset: u64,
    /// Where the bytes go.
    pub buf: &'a mut [u8],
    /// Set by the device.
    pub result: Result<(), DeviceError>,
}

impl<'a> ReadRequest<'a> {
    /// A read that has not run yet.
    #[must_use]
    pub fn new(offset: u64, buf: &'a mut [u8]) -> Self {
        ReadRequest { offset, buf, result: Ok(()) }
    }
}

/// One write of a batch.
#[derive(Debug)]
pub struct WriteRequest<'a> {
    /// First byte on the device.
    pub offset: u64,
    /// What is written.
    pub buf: &'a [u8],
    /// Set by the device.
    pub result: Result<(), DeviceError>,
}

impl<'a> WriteRequest<'a> {
    /// A write that has not run yet.
    #[must_use]
    pub fn new(offset: u64, buf: &'a [u8]) -> Self {
        WriteRequest { offset, buf, result: Ok(()) }
    }
}

/// A pointer to a device is a device.
macro_rules! forward_to_pointee {
    ($pointer:ident) => {
        impl<D: Device + ?Sized> Device for $pointer<D> {
            fn len_bytes(&self) -> u64 {
                (**self).len_bytes()
            }

            fn block_bytes(&self) -> usize {
                (**self).block_bytes()
            }

            fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
                (**self).read_at(offset, buf)
            }

            fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
                (**self).write_at(offset, buf)
            }

            fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
                (**self).read_batch(requests);
            }

            fn write_batch(&self, requests: &mut [WriteRequest<'_>]) {
                (**self).write_batch(requests);
            }

            fn sync(&self) -> Result<(), DeviceError> {
                (**self).sync()
            }

            fn before_fork(&self) {
                (**self).before_fork();
            }

            fn in_child(&self) {
                (**self).in_child();
            }

            fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
                (**self).discard(offset, len_bytes)
            }
        }
    };
}

forward_to_pointee!(Arc);
forward_to_pointee!(Box);
