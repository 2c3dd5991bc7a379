//! The conventional stack on the same parts, for benchmarks alone: mapped memory over a file system with an extent tree over a page-mapped flash
//! translation layer.
//!
//! Three tables where the volume has one. Cache, frames, mapped memory, views, the fault's way into the process and the emulated flash are the
//! volume's own, so that what differs is the way from an address to a page of flash:
//!
//! | step | what is looked up | what is checked |
//! |---|---|---|
//! | `mapping` | address to region | bounds and rights of the region, size of the file |
//! | `tree` | page of the file to block, through nodes that share the cache with the data | the extent covers the page; the block lies in the data area |
//! | `below` | block to page of flash | the device's bounds, the table's bounds, owner and checksum |
//!
//! `extent` is the nodes' format. What the real thing pays besides and this does not (a journal, the kernel's block layer, rights of the inode on each
//! fault) is in `docs/adr/0029-equal-terms.md`.

mod below;
mod extent;
mod mapping;
mod stack;
mod tree;

pub use below::Kind;
pub use mapping::StackMapping;
pub use stack::{Division, Image, Reads, Stack, StackOptions};
