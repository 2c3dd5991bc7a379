//! Allocation: objects on pages of their own (SSDAlloc's object per page, OPP), and blocks that share pages (its memory
//! pages, MP).
//!
//! | file | noun |
//! |---|---|
//! | `shape` | how an object of some size is laid out: bytes per page, pages, objects per leaf |
//! | `spans` | runs of free leaves in the region |
//! | `pool` | groups of places for objects of one kind, and which of them are free |
//! | `pools` | one pool for each shape and class |
//! | `class` | the class of what a thread allocates |
//! | `promises` | flash that is promised to objects |
//! | `backlog` | freed objects whose places are given back together |
//! | `allocator` | malloc, free and the rest, over pools and spans |
//! | `runs` | runs of free pages |
//! | `space` | a coalescing allocator of blocks of whole pages |
//! | `small_blocks` | blocks of up to three pages, in groups of pages |
//! | `paged` | a `space` of pages at its place in a region |
//! | `uses` | objects that are used in place, and many at once |
//! | `memory_pages` | blocks beside the objects of one heap |
//!
//! Nothing here lives in managed memory, so allocating and freeing never fault. What an allocation may
//! need on flash is promised when it is made: a full device is a failed allocation, never a failed write.
#![forbid(unsafe_code)]

pub mod allocator;
mod backlog;
pub mod class;
pub mod error;
mod memory_pages;
pub mod paged;
mod pool;
mod pools;
mod promises;
mod runs;
mod shape;
mod small_blocks;
mod space;
mod spans;
pub mod uses;

pub use allocator::{Allocator, Usage};
pub use error::HeapError;
pub use paged::Paged;
pub use small_blocks::SMALL_BYTES_MAX;
