//! Transfers between this process and slabs in the RAM of a donor.
//!
//! An [`Endpoint`] is one connection as its provider has it: transfers begin, and end some time or never. A [`Link`] is what the rest of this crate uses: it
//! has memory of its own for what is on the way, gives every transfer a deadline, and closes the endpoint when one misses it, because nothing else keeps a late
//! answer out.

mod clock;
mod endpoint;
mod error;
#[cfg_attr(not(fabric), path = "transport/absent.rs")]
pub mod fabric;
pub mod fake;
mod flights;
mod link;
pub mod memory;
mod port;
mod slots;
mod staging;
mod traffic;

pub use endpoint::{Completion, Direction, Endpoint, Place, PostError, Transfer};
pub use error::{LinkError, TransportError};
pub use link::{Link, LinkOptions, Read, Write, Writing};
pub use port::{Newcomer, Port, ServeLink, connect};
pub use staging::{Part, Staging};
pub use traffic::{Latency, Traffic, TrafficSeen};
