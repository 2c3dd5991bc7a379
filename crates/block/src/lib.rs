//! Any [`Device`](aquifer_device::Device) as a block device of the kernel: for file systems, and for swap.
//!
//! | file | noun |
//! |---|---|
//! | `nbdkit` | the network block device, by nbdkit: works with every kernel, also of another machine |
//! | `ublk` | a block device of this kernel, without a network or a file system between |
//! | `fuse` | the device as one file of a folder, for `losetup`: where the kernel has no NBD |
//! | `source` | what a device is made of |
//! | `precautions` | what a process does before memory is swapped to it |
//! | `swaps` | whether memory is swapped to it |
//!
//! **Swap.** A kernel that is out of memory writes to a swap area so that it has memory again; if the process that serves the area has to wait for memory
//! then, both wait for ever. Therefore every buffer is allocated and touched before the first request that could need it, requests run on threads that
//! were started before, and nothing between a request and its answer allocates. That is as far as the [`Device`](aquifer_device::Device) keeps the same promise.

pub mod fuse;
pub mod nbdkit;
pub mod precautions;
pub mod source;
pub mod swaps;
pub mod ublk;

use std::sync::Arc;

/// Where sentences for people go, such as why a connection ended.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;
