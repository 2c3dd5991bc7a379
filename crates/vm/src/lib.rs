//! Virtual memory: pages of a region appear when they are touched and leave when room is needed.
//!
//! | file | noun |
//! |---|---|
//! | `engine` | region, table, cache and log of one heap, put together |
//! | `fill` | the one way of a page into RAM |
//! | `patience` | waits that do not keep a process from ending |
//! | `waits` | those that have become long: told of, and shown to who asks |
//! | `resolve` | what a fault does: find the bytes, map the page |
//! | `streams` | faults in order: pages that are mapped ahead |
//! | `ahead` | faults with a stride: whole pages that are read ahead |
//! | `fault/signal`, `fault/thread` | how faults reach the engine |
//! | `fault/observer` | somebody who is told of them |
//! | `page_buffer` | which pages are mapped, in order of arrival |
//! | `ranges` | how many pages are mapped in each 2 MiB range, so that empty page tables are dropped |
//! | `grace` | page tables that the kernel has let go of and not freed yet |
//! | `evict` | page buffer -> cache, in batches |
//! | `whole_pages` | pages of 4096 bytes, which are at their address or in their slot |
//! | `save` | the bytes of written pages, which must outlive their unmapping |
//! | `context`, `pool` | memory that a fault needs, reserved at start |
//! | `writer` | cache -> log: the thread that writes dirty pages back |
//! | `relocate` | log -> log: the cleaner's view of the table |
//! | `hints` | what the program says about its accesses |
//! | `classes` | which class of objects each leaf holds |
//! | `holds` | who holds pages where they are: two books |
//! | `in_place` | objects that are used where they are in the cache |
//! | `batch` | many objects read or written at once |
//! | `prefetch`, `pin`, `release` | batches into the cache, pages that must stay, pages that are freed |
//! | `budget` | how RAM is divided |
//! | `fork`, `snapshot` | what a forked child finds |
//! | `helper` | the library's own threads, which need nothing that a program can hold |
//! | `gate` | where everybody waits while the process forks |
//! | `capture` | memory that becomes a heap's when it no longer fits in RAM |
//! | `usage` | what an engine uses at a moment |
//! | `check` | proof that entries, slots, pages and log agree |
//!
//! # Rules of the fault path
//! Functions that may run in a fault handler end in `_in_fault`. They allocate nothing, take no lock that
//! a faulting thread can hold, touch no managed memory, and do not unwind. Other threads block signals
//! while they hold an entry or a leaf, so that a handler on the same thread never waits for it.

pub mod ahead;
pub mod batch;
pub mod budget;
mod capture;
mod check;
mod classes;
mod context;
pub mod counters;
mod digests;
pub mod engine;
pub mod error;
mod evict;
pub mod fault;
mod fill;
mod first_writes;
pub mod fork;
mod gate;
mod grace;
pub mod helper;
pub mod hints;
mod holds;
mod in_place;
mod page_buffer;
mod patience;
mod pin;
mod pool;
mod prefetch;
mod ranges;
mod release;
mod relocate;
mod resolve;
mod save;
mod snapshot;
mod streams;
mod trouble;
pub mod usage;
mod waits;
mod whole_pages;
mod writer;

pub use budget::Budget;
pub use capture::{NativeRegion, Run};
pub use counters::Counters;
pub use engine::{Engine, EngineOptions};
pub use error::{FaultError, PinError};
