//! Idle RAM of other machines (Infiniswap, NSDI'17).
//!
//! A *donor* lends slabs of its RAM, a *borrower* reads and writes them with one-sided transfers. [`transport`] moves the bytes.
//!
//! What donors and borrowers decide ([`donor::lending`], [`donor::headroom`], [`borrower::placement`]) needs no transport: the simulation of clusters runs it. In
//! builds without libfabric everything else is there as well, and says so when it is used.

pub mod borrower;
pub mod cluster;
pub mod control;
pub mod donor;
pub mod events;
pub mod far;
mod random;
pub mod transport;
mod words;

pub use words::Words;
