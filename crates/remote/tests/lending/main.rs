//! Real donors and real borrowers, over TCP on this machine.
#![cfg(fabric)]

mod borrowing;
mod evictions;
mod fixture;
mod security;
