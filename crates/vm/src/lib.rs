//! Virtual memory: pages of a region appear when they are touched and leave when room is needed.
//!
//! Floors, the highest first. A file may import files of lower floors only, which `cargo run -p xtask -- tidy` checks.
//!
//! | file | noun |
//! |---|---|
//! | `engine` | the memory of one heap: public calls, each behind a gate |
//! | `batch` | many objects read or written at once |
//! | `closed` | pages that the program may not touch |
//! | `in_place`, `release` | objects that are used where they are in the cache; pages that are freed |
//! | `pin`, `prefetch`, `takeover`, `writer`, `cleaner` | pages that must stay; batches into the cache; memory becomes a heap's; cache to log; log to log |
//! | `touch`, `write_back`, `reserve`, `hints`, `waits` | what a fault does; pages of one leaf, written together; RAM that is left to the process; what the program says of its accesses; waits that have become long |
//! | `strain` | a program that waits for flash longer than it runs |
//! | `fill` | the one way of a page into RAM |
//! | `room` | a place for it: the only file with waits for room |
//! | `leave`, `snapshot`, `check`, `usage` | pages leave their addresses; what a forked child finds; proof that all parts agree; what is used |
//! | `pages`, `patience` | the parts side by side; waits that do not keep a process from ending |
//! | `mapping`, `residence`, `backing`, `foresight`, `holds`, `natives` | the parts: each owns its state and knows nothing of the others |
//! | `page_set`, `leaf_pages` | some of the pages of a region; of a leaf |
//! | `fork` | how forks reach an engine |
//! | `fault` | how faults reach an engine |
//! | `budget`, `gate` | how RAM is divided; where everybody waits while the process forks |
//! | `error`, `counters`, `context`, `pool`, `bell`, `recess` | what all need; a pause of the pause before a fork |
//!
//! # Rules of the fault path
//! Functions that may run in a fault handler end in `_in_fault`. They allocate nothing, take no lock that
//! a faulting thread can hold, touch no managed memory, and do not unwind. Other threads block signals
//! while they hold an entry or a leaf, so that a handler on the same thread never waits for it.

mod backing;
pub mod batch;
mod bell;
pub mod budget;
mod check;
mod cleaner;
mod closed;
mod context;
pub mod counters;
pub mod engine;
pub mod error;
pub mod fault;
mod fill;
mod foresight;
pub mod fork;
mod gate;
pub mod hints;
mod holds;
mod in_place;
mod leaf_pages;
mod leave;
mod mapping;
mod natives;
mod page_set;
mod pages;
mod patience;
mod pin;
mod pool;
mod prefetch;
mod recess;
mod release;
mod reserve;
mod residence;
mod room;
mod snapshot;
mod strain;
mod takeover;
mod touch;
pub mod usage;
mod waits;
mod write_back;
mod writer;

pub use budget::{Budget, ProcessRam, Room, Strain};
pub use counters::Counters;
pub use engine::{Engine, EngineOptions};
pub use error::{FaultError, PinError};
pub use foresight::WINDOW_MAX_DEFAULT;
pub use leaf_pages::LeafPages;
pub use mapping::TrapKind;
pub use natives::{NativeRegion, REGION_ALIGN};
pub use page_set::{PageSet, Run};
pub use residence::Compression;
