//! The translation layer as a device.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error::FtlError;
use super::translation::Ftl;
use crate::bounds::Bounds;
use crate::device::{Device, ReadRequest, WriteRequest};
use crate::error::{DeviceError, Operation};
use crate::nand::NandError;
use crate::pacing::{PacedClock, Pacing};

/// Emulated flash and its translation layer as a block device.
///
/// # Context
/// Takes a lock and may allocate: not for fault handlers of threads that use it themselves.
#[derive(Debug)]
pub struct FtlDevice {
    state: Mutex<State>,
    bounds: Bounds,
    clock: PacedClock,
}

#[derive(Debug)]
struct State {
    ftl: Ftl,
    /// When the last request ended, of simulated time.
    clock_ns: u64,
}

impl FtlDevice {
    /// A device of `ftl` with blocks of 4096 bytes, or of 512 where pages are smaller than that.
    #[must_use]
    pub fn new(ftl: Ftl, pacing: Pacing) -> Self {
        let block_bytes = if ftl.page_bytes() < 4096 { 512 } else { 4096 };
        let bounds = Bounds { device_bytes: ftl.len_bytes(), block_bytes };
        FtlDevice { state: Mutex::new(State { ftl, clock_ns: 0 }), bounds, clock: PacedClock::new(pacing) }
    }

    /// What `look` makes of the layer inside, which is locked meanwhile.
    pub fn with<T>(&self, look: impl FnOnce(&mut Ftl) -> T) -> T {
        look(&mut self.lock().ftl)
    }

    /// The layer inside.
    pub fn into_inner(self) -> Ftl {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).ftl
    }

    /// Simulated time.
    pub fn now_ns(&self) -> u64 {
        self.now(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self, state: &State) -> u64 {
        self.clock.now_ns(state.clock_ns)
    }

    /// Does requests that begin together, and returns when the last of them has ended.
    fn together(&self, work: impl FnOnce(&mut Ftl, u64) -> u64) {
        let mut state = self.lock();
        let now_ns = self.now(&state);
        state.ftl.forget_before(now_ns);
        let done_ns = work(&mut state.ftl, now_ns).max(now_ns);
        state.clock_ns = state.clock_ns.max(done_ns);
        drop(state);
        self.clock.wait_until(done_ns);
    }

    fn one<T>(&self, work: impl FnOnce(&mut Ftl, u64) -> Result<u64, T>) -> Result<(), T> {
        let mut outcome = Ok(());
        self.together(|ftl, now_ns| {
            work(ftl, now_ns).unwrap_or_else(|error| {
                outcome = Err(error);
                now_ns
            })
        });
        outcome
    }
}

impl Device for FtlDevice {
    fn len_bytes(&self) -> u64 {
        self.bounds.device_bytes
    }

    fn block_bytes(&self) -> usize {
        self.bounds.block_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.bounds.check_transfer(offset, buf)?;
        let len_bytes = buf.len();
        self.one(|ftl, now_ns| ftl.read_bytes(offset, buf, now_ns))
            .map_err(|error| failure(Operation::Read, offset, len_bytes, error))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.bounds.check_transfer(offset, buf)?;
        self.one(|ftl, now_ns| ftl.write_bytes(offset, buf, now_ns))
            .map_err(|error| failure(Operation::Write, offset, buf.len(), error))
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        self.together(|ftl, now_ns| {
            let mut done_ns = now_ns;
            for request in requests {
                let (offset, len_bytes) = (request.offset, request.buf.len());
                request.result = self.bounds.check_transfer(offset, request.buf).and_then(|()| {
                    let read = ftl.read_bytes(offset, request.buf, now_ns);
                    done_ns = done_ns
                        .max(read.map_err(|error| failure(Operation::Read, offset, len_bytes, error))?);
                    Ok(())
                });
            }
            done_ns
        });
    }

    fn write_batch(&self, requests: &mut [WriteRequest<'_>]) {
        self.together(|ftl, now_ns| {
            let mut done_ns = now_ns;
            for request in requests {
                let (offset, buf) = (request.offset, request.buf);
                request.result = self.bounds.check_transfer(offset, buf).and_then(|()| {
                    let write = ftl.write_bytes(offset, buf, now_ns);
                    done_ns = done_ns
                        .max(write.map_err(|error| failure(Operation::Write, offset, buf.len(), error))?);
                    Ok(())
                });
            }
            done_ns
        });
    }

    /// Writes are durable already; this makes trims so.
    fn sync(&self) -> Result<(), DeviceError> {
        self.one(|ftl, now_ns| ftl.sync(now_ns)).map_err(|error| failure(Operation::Sync, 0, 0, error))
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.bounds.check_range(offset, len_bytes)?;
        self.lock().ftl.trim_bytes(offset, len_bytes);
        Ok(())
    }
}

/// What a caller of a device hears.
pub(crate) fn failure(operation: Operation, offset: u64, len_bytes: usize, error: FtlError) -> DeviceError {
    let errno = match error {
        FtlError::Lost(_) | FtlError::Damaged { .. } => libc::EIO,
        FtlError::WornOut => return DeviceError::WornOut { offset, len_bytes },
        FtlError::Nand(NandError::PowerLost) => libc::ENODEV,
        FtlError::Nand(NandError::Backing { errno }) => errno,
        FtlError::Nand(_) => libc::EIO,
    };
    DeviceError::Io { operation, offset, len_bytes, errno }
}
