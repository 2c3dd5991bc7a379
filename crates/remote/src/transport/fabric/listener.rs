//! Where borrowers connect to.

use std::ptr;
use std::time::Duration;

use super::{Served, Token, c_string, failed, ffi, milliseconds, unopened};
use crate::transport::TransportError;

/// A port at which a donor waits for borrowers.
pub struct Listener {
    listener: *mut ffi::Listener,
}

// SAFETY: one thread at a time uses it: every method that changes it takes `&mut self`, or consumes what only it gave out.
unsafe impl Send for Listener {}

impl Listener {
    /// Waits at this address. Port 0 is any that is free.
    ///
    /// # Errors
    /// [`TransportError`].
    pub fn new(provider: &str, host: &str, port: u16) -> Result<Listener, TransportError> {
        super::load()?;
        let (c_provider, c_host) = (c_string(provider, "provider")?, c_string(host, "host")?);
        let c_port = c_string(&port.to_string(), "port")?;
        let mut listener = ptr::null_mut();
        let error =
            // SAFETY: all strings live through the call.
            unsafe { ffi::aqf_listen(c_provider.as_ptr(), c_host.as_ptr(), c_port.as_ptr(), &mut listener) };
        if error != 0 {
            return Err(unopened(provider, format!("{host}:{port}"), error));
        }
        Ok(Listener { listener })
    }

    /// The port.
    ///
    /// # Errors
    /// The provider does not say.
    pub fn port(&mut self) -> Result<u16, TransportError> {
        let mut port = 0;
        // SAFETY: the listener is this value's.
        match unsafe { ffi::aqf_listener_port(self.listener, &mut port) } {
            0 => Ok(port),
            error => Err(failed("asking for the port", error)),
        }
    }

    /// Waits for somebody who wants to connect, for at most so long.
    ///
    /// # Errors
    /// The port is of no use any more. A peer without a token is refused, and counts as no request.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Request<'_>>, TransportError> {
        let (mut request, mut token) = (ptr::null_mut(), Token::default());
        // SAFETY: the token has its length.
        let error = unsafe {
            ffi::aqf_next_request(self.listener, milliseconds(limit), &mut request, token.as_mut_ptr())
        };
        match -error {
            0 => Ok(Some(Request { listener: self, request, token })),
            libc::EAGAIN | libc::EPROTO | libc::ECONNABORTED => Ok(None),
            _ => Err(failed("waiting for borrowers", error)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // SAFETY: requests borrow the value, so none is left.
        unsafe { ffi::aqf_listener_close(self.listener) };
    }
}

/// Somebody who wants to connect. Refused when it is dropped.
pub struct Request<'a> {
    listener: &'a mut Listener,
    request: *mut ffi::Request,
    token: Token,
}

impl Request<'_> {
    /// What it shows.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Lets it in.
    ///
    /// # Errors
    /// It did not come after all.
    pub fn accept(self, limit: Duration) -> Result<Served, TransportError> {
        let (listener, request) = (self.listener.listener, self.request);
        std::mem::forget(self);
        let mut link = ptr::null_mut();
        // SAFETY: the request is the listener's, and ends here.
        match unsafe { ffi::aqf_accept(listener, request, milliseconds(limit), &mut link) } {
            0 => Ok(Served::new(link)),
            error => Err(failed("accepting a borrower", error)),
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        // SAFETY: the request is the listener's, and ends here.
        unsafe { ffi::aqf_reject(self.listener.listener, self.request) };
    }
}
