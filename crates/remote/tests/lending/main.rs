//! Real donors and real borrowers, over TCP on this machine.

#[path = "../common/network.rs"]
mod network;

mod borrowing;
mod evictions;
mod fixture;
mod learning;
mod security;
mod shares;
