//! PMDK's libpmemobj, loaded at run time so that it need not be installed to build.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::Library;

use super::books::Object;
use super::store::{Footprint, Store};
use aquifer_bench::error::{Error, Result};
use aquifer_bench::workdir::c_path;

const LIBRARY: &str = "libpmemobj.so.1";
const PACKAGE: &str = "libpmemobj1";
/// The pool in units of the cap: its memory at the peak is less than four times the live bytes, and an 11th of them is live then.
const POOL: u64 = 6;
const POOL_BYTES_MIN: u64 = 64 << 20;
const LAYOUT: &CStr = c"rumble";
const MODE: libc::mode_t = 0o600;
const TYPE: u64 = 1;

/// The library's name for an object.
#[repr(C)]
#[derive(Clone, Copy)]
struct Oid {
    pool: u64,
    offset: u64,
}

type Pool = *mut c_void;
type Create = unsafe extern "C" fn(*const c_char, *const c_char, usize, libc::mode_t) -> Pool;
type Alloc = unsafe extern "C" fn(Pool, *mut Oid, usize, u64, *const c_void, *const c_void) -> c_int;
type Free = unsafe extern "C" fn(*mut Oid);
type Control = unsafe extern "C" fn(Pool, *const c_char, *mut c_void) -> c_int;
type Persist = unsafe extern "C" fn(Pool, *const c_void, usize);
type Message = unsafe extern "C" fn() -> *const c_char;

/// Objects in a pool. Memory is that of the runs in use and of huge allocations, by the library's own statistics: the pool's file has
/// all of its memory from the start.
pub struct Pmemobj {
    pool: Pool,
    pool_id: u64,
    alloc: Alloc,
    free: Free,
    get: Control,
    persist: Persist,
    _library: Library,
}

/// A function of the library.
///
/// # Safety
/// `F` is its type.
unsafe fn function<F: Copy>(library: &Library, name: &CStr) -> Result<F> {
    // SAFETY: the caller's word for the type.
    let symbol = unsafe { library.get::<F>(name.to_bytes_with_nul()) };
    let missing = |error| Error::Unavailable(format!("{LIBRARY} is not the one we know: {error}"));
    symbol.map(|symbol| *symbol).map_err(missing)
}

impl Pmemobj {
    /// A new pool in the file at `path` for `cap_bytes` of live objects.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the library is not installed or refuses.
    pub fn create(path: &Path, cap_bytes: u64) -> Result<Self> {
        // SAFETY: the library's initialisers have no requirements.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|error| {
            Error::Unavailable(format!("{LIBRARY} cannot be loaded ({error}); the package is {PACKAGE}"))
        })?;
        // SAFETY: the types are those of libpmemobj.h, here and below.
        let (create, message) = unsafe {
            (
                function::<Create>(&library, c"pmemobj_create")?,
                function::<Message>(&library, c"pmemobj_errormsg")?,
            )
        };
        let (name, bytes) = (c_path(path), (POOL * cap_bytes).max(POOL_BYTES_MIN) as usize);
        // SAFETY: terminated strings.
        let pool = unsafe { create(name.as_ptr(), LAYOUT.as_ptr(), bytes, MODE) };
        if pool.is_null() {
            // SAFETY: the library's own terminated string.
            let why = unsafe { CStr::from_ptr(message()) };
            return Err(Error::Unavailable(format!("pmemobj_create: {}", why.to_string_lossy())));
        }
        // SAFETY: as above.
        let (alloc, free, get, persist) = unsafe {
            (
                function::<Alloc>(&library, c"pmemobj_alloc")?,
                function::<Free>(&library, c"pmemobj_free")?,
                function::<Control>(&library, c"pmemobj_ctl_get")?,
                function::<Persist>(&library, c"pmemobj_persist")?,
            )
        };
        // SAFETY: as above.
        let set = unsafe { function::<Control>(&library, c"pmemobj_ctl_set")? };
        let pmemobj = Self { pool, pool_id: 0, alloc, free, get, persist, _library: library };
        pmemobj.enable_statistics(set)?;
        Ok(pmemobj)
    }

    fn enable_statistics(&self, set: Control) -> Result<()> {
        // POBJ_STATS_ENABLED_BOTH.
        let mut value: c_int = 1;
        // SAFETY: the pool is open, and the value is what this entry takes.
        match unsafe { set(self.pool, c"stats.enabled".as_ptr(), (&raw mut value).cast()) } {
            0 => Ok(()),
            code => Err(Error::Unavailable(format!("{LIBRARY} has no statistics: code {code}"))),
        }
    }

    fn statistic(&self, name: &CStr) -> Result<u64> {
        let mut value: u64 = 0;
        // SAFETY: the pool is open, and this is room for the answer.
        match unsafe { (self.get)(self.pool, name.as_ptr(), (&raw mut value).cast()) } {
            0 => Ok(value),
            code => Err(Error::Unavailable(format!("{LIBRARY} has no {name:?}: code {code}"))),
        }
    }

    fn allocate_one(&mut self, bytes: u32) -> Result<Object> {
        let mut oid = Oid { pool: 0, offset: 0 };
        let code =
            // SAFETY: the pool is open, the object's name goes to this stack, and there is no constructor.
            unsafe { (self.alloc)(self.pool, &raw mut oid, bytes as usize, TYPE, ptr::null(), ptr::null()) };
        if code != 0 {
            return Err(Error::Unavailable(format!("the pool of pmemobj has no {bytes} bytes")));
        }
        self.pool_id = oid.pool;
        let at = self.pool.wrapping_byte_add(oid.offset as usize).cast::<u8>();
        // SAFETY: `bytes` bytes of the pool were just allocated there.
        unsafe {
            ptr::write_bytes(at, bytes as u8, bytes as usize);
            (self.persist)(self.pool, at.cast(), bytes as usize);
        }
        Ok(Object { home: oid.offset, bytes })
    }
}

impl Store for Pmemobj {
    fn allocate(&mut self, sizes: &[u32], made: &mut Vec<Object>) -> Result<()> {
        for &bytes in sizes {
            made.push(self.allocate_one(bytes)?);
        }
        Ok(())
    }

    fn free(&mut self, objects: &[Object]) -> Result<()> {
        for object in objects {
            let mut oid = Oid { pool: self.pool_id, offset: object.home };
            // SAFETY: it came from this pool, and its only entry in the books was removed.
            unsafe { (self.free)(&raw mut oid) };
        }
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint> {
        let runs = self.statistic(c"stats.heap.run_active")?;
        let in_runs = self.statistic(c"stats.heap.run_allocated")?;
        let all = self.statistic(c"stats.heap.curr_allocated")?;
        // What is allocated and not in a run is in chunks of its own.
        Ok(Footprint { resident_bytes: runs + all.saturating_sub(in_runs), ..Footprint::default() })
    }
}
