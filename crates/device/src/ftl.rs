//! A page-mapped flash translation layer over [`crate::nand`]: the block device that an SSD makes of its flash.
//!
//! Logical pages are written wherever there is room. A table tells where each is; a page that was written again is garbage, until
//! its block is cleaned: what is valid in it is written elsewhere, and it is erased. How much is written because of that - the write
//! amplification - depends on the spare pages, on which block is chosen ([`VictimPolicy`]), and on whether moved pages are mixed with new ones
//! ([`Frontiers`]).
//!
//! Every page tells in its out-of-band bytes whose it is and when it was written, so the table is found again after a power cut. A write is
//! durable when it returns; a TRIM when the next sync does.
//!
//! Over-provisioning is (T - U) / U here: spare pages by user pages.

mod blocks;
mod check;
mod cleaning;
mod counters;
mod device;
mod error;
mod frontier;
mod mapping;
mod options;
mod recovery;
pub mod theory;
mod transfer;
mod translation;
mod trims;
mod victim;

pub use check::Disagreement;
pub use counters::FtlCounters;
pub use device::FtlDevice;
pub(crate) use device::failure;
pub use error::{FtlError, FtlOpenError};
pub use options::{Frontiers, FtlOptions, WearLeveling};
pub use translation::Ftl;
pub use victim::VictimPolicy;
