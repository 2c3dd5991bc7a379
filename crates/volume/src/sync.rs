//! Locks of pages in RAM and of commits, replaced by loom's when their protocol is model-checked.

#[cfg(feature = "loom")]
pub use loom::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicU32,
};
#[cfg(not(feature = "loom"))]
pub use std::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicU32,
};
