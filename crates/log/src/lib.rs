//! The log: everything that is not in RAM is a record in a segment on the device.
//!
//! | file | noun |
//! |---|---|
//! | `record` | a framed entry of the log: identity, length, CRC32C, payload |
//! | `whole` | a block of whole pages, which have no frame so that reads are aligned |
//! | `sums` | their checksums, in RAM |
//! | `geometry` | how a device is divided into superblock, segments and blocks |
//! | `segment` | what is known of each segment: state, live bytes, generation, age |
//! | `open_segment` | the segment that a head fills with records of one kind, with its write buffer |
//! | `head` | the end of the log that one thread appends to |
//! | `log` | the whole: segments, heads, reads |
//! | `readers` | others who read the log as it was, and the segments that are kept for them |
//! | `victim` | which segment is cleaned next |
//! | `cleaner` | copies what is still needed out of a victim and frees it |
//!
//! There are two heads, so that fresh writes and the survivors of cleaning do not mix (Rosenblum and
//! Ousterhout, "The Design and Implementation of a Log-Structured File System", 1992, section 3.5). Each has a
//! segment for pages, one for whole pages, and one for leaves, which become garbage much sooner.
//! Liveness is not kept here: the cleaner asks the owner of the records.
//!
//! This crate has no unsafe code, and its read path allocates nothing.
#![forbid(unsafe_code)]

pub mod cleaner;
pub mod error;
pub mod geometry;
pub mod head;
pub mod log;
mod open_segment;
pub mod readers;
pub mod record;
pub mod segment;
mod sums;
pub mod victim;
pub mod whole;

pub use error::{AppendError, ReadError, StopError};
pub use geometry::Geometry;
pub use head::Head;
pub use log::{HeadKind, Log};
pub use record::{Kind, RecordId};
