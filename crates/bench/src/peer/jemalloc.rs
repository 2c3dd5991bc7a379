//! Memory of another allocator, preloaded, under kernel swap: what a program has that was not changed.

use std::ptr::NonNull;

use crate::error::{Error, Result};
use crate::objects::Objects;
use crate::peer::{Peer, Setup};

/// In the environment of the process in which [`Jemalloc::open`] is called.
pub const ENVIRONMENT: &[(&str, &str)] = &[("LD_PRELOAD", "libjemalloc.so.2")];

/// Objects in one block of `calloc`.
#[derive(Debug)]
pub struct Jemalloc {
    base: NonNull<u8>,
    object_bytes: usize,
    count: u64,
}

impl Jemalloc {
    /// Allocates the objects.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if jemalloc is not preloaded, or has no memory.
    pub fn open(setup: &Setup) -> Result<Self> {
        let missing = |what: &str| Error::Unavailable(what.to_owned());
        // SAFETY: a plain question about a symbol of this process.
        if unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallctl".as_ptr()) }.is_null() {
            return Err(missing("libjemalloc.so.2 is not there; install libjemalloc2"));
        }
        let (count, object_bytes) = (setup.objects(), setup.object_bytes as usize);
        // SAFETY: a plain call.
        let base = NonNull::new(unsafe { libc::calloc(count as usize, object_bytes) }.cast::<u8>());
        Ok(Self { base: base.ok_or_else(|| missing("jemalloc has no memory"))?, object_bytes, count })
    }
}

impl Peer for Jemalloc {
    fn objects(&self) -> Objects<'_> {
        // SAFETY: the block has `count` objects and is freed after every view of it.
        unsafe { Objects::new(self.base, self.object_bytes, self.object_bytes, self.count) }
    }
}

impl Drop for Jemalloc {
    fn drop(&mut self) {
        // SAFETY: from `calloc`, and views of it borrow this.
        unsafe { libc::free(self.base.as_ptr().cast()) };
    }
}
