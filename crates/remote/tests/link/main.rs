//! A link keeps its promises over every transport: bytes or an error by the deadline, and nothing afterwards.

#[path = "../common/network.rs"]
mod network;

mod contract;
mod fabric;
mod faults;
