//! What the tests of this folder share. Each of them uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod child;
pub mod long;
pub mod object;
pub mod rng;
pub mod watchdog;

pub use long::long_or;
pub use object::Object;
pub use rng::Rng;
pub use watchdog::Watchdog;
