//! The durable heap beside other stores whose contents survive a crash.
//!
//! | file | noun |
//! |---|---|
//! | `transactions` | small transactions on all stores |
//! | `workloads` | four programs, beside heaps that write their data twice |
//! | `optimisations` | what each optimisation gives |
//! | `cleaning` | what cleaning costs |
//! | `recovery` | how long opening takes |
//! | `cell` | a system at a point |
//! | `directory` | where the files are, what every store is given, and turns |
//! | `heaps` | heaps on memory that is slowed down, and what they count |
//! | `log` | how full a log is, and what theory says of cleaning it |
//! | `load` | threads with transactions, and what these take |
//! | `store` | what a store must do for `transactions`, and one file for each |
//! | `programs` | programs on any heap with transactions |

mod cell;
pub mod cleaning;
mod directory;
mod heaps;
mod load;
mod log;
pub mod optimisations;
mod programs;
pub mod recovery;
mod store;
pub mod transactions;
pub mod workloads;

use aquifer_durable::{Options, Tuning};

use directory::Setup;

/// The options of a durable heap that is given `setup`.
fn options(setup: &Setup, utilisation_percent: u32, tuning: Tuning) -> Options {
    let capacity_bytes = setup.capacity_bytes;
    Options { capacity_bytes, utilisation_percent, tuning, ..Options::default() }
}
