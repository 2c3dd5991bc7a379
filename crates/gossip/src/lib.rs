//! Which donors of a cluster are there, and which are gone: donors ask each other and tell each other (Das, Gupta, Motivala, SWIM, DSN'02).
//!
//! The protocol is `foca`'s, which knows neither sockets nor threads nor clocks. What is ours is the [`node`] around it with its times (`detector`), with what donors tell ([`wire`],
//! [`message`]); the datagrams, which nobody outside of the cluster can read, make or repeat ([`seal`]); and one thread. Borrowers ask a donor.
//!
//! | thread | loop |
//! |---|---|
//! | `aq-gossip` | receives, does what is due, sends |
//! | `aq-gossip-names` | looks up names of donors that are not found yet, and ends |
#![forbid(unsafe_code)]

mod book;
mod detector;
mod drops;
mod gossip;
mod id;
pub mod message;
pub mod node;
mod options;
pub mod seal;
mod seeds;
mod socket;
mod thread;
pub mod wire;

pub use drops::{Dropped, DropsSeen};
pub use gossip::{Gossip, Peer};
pub use id::{About, Id};
pub use options::{GossipError, GossipOptions};
