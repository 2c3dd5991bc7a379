//! Which donors of a cluster are there, and which are gone: donors tell each other (van Renesse et al., scuttlebutt, LADIS'08; Hayashibara et al., the phi accrual
//! failure detector, SRDS'04).
//!
//! The protocol is `chitchat`'s; what is ours is what it tells ([`told`]), and the datagrams, which nobody outside of the cluster can read, make or repeat
//! ([`seal`]). It needs a runtime of its own, so it is for the process of a donor alone: borrowers ask a donor.
//!
//! | thread | loop |
//! |---|---|
//! | `aq-gossip` | sends, receives, counts heartbeats |
#![forbid(unsafe_code)]

mod drops;
mod gossip;
pub mod message;
mod options;
pub mod seal;
mod socket;
pub mod told;

pub use drops::DropsSeen;
pub use gossip::{Gossip, Peer};
pub use options::{GossipError, GossipOptions};
