//! Raw kernel calls for Aquifer: userfaultfd, memory advice, signals, futexes.
//!
//! The crate wraps calls and keeps no state of its own. It is `no_std`, so the compiler itself
//! checks that nothing here allocates on the heap, takes a standard lock or formats into a
//! `String`. Everything may be called in a signal handler, except where an item says otherwise.
//!
//! **errno.** The calls overwrite the thread's `errno` as the C library does. A signal handler
//! holds an [`ErrnoGuard`] for as long as it runs, so that the interrupted program does not notice.
//!
//! **What this crate never does:** decide. Which page to fill, when to evict and whom to wait for
//! belongs to the crates below it.
#![cfg_attr(not(test), no_std)]

#[cfg(not(target_os = "linux"))]
compile_error!("aquifer needs Linux: it is built on userfaultfd");

pub mod checksum;
pub mod counter;
pub mod descriptors;
pub mod errno;
pub mod fence;
pub mod futex;
pub mod helper;
pub mod insiders;
pub mod kept_file;
pub mod lifeline;
pub mod memory;
pub mod own;
pub mod persist;
pub mod prefetch;
pub mod process;
pub mod rcu;
pub mod rwspin;
pub mod signal;
pub mod spin;
pub mod stderr;
pub mod uffd;

#[cfg(test)]
mod testing;

pub use counter::stripe;
pub use errno::{Errno, ErrnoGuard, Result};
pub use fence::Fence;
pub use memory::{Advice, Discarder, PagePipe, Reservation};
pub use process::MemoryUse;
pub use signal::SignalsBlocked;
pub use spin::{Backoff, SpinLock, SpinLockGuard};
pub use uffd::{Event, Features, Ready, Userfaultfd};
