//! What goes wrong on the way to a donor.

use std::time::Duration;

use crate::words::Words;

/// Why a link ended. It stays so: a new one is made by a new connection. `Copy` and without heap memory: links end while pages are on their way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LinkError {
    /// A transfer took too long; the connection was closed, so that a late answer finds nothing.
    #[error("the donor did not answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The provider says so.
    #[error("the connection to the donor failed: {0}")]
    Failed(Words),
    /// It was closed on this side.
    #[error("the connection to the donor was closed")]
    Closed,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Built without it.
    #[error(
        "this build has no network transport: install libfabric's headers (Debian: apt-get install libfabric-dev) and build again"
    )]
    NotBuilt,
    /// It is not on this machine.
    #[error("libfabric is not installed here: apt-get install libfabric1")]
    NoLibrary,
    /// No provider of this name for this address.
    #[error(
        "libfabric has no provider '{provider}' for {address}; `aquifer version` lists those that work here"
    )]
    NoProvider {
        /// As asked for.
        provider: String,
        /// As asked for.
        address: String,
    },
    /// The port belongs to somebody else.
    #[error("{0} is in use by another process: choose another port")]
    InUse(String),
    /// Nobody is there, or does not want us.
    #[error("no connection to {address}: {reason}")]
    Refused {
        /// As asked for.
        address: String,
        /// The provider's words.
        reason: String,
    },
    /// Anything else.
    #[error("{doing}: {reason}")]
    Failed {
        /// What was tried.
        doing: &'static str,
        /// The provider's words.
        reason: String,
    },
}
