//! A device as a block device of this kernel, through its driver `ublk_drv`: no network, no loop device, no other file system between.
//!
//! ```text
//! file system, swap ──> /dev/ublkbN ──> request of a queue ──io_uring──> thread of that queue ──> device
//! ```
//!
//! The driver is one of our own, by the kernel's description of the interface (`Documentation/block/ublk.rst`). Each queue has a thread, which takes the
//! requests that are there, does the reads at once, then the writes, and answers them; the kernel spreads requests over queues by processor. Bytes are
//! copied once, by the kernel, between its pages and the buffer of a request.
//!
//! | file | noun | does I/O |
//! |---|---|---|
//! | `abi` | structures and numbers of the kernel's interface | no |
//! | `request` | one request, taken apart | no |
//! | `parameters` | what the kernel is told about the device | no |
//! | `error` | why there is no device | no |
//! | `control` | commands to the control device | yes |
//! | `descriptors` | the memory where the kernel writes requests | yes |
//! | `transfer` | what a request does to the device | yes |
//! | `queue` | one queue and its thread | yes |
//! | `leftovers` | devices of processes that were killed | yes |
//! | `shown` | the block device, from its beginning to its end | yes |

mod abi;
mod control;
mod descriptors;
mod error;
mod leftovers;
mod parameters;
mod queue;
mod request;
mod shown;
mod transfer;

pub use error::UblkError;
pub use shown::{Options, Shown};

/// Whether the kernel's driver is there and this user may use it.
///
/// # Errors
/// [`UblkError::NoDriver`], [`UblkError::NoRights`], [`UblkError::NoRing`].
pub fn possible() -> Result<(), UblkError> {
    control::Control::open().map(drop)
}
