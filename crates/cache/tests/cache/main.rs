//! The object cache together with the table of entries, as the fault path uses them.

mod balance;
mod eviction;
mod ram;
mod threads;

use aquifer_cache::PolicyKind;

const POLICIES: [PolicyKind; 4] = [PolicyKind::Clock, PolicyKind::Lru, PolicyKind::S3Fifo, PolicyKind::Sieve];
