//! Many transfers of one file at once.

use std::fs::File;

use crate::bounds::Bounds;
use crate::device::{ReadRequest, WriteRequest};
use crate::error::{DeviceError, Operation};
use crate::positional;
use crate::uring::{DEPTH_DEFAULT, RingPool};
use crate::workers::Workers;

/// How the transfers of a batch run side by side.
#[derive(Debug)]
pub(crate) enum Concurrency {
    Rings(RingPool),
    /// Where there are no rings.
    Workers(Workers),
    OneByOne,
}

impl Concurrency {
    /// The best that this system gives.
    pub(crate) fn best() -> Self {
        match RingPool::new(DEPTH_DEFAULT) {
            Ok(rings) => Self::Rings(rings),
            Err(_) => Workers::start().map_or(Self::OneByOne, Self::Workers),
        }
    }

    /// Makes batches keep at most `depth` transfers in flight, as far as that is possible.
    pub(crate) fn set_depth(&mut self, depth: usize) {
        match self {
            // A system that has become unwilling to make rings leaves the ones that are there.
            Self::Rings(rings) if rings.depth() != depth => {
                if let Ok(made) = RingPool::new(depth) {
                    *rings = made;
                }
            }
            Self::Workers(workers) => workers.set_depth(depth),
            _ => {}
        }
    }

    pub(crate) fn depth(&self) -> Option<usize> {
        match self {
            Self::Rings(rings) => Some(rings.depth()),
            Self::Workers(workers) => Some(workers.depth()),
            Self::OneByOne => None,
        }
    }

    pub(crate) fn in_flight_max(&self) -> Option<usize> {
        match self {
            Self::Rings(rings) => Some(rings.in_flight_max()),
            Self::Workers(workers) => Some(workers.in_flight_max()),
            Self::OneByOne => None,
        }
    }

    /// Does what it can of the unfinished requests, and returns when none is in flight. `false` if the caller is to finish those that
    /// are still unfinished; else all have their outcome.
    fn run<T: Transfer>(&self, file: &File, block_bytes: usize, requests: &mut [T]) -> bool {
        match self {
            Self::Rings(rings) => {
                rings.run(file, block_bytes, requests);
                false
            }
            Self::Workers(workers) => workers.run(file, block_bytes, requests),
            Self::OneByOne => false,
        }
    }
}

/// What reads and writes have in common.
pub(crate) trait Transfer: Send {
    const OPERATION: Operation;

    fn offset(&self) -> u64;
    fn memory(&self) -> &[u8];
    fn result(&self) -> Result<(), DeviceError>;
    fn set_result(&mut self, result: Result<(), DeviceError>);

    /// Does what is left after the first `done` bytes, in the calling thread.
    fn finish(&mut self, file: &File, done: usize, block_bytes: usize);

    /// Where the kernel finds the memory; for reads it may write there.
    fn address(&mut self) -> *mut u8;

    /// The bytes done so far of a transfer that is neither done nor failed for good.
    ///
    /// A batch keeps this in the result: a transfer that was not begun is short by all of its bytes.
    fn unfinished(&self) -> Option<usize> {
        match self.result() {
            Err(DeviceError::ShortTransfer { got, .. }) => Some(got),
            _ => None,
        }
    }

    /// Notes that the first `got` bytes are done and more are wanted.
    fn set_unfinished(&mut self, got: usize) {
        let (operation, offset, wanted) = (Self::OPERATION, self.offset(), self.memory().len());
        self.set_result(Err(DeviceError::ShortTransfer { operation, offset, wanted, got }));
    }
}

impl Transfer for ReadRequest<'_> {
    const OPERATION: Operation = Operation::Read;

    fn offset(&self) -> u64 {
        self.offset
    }

    fn memory(&self) -> &[u8] {
        self.buf
    }

    fn result(&self) -> Result<(), DeviceError> {
        self.result
    }

    fn set_result(&mut self, result: Result<(), DeviceError>) {
        self.result = result;
    }

    fn finish(&mut self, file: &File, done: usize, block_bytes: usize) {
        self.result = positional::read(file, self.offset, self.buf, done, block_bytes);
    }

    fn address(&mut self) -> *mut u8 {
        self.buf.as_mut_ptr()
    }
}

impl Transfer for WriteRequest<'_> {
    const OPERATION: Operation = Operation::Write;

    fn offset(&self) -> u64 {
        self.offset
    }

    fn memory(&self) -> &[u8] {
        self.buf
    }

    fn result(&self) -> Result<(), DeviceError> {
        self.result
    }

    fn set_result(&mut self, result: Result<(), DeviceError>) {
        self.result = result;
    }

    fn finish(&mut self, file: &File, done: usize, block_bytes: usize) {
        self.result = positional::write(file, self.offset, self.buf, done, block_bytes);
    }

    fn address(&mut self) -> *mut u8 {
        self.buf.as_ptr().cast_mut()
    }
}

/// Does all transfers: side by side where that is possible, and what is left undone one by one.
pub(crate) fn run<T: Transfer>(file: &File, bounds: Bounds, concurrency: &Concurrency, requests: &mut [T]) {
    for request in requests.iter_mut() {
        match bounds.check_transfer(request.offset(), request.memory()) {
            Ok(()) if request.memory().is_empty() => request.set_result(Ok(())),
            Ok(()) => request.set_unfinished(0),
            refused => request.set_result(refused),
        }
    }
    // One transfer alone costs less as a plain call.
    if requests.len() > 1 && concurrency.run(file, bounds.block_bytes, requests) {
        return;
    }
    for request in requests {
        if let Some(done) = request.unfinished() {
            request.finish(file, done, bounds.block_bytes);
        }
    }
}
