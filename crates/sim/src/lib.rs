//! A cluster whose machines lend and borrow memory, simulated in virtual time.
//!
//! What is simulated is machines, containers and time. What donors and borrowers decide is not: that is the engine's own code,
//! [`Lending`](aquifer_remote::donor::lending::Lending), [`any_of`](aquifer_remote::donor::lending::any_of),
//! [`least_active`](aquifer_remote::donor::lending::least_active), [`MemoryNow::change`](aquifer_remote::donor::headroom::MemoryNow::change),
//! [`pick_two`](aquifer_remote::borrower::placement::pick_two),
//! [`new_first`](aquifer_remote::borrower::placement::new_first) and [`Offer::is_better_than`](aquifer_remote::control::Offer::is_better_than), which run here as they
//! run in `aquifer donate`.
//!
//! | step | module |
//! |---|---|
//! | machines, load, failures | [`scenario`], [`load`], [`kept`], [`distribution`] |
//! | who chooses, and what is compared | [`contender`] |
//! | events in their order | [`event`], [`queue`] |
//! | the state, and what happens to it | [`cluster`], [`machine`], [`device`], `borrowing`, `taking_back`, `failing` |
//! | the books agree | `conservation` |
//! | what comes of it | [`simulation`], [`measures`], [`damage`], [`outcome`], [`report`], [`plot`] |
//!
//! A seed decides everything: the same seed gives the same result, and the same load to each contender.

#![forbid(unsafe_code)]

mod borrowing;
pub mod cluster;
mod conservation;
pub mod contender;
pub mod counters;
pub mod damage;
pub mod device;
pub mod distribution;
pub mod error;
pub mod event;
mod failing;
pub mod kept;
pub mod load;
pub mod machine;
pub mod measures;
pub mod outcome;
pub mod plot;
pub mod queue;
pub mod report;
pub mod scenario;
pub mod simulation;
mod taking_back;

pub use contender::{Contender, Eviction, Placer};
pub use error::SimError;
pub use outcome::Outcome;
pub use scenario::{Borrowers, Limits, Scenario};
pub use simulation::run;
