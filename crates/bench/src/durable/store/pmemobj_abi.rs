//! The part of libpmemobj.h that is measured, loaded at run time so that it need not be installed to build.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::Library;

use crate::error::{Error, Result};
use crate::workdir::c_path;

const LIBRARY: &str = "libpmemobj.so.1";
/// What the library must be told before it is loaded: that flushing the processor's caches makes the bytes of any file durable.
const FORCE_VARIABLE: &str = "PMEM_IS_PMEM_FORCE";
/// Permissions of a pool's file.
const MODE: c_uint = 0o600;

/// `PMEMobjpool`. Its address is that of the mapped pool.
pub type PoolPointer = *mut c_void;

/// `PMEMoid`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Oid {
    /// Which pool.
    pub pool: u64,
    /// Bytes from its start; 0 for no object.
    pub offset: u64,
}

/// `struct pobj_action`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Action {
    kind: c_int,
    data: [u32; 3],
    data2: [u64; 14],
}

/// `TX_PARAM_NONE`.
pub const NO_PARAMETERS: c_int = 0;
/// `TX_STAGE_WORK`.
pub const STAGE_WORK: c_int = 1;

/// The functions of the library.
pub struct Api {
    create: unsafe extern "C" fn(*const c_char, *const c_char, usize, c_uint) -> PoolPointer,
    /// `pmemobj_close`.
    pub close: unsafe extern "C" fn(PoolPointer),
    /// `pmemobj_root`.
    pub root: unsafe extern "C" fn(PoolPointer, usize) -> Oid,
    /// `pmemobj_zalloc`.
    pub zalloc: unsafe extern "C" fn(PoolPointer, *mut Oid, usize, u64) -> c_int,
    /// `pmemobj_persist`.
    pub persist: unsafe extern "C" fn(PoolPointer, *const c_void, usize),
    /// `pmemobj_tx_begin`; the second is a `jmp_buf` or NULL.
    pub tx_begin: unsafe extern "C" fn(PoolPointer, *mut c_void, ...) -> c_int,
    /// `pmemobj_tx_add_range_direct`.
    pub tx_add_range_direct: unsafe extern "C" fn(*const c_void, usize) -> c_int,
    /// `pmemobj_tx_zalloc`.
    pub tx_zalloc: unsafe extern "C" fn(usize, u64) -> Oid,
    /// `pmemobj_tx_free`.
    pub tx_free: unsafe extern "C" fn(Oid) -> c_int,
    /// `pmemobj_tx_stage`.
    pub tx_stage: unsafe extern "C" fn() -> c_int,
    /// `pmemobj_tx_abort`.
    pub tx_abort: unsafe extern "C" fn(c_int),
    /// `pmemobj_tx_commit`.
    pub tx_commit: unsafe extern "C" fn(),
    /// `pmemobj_tx_end`.
    pub tx_end: unsafe extern "C" fn() -> c_int,
    /// `pmemobj_reserve`.
    pub reserve: unsafe extern "C" fn(PoolPointer, *mut Action, usize, u64) -> Oid,
    /// `pmemobj_set_value`.
    pub set_value: unsafe extern "C" fn(PoolPointer, *mut Action, *mut u64, u64),
    /// `pmemobj_publish`.
    pub publish: unsafe extern "C" fn(PoolPointer, *mut Action, usize) -> c_int,
    error_message: unsafe extern "C" fn() -> *const c_char,
    // Unloading would pull the pool's functions out from under the program.
    _library: ManuallyDrop<Library>,
}

impl Api {
    /// Loads the library. Called once in a process, before it has other threads.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it is not there or lacks a function.
    pub fn load(is_memory: bool) -> Result<Self> {
        if is_memory {
            // SAFETY: no other thread reads the environment meanwhile, as the caller sees to.
            unsafe { std::env::set_var(FORCE_VARIABLE, "1") };
        }
        // SAFETY: the library's initialisers have no requirements.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|error| {
            Error::Unavailable(format!("{LIBRARY} cannot be loaded ({error}); install libpmemobj1"))
        })?;
        let missing = |error| Error::Unavailable(format!("{LIBRARY} is not the libpmemobj we know: {error}"));
        // SAFETY: the signatures are those of libpmemobj.h.
        unsafe {
            Ok(Self {
                create: *library.get(b"pmemobj_create\0").map_err(missing)?,
                close: *library.get(b"pmemobj_close\0").map_err(missing)?,
                root: *library.get(b"pmemobj_root\0").map_err(missing)?,
                zalloc: *library.get(b"pmemobj_zalloc\0").map_err(missing)?,
                persist: *library.get(b"pmemobj_persist\0").map_err(missing)?,
                tx_begin: *library.get(b"pmemobj_tx_begin\0").map_err(missing)?,
                tx_add_range_direct: *library.get(b"pmemobj_tx_add_range_direct\0").map_err(missing)?,
                tx_zalloc: *library.get(b"pmemobj_tx_zalloc\0").map_err(missing)?,
                tx_free: *library.get(b"pmemobj_tx_free\0").map_err(missing)?,
                tx_stage: *library.get(b"pmemobj_tx_stage\0").map_err(missing)?,
                tx_abort: *library.get(b"pmemobj_tx_abort\0").map_err(missing)?,
                tx_commit: *library.get(b"pmemobj_tx_commit\0").map_err(missing)?,
                tx_end: *library.get(b"pmemobj_tx_end\0").map_err(missing)?,
                reserve: *library.get(b"pmemobj_reserve\0").map_err(missing)?,
                set_value: *library.get(b"pmemobj_set_value\0").map_err(missing)?,
                publish: *library.get(b"pmemobj_publish\0").map_err(missing)?,
                error_message: *library.get(b"pmemobj_errormsg\0").map_err(missing)?,
                _library: ManuallyDrop::new(library),
            })
        }
    }

    /// Makes a pool in a new file.
    ///
    /// # Errors
    /// [`Error::Io`] with the library's reason.
    pub fn create(&self, path: &Path, bytes: u64) -> Result<PoolPointer> {
        let name = c_path(path);
        // SAFETY: terminated strings; the result is looked at.
        let pool = unsafe { (self.create)(name.as_ptr(), c"aquifer-bench".as_ptr(), bytes as usize, MODE) };
        if pool.is_null() {
            return Err(super::failed("creating", path, self.message()));
        }
        Ok(pool)
    }

    /// The library's sentence about the calling thread's last failure.
    pub fn message(&self) -> String {
        // SAFETY: the library returns a terminated string, valid until the next call, or NULL.
        unsafe {
            let message = (self.error_message)();
            if message.is_null() {
                return "failed without a message".to_owned();
            }
            CStr::from_ptr(message).to_string_lossy().into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<Oid>(), size_of::<Action>(), align_of::<Action>()), (16, 128, 8));
    }
}
