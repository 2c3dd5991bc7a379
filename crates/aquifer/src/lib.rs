//! Memory that reaches below RAM.
//!
//! A [`Heap`] gives a program more memory than the RAM it may use: objects live at ordinary addresses, the
//! ones in use in RAM, the others in a log on flash, and come back when they are touched.
//!
//! ```
//! use aquifer::{Heap, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let heap = Heap::open(Options::new().ram_bytes(16 << 20).flash_bytes(256 << 20))?;
//! let counters = heap.array(100_000, 128)?;
//! for n in 0..100_000 {
//!     let counter = counters.element(n).cast::<u64>();
//!     // SAFETY: the element is ours, 128 bytes long, and lives until it is freed.
//!     unsafe { *counter = n as u64 };
//! }
//! // SAFETY: as above.
//! assert_eq!(unsafe { *counters.element(77_777).cast::<u64>() }, 77_777);
//! heap.free(counters.base())?;
//! # Ok(())
//! # }
//! ```
//!
//! | file | noun |
//! |---|---|
//! | `options` | what a heap is made of, also from the environment |
//! | `device_profile` | settings for the flash, from a file that advice was written to |
//! | `heap` | the heap: allocation, prefetch, pin, statistics, check |
//! | `reference` | objects used where they are in RAM |
//! | `shared` | a heap that belongs to the values in it |
//! | `typed` | objects as values of Rust types: arrays, references, futures |
//! | `blocks` | a heap as the allocator of Rust's collections |
//! | `global` | a heap as the allocator of a whole program |
//! | `batch` | many objects at once, now and later |
//! | `announced` | buffers of system calls that are under way while memory is ordinary |
//! | `page_heap` | memory for programs that cannot be changed: a heap once it exceeds RAM |
//! | `assembly` | device, log, engine and allocator put together |
//! | `group` | memory cgroups of this process, and the machine |
//! | `stats` | what a heap uses and has done; the same and checks for other processes |
//! | `error` | numbered errors with sentences that say what to do |
#![deny(unsafe_code)]

mod announced;
mod assembly;
#[allow(unsafe_code)]
mod batch;
#[allow(unsafe_code)]
mod blocks;
mod device_profile;
mod error;
#[allow(unsafe_code)]
mod global;
pub mod group;
mod heap;
mod options;
mod page_heap;
mod reference;
mod remote;
mod shared;
mod stats;
#[allow(unsafe_code)]
pub mod typed;
mod warm;

pub use aquifer_base::{AllocationClass, profile, units};
pub use aquifer_cache::PolicyKind;
pub use aquifer_device as device;
pub use aquifer_heap::HeapError;
pub use aquifer_heap::class::{current_class, set_class, with_class};
pub use aquifer_remote::far::Code;
pub use aquifer_vm::Strain;
pub use aquifer_vm::hints::Hint;
pub use assembly::KERNEL_MIN;
#[doc(hidden)]
pub use batch::run_in_background;
pub use batch::{Item, Transfer};
pub use blocks::Blocks;
pub use error::{Error, ErrorCode};
pub use global::Global;
pub use heap::{Array, Heap};
pub use options::{Compression, Copies, Faults, Flash, Options};
pub use page_heap::{CallBuffer, PageHeap, Program, ProtectedRange, Rest};
pub use reference::{Ref, Use, UseMut};
pub use shared::SharedHeap;
pub use stats::Stats;

/// Its programs are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/start/rust.md")]
struct Tutorial;

/// The version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
