//! Transfers between programs of one machine: a donor's slabs are mapped by the borrower, and transfers are copies.
//!
//! Nobody has to be woken for one. It is for a donor outside the limit that its borrower is in: another container, another control group.
//!
//! What a borrower was given it can keep mapped for ever. So a slab's memory is never given to a second one: the donor takes its pages away and makes a new one.

mod borrowed;
mod lent;
mod listener;
mod passing;

pub use borrowed::connect;
pub use lent::Served;
pub use listener::{Listener, Request};

/// The name of this provider.
pub const PROVIDER: &str = "memory";
