//! Donors that gossip, over UDP on this machine.

mod cluster;
mod datagrams;
mod fixture;
