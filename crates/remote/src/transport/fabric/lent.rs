//! The donor's end.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{failed, ffi, milliseconds};
use crate::transport::{Place, ServeLink, Staging, TransportError};

/// Memory that a borrower reads and writes.
struct Lent {
    region: *mut ffi::Region,
    /// Stays until nobody can reach it.
    memory: Arc<Staging>,
}

/// Slabs that one connection may have given back before it has to begin anew: each keeps its addresses.
const RETIRED_MAX: usize = 4096;

/// A borrower's connection. One thread serves it: over TCP the provider needs it to move transfers on.
pub struct Served {
    link: *mut ffi::Link,
    lent: Vec<Lent>,
    /// Memory that was taken back, and that a transfer which had begun before may still reach: a key is looked at once for each, when its first bytes come. Nobody
    /// else has it before the connection is closed; it is empty but for what that transfer brings.
    retired: Vec<Arc<Staging>>,
}

// SAFETY: one thread at a time uses it: every method that does more than look takes `&mut self`.
unsafe impl Send for Served {}

impl Served {
    pub(super) fn new(link: *mut ffi::Link) -> Served {
        Served { link, lent: Vec::new(), retired: Vec::new() }
    }

    fn poll(&mut self, limit: Duration) -> c_int {
        let mut ended = [ffi::Completion::default(); 8];
        // SAFETY: the array has room for as many as are asked for.
        unsafe { ffi::aqf_poll(self.link, ended.as_mut_ptr(), ended.len() as c_int, milliseconds(limit)) }
    }

    /// Whether nobody reaches memory whose key is withdrawn: adapters look at keys for each packet, the provider over TCP does not.
    fn keys_die(&self) -> bool {
        self.provider().starts_with("verbs")
    }

    fn is_there(&mut self) -> bool {
        // SAFETY: the link is this value's.
        unsafe { ffi::aqf_link_is_down(self.link) == 0 }
    }
}

impl ServeLink for Served {
    fn provider(&self) -> &str {
        // SAFETY: a string that lives as long as the link.
        unsafe { CStr::from_ptr(ffi::aqf_link_provider(self.link)) }.to_str().unwrap_or("unnamed")
    }

    fn lend(&mut self, memory: &Arc<Staging>, key: u64) -> Result<Place, TransportError> {
        let mut region = ptr::null_mut();
        let error =
            // SAFETY: the memory is kept with the region.
            unsafe { ffi::aqf_register(self.link, memory.base().cast(), memory.len(), 1, key, &mut region) };
        if error != 0 {
            return Err(failed("registering a slab", error));
        }
        if !self.keys_die() {
            memory.note_given_out();
        }
        self.lent.push(Lent { region, memory: Arc::clone(memory) });
        // SAFETY: the region was just made.
        let place = unsafe { ffi::aqf_region_place(region) };
        Ok(Place { address: place.address, key: place.key })
    }

    fn take_back(&mut self, place: Place) -> Result<bool, TransportError> {
        // SAFETY: regions are released where they leave the list.
        let is_it = |lent: &Lent| unsafe { ffi::aqf_region_place(lent.region) }.key == place.key;
        let Some(nth) = self.lent.iter().position(is_it) else { return Ok(false) };
        let lent = self.lent.swap_remove(nth);
        // SAFETY: it has left the list.
        let error = unsafe { ffi::aqf_release(lent.region) };
        if error != 0 || !self.keys_die() {
            self.retired.push(lent.memory);
            // One transfer at a time is under way to here, so no more than one of them has got RAM again.
            self.retired.iter().for_each(|memory| memory.empty());
        }
        match error {
            0 if self.retired.len() < RETIRED_MAX => Ok(true),
            0 => Err(failed("taking more slabs back", -libc::EMFILE)),
            error => Err(failed("taking a slab back", error)),
        }
    }

    fn look(&mut self, limit: Duration) -> bool {
        /// Looks between two looks at the clock and at the connection, which are system calls.
        const LOOKS: u32 = 64;
        let until = Instant::now() + limit;
        loop {
            for _ in 0..LOOKS {
                if self.poll(Duration::ZERO) < 0 {
                    return false;
                }
            }
            if !self.is_there() {
                return false;
            }
            if Instant::now() >= until {
                return true;
            }
        }
    }

    fn serve(&mut self, limit: Duration) -> bool {
        self.poll(limit) >= 0 && self.is_there()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // SAFETY: nobody else has the value; the memory that was lent goes after the link.
        unsafe { ffi::aqf_link_close(self.link) };
    }
}
