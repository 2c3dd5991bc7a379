//! Ids, addresses, units, checksums and limits that every crate shares.
//!
//! This crate does no I/O, allocates nothing on the heap and has no unsafe code.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod ids;
pub mod limits;
pub mod profile;
pub mod random;
pub mod samples;
pub mod units;

pub use ids::{AllocationClass, HomeAddress, LeafId, LogAddress, PageId, PartitionId};
pub use samples::Found;
