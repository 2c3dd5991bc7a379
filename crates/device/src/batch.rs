//! Many transfers of one file at once.

use std::fs::File;

use crate::bounds::Bounds;
use crate::device::{ReadRequest, WriteRequest};
use crate::error::{DeviceError, Operation};
use crate::positional;
use crate::uring::RingPool;

/// What reads and writes have in common.
pub(crate) trait Transfer {
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

/// Does all transfers: through a ring where there is one, and what that leaves undone one by one.
pub(crate) fn run<T: Transfer>(file: &File, bounds: Bounds, rings: Option<&RingPool>, requests: &mut [T]) {
    for request in requests.iter_mut() {
        match bounds.check_transfer(request.offset(), request.memory()) {
            Ok(()) if request.memory().is_empty() => request.set_result(Ok(())),
            Ok(()) => request.set_unfinished(0),
            refused => request.set_result(refused),
        }
    }
    // One transfer alone costs less as a plain call.
    if requests.len() > 1
        && let Some(rings) = rings
    {
        rings.run(file, bounds.block_bytes, requests);
    }
    for request in requests {
        if let Some(done) = request.unfinished() {
            request.finish(file, done, bounds.block_bytes);
        }
    }
}
