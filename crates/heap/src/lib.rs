//! Allocation: every object begins on a page of its own (SSDAlloc's object per page, OPP).
//!
//! | file | noun |
//! |---|---|
//! | `shape` | how an object of some size is laid out: bytes per page, pages, objects per leaf |
//! | `spans` | runs of free leaves in the region |
//! | `pool` | leaves that hold objects of one shape, and which of their places are free |
//! | `promises` | flash that is promised to objects |
//! | `allocator` | malloc, free and the rest, over pools and spans |
//!
//! Nothing here lives in managed memory, so allocating and freeing never fault. What an allocation may
//! need on flash is promised when it is made: a full device is a failed allocation, never a failed write.
#![forbid(unsafe_code)]

pub mod allocator;
pub mod error;
mod pool;
mod promises;
mod shape;
mod spans;

pub use allocator::{Allocator, Usage};
pub use error::HeapError;
