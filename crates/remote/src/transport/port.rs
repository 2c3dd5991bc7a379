//! Where a donor waits for its borrowers' transfers, and how a borrower gets there.

use std::sync::Arc;
use std::time::Duration;

use super::fabric::Token;
use super::{Endpoint, Place, Staging, TransportError, fabric, memory};

/// A borrower's connection at its donor. One thread serves it.
pub trait ServeLink: Send {
    /// The provider that carries the bytes.
    fn provider(&self) -> &str;

    /// Lets the borrower read and write this memory. The key should be one that nobody can guess; some providers choose their own.
    ///
    /// # Errors
    /// The provider cannot register that much memory.
    fn lend(&mut self, memory: &Arc<Staging>, key: u64) -> Result<Place, TransportError>;

    /// Takes memory back: from here on the borrower cannot reach it, or what it reaches is nobody else's ever. `false` if it was not lent here.
    ///
    /// # Errors
    /// The provider does not let go; the connection should be ended then.
    fn take_back(&mut self, place: Place) -> Result<bool, TransportError>;

    /// As [`ServeLink::serve`], looking for so long without sleep.
    fn look(&mut self, limit: Duration) -> bool;

    /// Moves the borrower's transfers on, sleeping for at most so long when there are none; says whether it is still there.
    fn serve(&mut self, limit: Duration) -> bool;
}

/// Where a donor waits.
pub enum Port {
    /// At a port of libfabric.
    Fabric(fabric::Listener),
    /// For programs of its machine alone.
    Memory(memory::Listener),
}

impl Port {
    /// Waits, at any port that is free. Each transfer takes at least `delay` where the network itself does not say how long.
    ///
    /// # Errors
    /// [`TransportError`].
    pub fn open(provider: &str, host: &str, delay: Duration) -> Result<Port, TransportError> {
        if provider == memory::PROVIDER {
            memory::Listener::new(0).map(|listener| Port::Memory(listener.delayed_by(delay)))
        } else {
            fabric::Listener::new(provider, host, 0).map(Port::Fabric)
        }
    }

    /// What a borrower has to know, beside the provider.
    ///
    /// # Errors
    /// The provider does not say.
    pub fn number(&mut self) -> Result<u16, TransportError> {
        match self {
            Port::Fabric(listener) => listener.port(),
            Port::Memory(listener) => Ok(listener.number()),
        }
    }

    /// Waits for somebody who wants to connect, for at most so long.
    ///
    /// # Errors
    /// The port is of no use any more. A peer without a token is refused, and counts as no request.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Newcomer<'_>>, TransportError> {
        match self {
            Port::Fabric(listener) => Ok(listener.next(limit)?.map(Newcomer::Fabric)),
            Port::Memory(listener) => Ok(listener.next(limit)?.map(Newcomer::Memory)),
        }
    }
}

/// Somebody who wants to connect. Refused when it is dropped.
pub enum Newcomer<'a> {
    /// Over libfabric.
    Fabric(fabric::Request<'a>),
    /// On the donor's machine.
    Memory(memory::Request),
}

impl Newcomer<'_> {
    /// What it shows.
    #[must_use]
    pub fn token(&self) -> &Token {
        match self {
            Newcomer::Fabric(request) => request.token(),
            Newcomer::Memory(request) => request.token(),
        }
    }

    /// Lets it in.
    ///
    /// # Errors
    /// It did not come after all.
    pub fn accept(self, limit: Duration) -> Result<Box<dyn ServeLink>, TransportError> {
        match self {
            Newcomer::Fabric(request) => Ok(Box::new(request.accept(limit)?)),
            Newcomer::Memory(request) => Ok(Box::new(request.accept()?)),
        }
    }
}

/// Connects to a donor that has given out this token.
///
/// # Errors
/// [`TransportError`]: no such provider, nobody there, token refused.
pub fn connect(
    provider: &str,
    host: &str,
    number: u16,
    token: &Token,
    limit: Duration,
    staging: &Arc<Staging>,
) -> Result<Box<dyn Endpoint>, TransportError> {
    if provider == memory::PROVIDER {
        memory::connect(number, token, limit, staging)
    } else {
        fabric::connect(provider, host, number, token, limit, staging)
    }
}
