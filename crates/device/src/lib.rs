//! Block storage: files and block devices, memory, and wrappers that count, throttle and break.
//!
//! [`Device`] is the seam between the log and whatever keeps its bytes. [`FileDevice`] is the one for real
//! use, [`MemoryDevice`] keeps everything in memory for tests, [`Forgetful`] does so with a cache that power cuts
//! empty, [`ftl::FtlDevice`] is emulated flash ([`nand`]) with its translation layer, [`Stripe`] puts several devices
//! side by side, and the wrappers ([`Counted`], [`Throttled`], [`Faulty`]) stand in front of any other device. All of
//! them pass one contract suite, `tests/contract`.
//!
//! Unsafe code is confined to the aligned buffer, the file calls, descriptors, the rings and the threads that stand in for them.

mod batch;
mod bounds;
mod buffer;
mod counted;
mod device;
mod error;
mod fault_plan;
mod faulty;
mod file;
mod forgetful;
pub mod ftl;
mod memory;
pub mod nand;
mod pacing;
mod positional;
pub mod queue;
mod stripe;
mod throttled;
mod uring;
mod workers;

pub use buffer::AlignedBuffer;
pub use counted::{Counted, Counters};
pub use device::{Device, ReadRequest, WriteRequest};
pub use error::{DeviceError, OpenError, Operation};
pub use fault_plan::{FaultKind, FaultPlan};
pub use faulty::Faulty;
pub use file::{FileDevice, Site, own};
pub use forgetful::{Forgetful, Kept};
pub use memory::MemoryDevice;
pub use pacing::{PacedClock, Pacing};
pub use stripe::{Stripe, StripeError, StripeLayout, StripePart};
pub use throttled::{Throttle, Throttled};
pub use uring::try_ring;
