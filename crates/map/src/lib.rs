//! Translation: where the bytes of each page are now.
//!
//! A page's place is one of five, and each is written in exactly one spot:
//!
//! | state | where it is written | costs RAM |
//! |---|---|---|
//! | `Moving`, `Mapped`, `Cached` | its [`Entry`], a 64-bit atomic word in the [`EntryTable`] | 8 B per page that is in RAM |
//! | `Logged` | its [`leaf`](leaves), together with 511 neighbours, packed | while the leaf is resident |
//! | `Zero` | its leaf, or nothing at all | none |
//!
//! An entry takes precedence over the leaf: the leaf keeps the address of the version on flash, so a
//! clean page leaves RAM without a write and without touching its leaf. Reads never dirty a leaf.
//! The number of entries follows the RAM budget and the number of resident leaves is bounded, so
//! translation has a budget that does not grow with the data.
//!
//! | file | noun |
//! |---|---|
//! | `entry` | the word, its fields, its legal transitions |
//! | `entries` | the table of words: lock-free lookup, insertion, removal |
//! | `image` | a leaf spread out for change |
//! | `packed` | a leaf as stored in RAM and in the log |
//! | `patch` | what changed in a leaf since it was written |
//! | `arena` | memory for packed leaves and patches |
//! | `leaf_table` | what is known of each leaf: a row |
//! | `leaves` | the directory of leaves: lookup, update, eviction to the log |
//! | `partitions` | the address map of a durable heap: extents of any size |
//! | `word` | lock and version of a partition |
//!
//! Lock order: entry, then leaf, then log. Entries are waited for with [`aquifer_sys::spin::Backoff`].

#[cfg(not(loom))]
mod arena;
pub mod entries;
pub mod entry;
pub mod image;
#[cfg(not(loom))]
pub mod leaf_table;
#[cfg(not(loom))]
pub mod leaves;
pub mod packed;
#[cfg(not(loom))]
pub mod partitions;
pub mod patch;
mod sync;
mod word;

pub use entries::{EntryTable, Locked};
pub use entry::{Entry, State};
pub use image::{Image, Place};
#[cfg(not(loom))]
pub use leaf_table::LeafTable;
#[cfg(not(loom))]
pub use leaves::{Held, Leaves};
