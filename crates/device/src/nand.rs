//! An emulated flash device that keeps the rules of NAND and its costs.
//!
//! A page is programmed once between two erases, in the order of the pages within its block; only whole blocks are erased; blocks wear
//! out, and worn ones read worse. Breaking a rule is an error, never a shortcut. Each page has out-of-band bytes ([`Oob`])
//! that are programmed with it, in one piece unless the power is cut meanwhile.
//!
//! Time is simulated: an operation is told when it may begin and tells when it ends, after it has waited for its die (array) and its
//! channel (bus). The same calls with the same seed give the same result, errors and times included.
//!
//! [`crate::ftl`] makes a [`Device`](crate::Device) of it.

mod array;
mod block;
mod contents;
mod error;
mod file;
mod geometry;
mod header;
mod oob;
mod power;
mod schedule;
mod timing;
mod wear;

pub use array::{Nand, NandCounters, NandOptions, PageRead};
pub use contents::Backing;
pub use error::{NandError, NandOpenError, Violation};
pub use geometry::{BlockId, Geometry, GeometryError, PageId};
pub use header::{Header, HeaderFound};
pub use oob::{OOB_BYTES, Oob, PageKind};
pub use power::{PowerCut, Tear};
pub use timing::{Timing, Urgency};
pub use wear::Wear;
