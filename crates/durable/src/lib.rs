//! The durable heap: objects that survive crashes, changed by transactions that are written once.
//!
//! The log is the only home of the data (Hu, Ren, Badam, Shu and Moscibroda, "Log-Structured Non-Volatile Main Memory", ATC 2017).
//! A program knows an object by its home address, which never changes; the address map says where in the log its newest
//! bytes are. A transaction is appended to the log as one block, with one fence, and is then entered in the map.
//!
//! | file | noun |
//! |---|---|
//! | `persist` | memory that survives, behind one trait; `memory` is a mapped file, `flash` one on a disk, `emulated` is slow |
//! | `superblock` | the first bytes of a file |
//! | `chunk` | a piece of the file that one thread fills and the cleaner empties |
//! | `block` | a transaction as it stands in the log |
//! | `log` | chunks that are free, open and full |
//! | `draft` | a transaction before its commit |
//! | `objects` | how large objects are, and which there are |
//! | `write_set` | what a transaction wants to write, in order and merged (group update) |
//! | `access` | what data structures need of a transaction |
//! | `view` | which versions a transaction has seen, and what it has locked |
//! | `hints` | the hot-node cache |
//! | `tuning` | optimisations that can be switched off |
//! | `contents` | bytes of home space by way of the map |
//! | `sessions` | those that threads take in turn |
//! | `value` | what may stand in durable memory, and `durable_struct!` |
//! | `reference` | persistent references |
//! | `typed` | objects with a type |
//! | `roots` | roots with names and types |
//! | `structures` | hash map, B+tree, queue |
//! | `session` | what one transaction at a time needs: the end of a log, buffers |
//! | `transaction` | loads, stores, allocations, and the commit |
//! | `cleaner` | copies what is needed out of chunks, and frees them |
//! | `homes` | which home addresses are allocated |
//! | `recovery` | the map, made again from the log |
//! | `durability` | when a commit is durable |
//! | `record` | how far all is known to be, and how long the file |
//! | `background` | the thread that cleans before a transaction has to |
//! | `core` | what a heap and its threads share |
//! | `heap` | the whole |
//! | `usage`, `stats` | what it takes; all its numbers, also for other processes |
//! | `in_place` | with the feature `in-place`: a heap whose data are written twice, to compare with |
//! | `inspect` | a file looked at without changing it |
//! | `salvage` | what is left of a damaged file, in a new one |
//!
//! **Isolation.** A transaction sees one state of the heap: that of a moment between its begin and its end (opacity), and its own
//! writes. Conflicts are found for 4 KiB of home space at a time, by versions from one clock (Dice, Shalev and Shavit,
//! "Transactional Locking II", DISC 2006), with the extension of Riegel et al. (TinySTM).

pub mod access;
mod background;
pub mod block;
pub mod checkpoint;
mod checksum;
pub mod chunk;
mod cleaner;
mod contents;
mod core;
mod draft;
pub mod durability;
pub mod error;
pub mod heap;
mod hints;
mod homes;
#[cfg(feature = "in-place")]
pub mod in_place;
pub mod inspect;
mod log;
mod objects;
pub mod persist;
mod record;
mod recovery;
mod reference;
mod roots;
pub mod salvage;
mod session;
mod sessions;
mod stats;
pub mod structures;
pub mod superblock;
mod supply;
pub mod transaction;
pub mod tuning;
mod typed;
mod unread;
mod usage;
pub mod value;
mod view;
pub mod walk;
mod write_set;

pub use access::{Access, Load, Transactional};
pub use cleaner::Cleaned;
pub use durability::Durability;
pub use error::{Error, Result};
pub use heap::{Backing, DurableHeap, Options};
pub use reference::{Field, Ref};
pub use roots::{NAME_BYTES_MAX, Root, Roots};
pub use stats::Stats;
pub use transaction::{ReadTransaction, Transaction};
pub use tuning::Tuning;
pub use typed::Typed;
pub use usage::Usage;
pub use value::Value;
