//! Real donors and real borrowers, over TCP on this machine.

mod borrowing;
mod evictions;
mod fixture;
mod security;
