//! Real donors and real borrowers, over TCP on this machine.

#[path = "../common/network.rs"]
mod network;
#[path = "../common/proxy.rs"]
mod proxy;

mod borrowing;
mod evictions;
mod fixture;
mod learning;
mod security;
mod strangers;
