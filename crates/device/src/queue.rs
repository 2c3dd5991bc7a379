//! Transfers that run side by side and are collected one by one: what load generators need, on real and on simulated devices alike.
//!
//! A queue has as many slots as may be under way; each has memory of its own, filled with bytes that no device can compress. A queue over
//! several devices deals them units in turn (RAID-0).

mod real;
mod simulated;

pub use real::RealQueue;
pub use simulated::{Controller, SimulatedQueue};

use crate::error::DeviceError;
use crate::ftl::Ftl;

/// When a write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Durability {
    /// When the device says so; its write cache may hold it.
    Cached,
    /// When a flush after it is done.
    FlushEach,
    /// When it is durable by itself.
    Dsync,
}

/// What a transfer does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Device to memory.
    Read,
    /// Memory to device.
    Write(Durability),
}

/// One transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueTransfer {
    /// What it does.
    pub direction: Direction,
    /// First byte; a multiple of the block.
    pub offset: u64,
    /// Bytes; a multiple of the block, at most what the slots were made for.
    pub len_bytes: usize,
}

/// A transfer that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The slot that is free again.
    pub slot: usize,
    /// When it ended, by [`Queue::now_ns`].
    pub done_ns: u64,
    /// What became of it.
    pub result: Result<(), DeviceError>,
}

/// Transfers under way.
pub trait Queue {
    /// Bytes of all devices together.
    fn len_bytes(&self) -> u64;

    /// Offsets and lengths are multiples of this.
    fn block_bytes(&self) -> usize;

    /// Time since the queue was made: of the clock on the wall, or simulated.
    fn now_ns(&self) -> u64;

    /// Whether time is simulated.
    fn is_simulated(&self) -> bool;

    /// Allocates `slots` slots for transfers of up to `len_bytes` bytes. No transfer may be under way.
    ///
    /// # Errors
    /// [`DeviceError`] when the system gives no more.
    fn resize(&mut self, slots: usize, len_bytes: usize) -> Result<(), DeviceError>;

    /// Starts a transfer in a slot in which none is under way.
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`] and the like; the slot is still free.
    fn submit(&mut self, slot: usize, transfer: QueueTransfer) -> Result<(), DeviceError>;

    /// Waits for a transfer to end.
    ///
    /// # Errors
    /// When the system fails, not when a transfer does. None is under way then.
    ///
    /// # Panics
    /// When none is under way.
    fn wait(&mut self) -> Result<Completion, DeviceError>;

    /// Makes durable what was written. Nothing may be under way.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn flush(&mut self) -> Result<(), DeviceError>;

    /// Says that a range holds nothing any more. Nothing may be under way.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn discard(&mut self, offset: u64, len_bytes: u64) -> Result<(), DeviceError>;

    /// Leaves the devices alone for so long.
    fn rest(&mut self, duration_ns: u64);

    /// The translation layers of emulated devices; none of real ones.
    fn flash(&self) -> &[Ftl] {
        &[]
    }
}
