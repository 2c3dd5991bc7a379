//! Donors that gossip, in virtual time: many of them, with losses, cuts and clocks that go back.

mod cluster;
mod crowds;
mod lives;
