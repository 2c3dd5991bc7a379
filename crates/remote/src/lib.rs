//! Idle RAM of other machines (Infiniswap, NSDI'17).
//!
//! A *donor* lends slabs of its RAM, a *borrower* reads and writes them with one-sided transfers. [`transport`] moves the bytes.
//!
//! What donors and borrowers decide ([`donor::lending`], [`donor::headroom`], [`borrower::placement`]) is there without libfabric too: the simulation of
//! clusters runs it.

pub mod borrower;
/// What borrowers decide. Without libfabric nothing is borrowed.
#[cfg(not(fabric))]
pub mod borrower {
    pub mod placement;
}
pub mod cluster;
pub mod control;
pub mod donor;
/// What donors decide. Without libfabric nothing is lent.
#[cfg(not(fabric))]
pub mod donor {
    pub mod headroom;
    pub mod lending;
}
pub mod machine;
pub mod mirror;
mod random;
pub mod transport;
