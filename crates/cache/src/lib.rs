//! The RAM object cache: bytes of pages in slots that are little larger than the bytes.
//!
//! | file | noun |
//! |---|---|
//! | `class` | sizes of slots |
//! | `slabs` | memory divided into slabs of slots, and who owns each slot |
//! | `sweeps` | who looks over the slots of a class without holding any of them |
//! | `cache` | slots for pages: allocation, eviction, balance between classes |
//! | `policy` | which object leaves next |
//! | `returns` | pages that come back after they have left |
//!
//! The cache decides which slot is emptied; whether a page may leave RAM is written in its entry, and a
//! slot is only taken from a page whose entry this thread holds. Dirty pages are refused until the
//! writer has written them back.

pub mod cache;
pub mod class;
pub mod policy;
pub mod returns;
mod slabs;
mod sweeps;

pub use cache::{Lack, ObjectCache, PolicyKind};
pub use class::Class;
pub use returns::Distances;
pub use slabs::SlotId;
