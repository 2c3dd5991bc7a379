//! The borrower's end.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::descriptors::Descriptors;
use super::{Token, c_string, explain, failed, ffi, milliseconds, unopened};
use crate::transport::{Completion, Direction, Endpoint, PostError, Staging, Transfer, TransportError};
use crate::words::Words;

/// Completions taken at once.
const COMPLETIONS: usize = 32;

/// Connects to a donor that has given out this token.
///
/// # Errors
/// [`TransportError`]: no such provider, nobody there, token refused.
pub fn connect(
    provider: &str,
    host: &str,
    port: u16,
    token: &Token,
    limit: Duration,
    staging: &Arc<Staging>,
) -> Result<Box<dyn Endpoint>, TransportError> {
    super::load()?;
    let (c_provider, c_host) = (c_string(provider, "provider")?, c_string(host, "host")?);
    let c_port = c_string(&port.to_string(), "port")?;
    let mut link = ptr::null_mut();
    let (error, descriptors) = Descriptors::of(port, || {
        // SAFETY: all strings live through the call, the token has its length.
        unsafe {
            ffi::aqf_connect(
                c_provider.as_ptr(),
                c_host.as_ptr(),
                c_port.as_ptr(),
                token.as_ptr(),
                milliseconds(limit),
                &mut link,
            )
        }
    });
    if error != 0 {
        return Err(unopened(provider, format!("{host}:{port}"), error));
    }
    let mut made = Borrowed { link, region: ptr::null_mut(), staging: Arc::clone(staging), descriptors };
    let error =
        // SAFETY: the memory is kept by the endpoint until after it is closed.
        unsafe { ffi::aqf_register(link, staging.base().cast(), staging.len(), 0, 0, &mut made.region) };
    if error != 0 {
        return Err(failed("registering memory for transfers", error));
    }
    Ok(Box::new(made))
}

struct Borrowed {
    link: *mut ffi::Link,
    /// The staging memory.
    region: *mut ffi::Region,
    staging: Arc<Staging>,
    descriptors: Descriptors,
}

// SAFETY: posting and polling are for any thread (fabric.h); the drop has the value for itself.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Endpoint for Borrowed {
    fn provider(&self) -> &str {
        // SAFETY: a string that lives as long as the link.
        let name = unsafe { CStr::from_ptr(ffi::aqf_link_provider(self.link)) };
        name.to_str().unwrap_or("unnamed")
    }

    unsafe fn post(&self, transfer: &Transfer) -> Result<(), PostError> {
        let (start, len, tag) =
            (self.staging.start(transfer.part), transfer.part.len, u64::from(transfer.tag));
        let place = ffi::Place { address: transfer.place.address, key: transfer.place.key };
        let error = match transfer.direction {
            // SAFETY: the part is within the registered memory, and nobody else's by the caller's promise.
            Direction::Read => unsafe {
                ffi::aqf_read(self.link, start.cast(), len, self.region, place, tag)
            },
            // SAFETY: as above.
            Direction::Write => unsafe {
                ffi::aqf_write(self.link, start.cast(), len, self.region, place, tag)
            },
        };
        match error {
            0 => Ok(()),
            error if error == -libc::EAGAIN => Err(PostError::Busy),
            error => Err(PostError::Failed(error)),
        }
    }

    fn poll(&self, completions: &mut [Completion], limit: Duration) -> Result<usize, i32> {
        let mut ended = [ffi::Completion::default(); COMPLETIONS];
        let max = completions.len().min(COMPLETIONS) as c_int;
        // SAFETY: the array has room for `max`.
        let got = unsafe { ffi::aqf_poll(self.link, ended.as_mut_ptr(), max, milliseconds(limit)) };
        let got = usize::try_from(got).map_err(|_| got)?;
        for (to, from) in completions.iter_mut().zip(&ended[..got]) {
            // Tags were given to `post` as 32 bits.
            *to = Completion { tag: from.tag as u32, error: from.error };
        }
        Ok(got)
    }

    fn explain(&self, error: i32) -> Words {
        explain(error)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.descriptors.forget();
        // SAFETY: nobody else has the value; the memory goes after the link.
        unsafe { ffi::aqf_link_close(self.link) };
    }
}
