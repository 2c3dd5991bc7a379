//! All that real donors and real borrowers do, over memory that both have mapped.

mod network;

#[path = "../lending/borrowing.rs"]
mod borrowing;
#[path = "../lending/evictions.rs"]
mod evictions;
#[path = "../lending/fixture.rs"]
mod fixture;
#[path = "../lending/security.rs"]
mod security;

mod isolation;
mod link;
