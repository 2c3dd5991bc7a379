//! memkind's file-backed allocator, loaded at run time so that it need not be installed to build.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use dlopen2::wrapper::{Container, WrapperApi};

use crate::error::{Error, Result};
use crate::objects::Objects;
use crate::peer::{Peer, Setup, load_library};
use crate::workdir::c_path;

const LIBRARY: &str = "libmemkind.so.0";
const PAGE_BYTES: usize = 4096;

type Kind = *mut c_void;

/// The functions of memkind.h that are used.
#[derive(WrapperApi)]
struct Api {
    memkind_create_pmem: unsafe extern "C" fn(dir: *const c_char, bytes: usize, kind: *mut Kind) -> c_int,
    memkind_posix_memalign:
        unsafe extern "C" fn(kind: Kind, array: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int,
}

/// One large allocation of memkind's on an unlinked file in the benchmark's directory.
pub struct Memkind {
    array: NonNull<u8>,
    bytes: usize,
    object_bytes: usize,
    count: u64,
    // The allocation lives in the library's mapping until the process ends.
    _library: Container<Api>,
}

impl Memkind {
    /// Creates the kind and allocates the array. With `random` the kernel is told that accesses to
    /// it are random, which memkind itself does not do.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the library is not installed or refuses.
    pub fn open(setup: &Setup, random: bool) -> Result<Self> {
        // SAFETY: the library's initialisers have no requirements, and the signatures are those of memkind.h.
        let library = unsafe { load_library(LIBRARY, "libmemkind0") }?;
        let bytes = setup.data_bytes as usize;
        let array = allocate(&library, setup, bytes)?;
        if random {
            advise_random(array, bytes)?;
        }
        let object_bytes = setup.object_bytes as usize;
        Ok(Self { array, bytes, object_bytes, count: setup.objects(), _library: library })
    }
}

fn allocate(library: &Api, setup: &Setup, bytes: usize) -> Result<NonNull<u8>> {
    let dir = c_path(&setup.dir);
    let refused = |what, code| Error::Unavailable(format!("{what} failed with code {code}"));
    let mut kind = ptr::null_mut();
    // SAFETY: a terminated string and a place for the result; size 0 means no limit.
    let code = unsafe { library.memkind_create_pmem(dir.as_ptr(), 0, &mut kind) };
    if code != 0 {
        return Err(refused("memkind_create_pmem", code));
    }
    let mut array = ptr::null_mut();
    // SAFETY: `kind` was just created; a place for the result.
    let code = unsafe { library.memkind_posix_memalign(kind, &mut array, PAGE_BYTES, bytes) };
    NonNull::new(array.cast()).filter(|_| code == 0).ok_or_else(|| refused("memkind_posix_memalign", code))
}

fn advise_random(array: NonNull<u8>, bytes: usize) -> Result<()> {
    // SAFETY: the range is a live allocation, and this advice leaves its contents alone.
    match unsafe { libc::madvise(array.as_ptr().cast(), bytes, libc::MADV_RANDOM) } {
        0 => Ok(()),
        _ => Err(Error::last_os("advising", "memkind's mapping")),
    }
}

impl Peer for Memkind {
    fn objects(&self) -> Objects<'_> {
        // SAFETY: the allocation holds `count` objects and is never freed; nothing else uses it.
        unsafe { Objects::new(self.array, self.object_bytes, self.object_bytes, self.count) }
    }

    fn quiesce(&self) {
        // SAFETY: the range is mapped and begins at a page. A failure only delays the writes.
        unsafe { libc::msync(self.array.as_ptr().cast(), self.bytes, libc::MS_SYNC) };
    }
}
