//! Why an allocation or a free was refused.

use aquifer_vm::{FaultError, PinError};
use thiserror::Error;

/// Why the heap refused. It is as it was before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum HeapError {
    /// Larger than any object may be.
    #[error("{bytes} bytes are more than an object may have ({limit}); use several objects or aq_array")]
    TooLarge {
        /// Asked for; saturated if it overflowed.
        bytes: u64,
        /// Largest size.
        limit: u64,
    },
    /// An argument makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// The flash could not hold the object if it had to.
    #[error(
        "the flash is full: {wanted} bytes are needed, {used} of {limit} are promised; free objects or use a larger flash file"
    )]
    Full {
        /// Bytes the object may need on flash.
        wanted: u64,
        /// Bytes promised to others.
        used: u64,
        /// Bytes that can be promised.
        limit: u64,
    },
    /// The region has no run of free addresses that long.
    #[error("no {leaves} consecutive ranges of 2 MiB are free in the heap's address range")]
    NoAddressSpace {
        /// Ranges asked for.
        leaves: u64,
    },
    /// The pointer is not the start of anything in this heap.
    #[error("address {0:#x} is not from this heap")]
    Foreign(usize),
    /// Some of many pointers are not from this heap; what was asked for was done for the others.
    #[error(
        "{foreign} of {given} addresses are not from this heap, the first is {first:#x}; the others were prefetched"
    )]
    SomeForeign {
        /// The first of them.
        first: usize,
        /// How many.
        foreign: usize,
        /// Of how many.
        given: usize,
    },
    /// The object is not allocated.
    #[error("address {0:#x} was freed already or never allocated")]
    DoubleFree(usize),
    /// The object is pinned.
    #[error("the object at {0:#x} is pinned; unpin it first")]
    Pinned(usize),
    /// Pinning failed.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The device failed.
    #[error(transparent)]
    Fault(#[from] FaultError),
}
