//! What stands for libfabric in builds without it: everything says so.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::{Endpoint, Place, ServeLink, Staging, TransportError};

/// Whether this build has the calls of libfabric.
pub const IS_BUILT: bool = false;

/// The provider that every machine has.
pub const PROVIDER: &str = "tcp";

/// Bytes that a borrower shows when it connects.
pub type Token = [u8; 32];

/// Version of the library: major, minor.
///
/// # Errors
/// Always.
pub fn version() -> Result<(u32, u32), TransportError> {
    Err(TransportError::NotBuilt)
}

/// Providers that can connect a donor and a borrower.
///
/// # Errors
/// Always.
pub fn providers() -> Result<Vec<String>, TransportError> {
    Err(TransportError::NotBuilt)
}

/// Connects to a donor.
///
/// # Errors
/// Always.
pub fn connect(
    _provider: &str,
    _host: &str,
    _port: u16,
    _token: &Token,
    _limit: Duration,
    _staging: &Arc<Staging>,
) -> Result<Box<dyn Endpoint>, TransportError> {
    Err(TransportError::NotBuilt)
}

/// A port at which a donor waits for borrowers: there is none.
pub struct Listener(Infallible);

impl Listener {
    /// Waits at this address.
    ///
    /// # Errors
    /// Always.
    pub fn new(_provider: &str, _host: &str, _port: u16) -> Result<Listener, TransportError> {
        Err(TransportError::NotBuilt)
    }

    /// The port.
    ///
    /// # Errors
    /// None.
    pub fn port(&mut self) -> Result<u16, TransportError> {
        match self.0 {}
    }

    /// Waits for somebody who wants to connect.
    ///
    /// # Errors
    /// None.
    pub fn next(&mut self, _limit: Duration) -> Result<Option<Request<'_>>, TransportError> {
        match self.0 {}
    }
}

/// Somebody who wants to connect: nobody.
pub struct Request<'a>(Infallible, PhantomData<&'a mut Listener>);

impl Request<'_> {
    /// What it shows.
    #[must_use]
    pub fn token(&self) -> &Token {
        match self.0 {}
    }

    /// Lets it in.
    ///
    /// # Errors
    /// None.
    pub fn accept(self, _limit: Duration) -> Result<Served, TransportError> {
        match self.0 {}
    }
}

/// A borrower's connection: there is none.
pub struct Served(Infallible);

impl ServeLink for Served {
    fn provider(&self) -> &str {
        match self.0 {}
    }

    fn lend(&mut self, _memory: &Arc<Staging>, _key: u64) -> Result<Place, TransportError> {
        match self.0 {}
    }

    fn take_back(&mut self, _place: Place) -> Result<bool, TransportError> {
        match self.0 {}
    }

    fn look(&mut self, _limit: Duration) -> bool {
        match self.0 {}
    }

    fn serve(&mut self, _limit: Duration) -> bool {
        match self.0 {}
    }
}
