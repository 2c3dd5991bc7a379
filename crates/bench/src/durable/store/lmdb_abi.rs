//! The part of lmdb.h that is measured, loaded at run time so that it need not be installed to build.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;

use libloading::Library;

use crate::error::{Error, Result};

const LIBRARY: &str = "liblmdb.so.0";

/// `MDB_NOSUBDIR`: the path is the data file.
pub const NO_SUBDIRECTORY: c_uint = 0x4000;
/// `MDB_NOSYNC`.
pub const NO_SYNC: c_uint = 0x10000;
/// `MDB_WRITEMAP`.
pub const WRITE_MAP: c_uint = 0x80000;
/// `MDB_RDONLY`.
pub const READ_ONLY: c_uint = 0x20000;
/// `MDB_INTEGERKEY`.
pub const INTEGER_KEY: c_uint = 0x08;
/// `MDB_NOTFOUND`.
pub const NOT_FOUND: c_int = -30798;

/// `MDB_env`.
pub type Environment = *mut c_void;
/// `MDB_txn`.
pub type TransactionPointer = *mut c_void;
/// `MDB_dbi`.
pub type DatabaseId = c_uint;

/// `MDB_val`.
#[repr(C)]
#[derive(Debug)]
pub struct Value {
    /// Its length.
    pub bytes: usize,
    /// Where it begins.
    pub data: *mut c_void,
}

type Access = unsafe extern "C" fn(TransactionPointer, DatabaseId, *mut Value, *mut Value) -> c_int;
type Put = unsafe extern "C" fn(TransactionPointer, DatabaseId, *mut Value, *mut Value, c_uint) -> c_int;
type Begin = unsafe extern "C" fn(Environment, TransactionPointer, c_uint, *mut TransactionPointer) -> c_int;

/// The functions of the library.
pub struct Api {
    /// `mdb_env_create`.
    pub env_create: unsafe extern "C" fn(*mut Environment) -> c_int,
    /// `mdb_env_set_mapsize`.
    pub env_set_mapsize: unsafe extern "C" fn(Environment, usize) -> c_int,
    /// `mdb_env_open`.
    pub env_open: unsafe extern "C" fn(Environment, *const c_char, c_uint, c_uint) -> c_int,
    /// `mdb_env_close`.
    pub env_close: unsafe extern "C" fn(Environment),
    /// `mdb_txn_begin`.
    pub txn_begin: Begin,
    /// `mdb_txn_commit`.
    pub txn_commit: unsafe extern "C" fn(TransactionPointer) -> c_int,
    /// `mdb_txn_abort`.
    pub txn_abort: unsafe extern "C" fn(TransactionPointer),
    /// `mdb_dbi_open`.
    pub dbi_open: unsafe extern "C" fn(TransactionPointer, *const c_char, c_uint, *mut DatabaseId) -> c_int,
    /// `mdb_get`.
    pub get: Access,
    /// `mdb_put`.
    pub put: Put,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    // Unloading would pull the environment's functions out from under the program.
    _library: ManuallyDrop<Library>,
}

impl Api {
    /// Loads the library.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it is not there or lacks a function.
    pub fn load() -> Result<Self> {
        // SAFETY: the library has no initialisers.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|error| {
            Error::Unavailable(format!("{LIBRARY} cannot be loaded ({error}); install liblmdb0"))
        })?;
        let missing = |error| Error::Unavailable(format!("{LIBRARY} is not the LMDB we know: {error}"));
        // SAFETY: the signatures are those of lmdb.h.
        unsafe {
            Ok(Self {
                env_create: *library.get(b"mdb_env_create\0").map_err(missing)?,
                env_set_mapsize: *library.get(b"mdb_env_set_mapsize\0").map_err(missing)?,
                env_open: *library.get(b"mdb_env_open\0").map_err(missing)?,
                env_close: *library.get(b"mdb_env_close\0").map_err(missing)?,
                txn_begin: *library.get(b"mdb_txn_begin\0").map_err(missing)?,
                txn_commit: *library.get(b"mdb_txn_commit\0").map_err(missing)?,
                txn_abort: *library.get(b"mdb_txn_abort\0").map_err(missing)?,
                dbi_open: *library.get(b"mdb_dbi_open\0").map_err(missing)?,
                get: *library.get(b"mdb_get\0").map_err(missing)?,
                put: *library.get(b"mdb_put\0").map_err(missing)?,
                strerror: *library.get(b"mdb_strerror\0").map_err(missing)?,
                _library: ManuallyDrop::new(library),
            })
        }
    }

    /// The library's words for a code.
    pub fn message(&self, code: c_int) -> String {
        // SAFETY: the library returns a terminated string for every code.
        unsafe { CStr::from_ptr((self.strerror)(code)).to_string_lossy().into_owned() }
    }
}
