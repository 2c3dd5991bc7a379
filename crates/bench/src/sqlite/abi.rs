//! The part of sqlite3.h that is needed, loaded at run time so that it need not be installed to build.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;

use libloading::Library;

use crate::error::{Error, Result};

const LIBRARY: &str = "libsqlite3.so.0";

/// `SQLITE_OK`.
pub const OK: c_int = 0;
/// `SQLITE_ROW`.
pub const ROW: c_int = 100;
/// `SQLITE_DONE`.
pub const DONE: c_int = 101;
/// `SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE`.
pub const OPEN_OR_CREATE: c_int = 0x2 | 0x4;
/// `SQLITE_OPEN_URI`: the name is a URI with parameters.
pub const OPEN_URI: c_int = 0x40;
/// `SQLITE_TRANSIENT`: the library copies the bytes before it returns.
pub const TRANSIENT: isize = -1;
/// `SQLITE_DBSTATUS_CACHE_USED`.
pub const CACHE_USED: c_int = 1;
/// `SQLITE_DBSTATUS_CACHE_HIT`.
pub const CACHE_HIT: c_int = 7;
/// `SQLITE_DBSTATUS_CACHE_MISS`.
pub const CACHE_MISS: c_int = 8;

/// `sqlite3 *`.
pub type Handle = *mut c_void;
/// `sqlite3_stmt *`.
pub type StatementPointer = *mut c_void;

type Open = unsafe extern "C" fn(*const c_char, *mut Handle, c_int, *const c_char) -> c_int;
type Exec =
    unsafe extern "C" fn(Handle, *const c_char, *const c_void, *mut c_void, *mut *mut c_char) -> c_int;
type Prepare =
    unsafe extern "C" fn(Handle, *const c_char, c_int, *mut StatementPointer, *mut *const c_char) -> c_int;
type BindText = unsafe extern "C" fn(StatementPointer, c_int, *const c_char, c_int, isize) -> c_int;
type LoadExtension = unsafe extern "C" fn(Handle, *const c_char, *const c_char, *mut *mut c_char) -> c_int;
type Status = unsafe extern "C" fn(Handle, c_int, *mut c_int, *mut c_int, c_int) -> c_int;

/// The functions of the library.
pub struct Api {
    /// `sqlite3_open_v2`.
    pub open: Open,
    /// `sqlite3_close_v2`.
    pub close: unsafe extern "C" fn(Handle) -> c_int,
    /// `sqlite3_exec`.
    pub exec: Exec,
    /// `sqlite3_prepare_v2`.
    pub prepare: Prepare,
    /// `sqlite3_bind_int64`.
    pub bind_int: unsafe extern "C" fn(StatementPointer, c_int, i64) -> c_int,
    /// `sqlite3_bind_text`, whose last argument is a function or [`TRANSIENT`].
    pub bind_text: BindText,
    /// `sqlite3_step`.
    pub step: unsafe extern "C" fn(StatementPointer) -> c_int,
    /// `sqlite3_column_int64`.
    pub column_int: unsafe extern "C" fn(StatementPointer, c_int) -> i64,
    /// `sqlite3_column_text`.
    pub column_text: unsafe extern "C" fn(StatementPointer, c_int) -> *const c_char,
    /// `sqlite3_column_bytes`.
    pub column_bytes: unsafe extern "C" fn(StatementPointer, c_int) -> c_int,
    /// `sqlite3_reset`.
    pub reset: unsafe extern "C" fn(StatementPointer) -> c_int,
    /// `sqlite3_finalize`.
    pub finalize: unsafe extern "C" fn(StatementPointer) -> c_int,
    /// `sqlite3_enable_load_extension`; not in every build.
    pub enable_extensions: Option<unsafe extern "C" fn(Handle, c_int) -> c_int>,
    /// `sqlite3_load_extension`; not in every build.
    pub load_extension: Option<LoadExtension>,
    /// `sqlite3_db_status`.
    pub status: Status,
    errmsg: unsafe extern "C" fn(Handle) -> *const c_char,
    libversion: unsafe extern "C" fn() -> *const c_char,
    // Unloading would pull the functions out from under open connections.
    _library: ManuallyDrop<Library>,
}

impl Api {
    /// Loads the library.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it is not there or lacks a function.
    pub fn load() -> Result<Self> {
        // SAFETY: the library has no initialisers that could do harm.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|error| {
            Error::Unavailable(format!(
                "{LIBRARY} cannot be loaded ({error}); install it: apt-get install libsqlite3-0"
            ))
        })?;
        let missing = |error| Error::Unavailable(format!("{LIBRARY} is not the SQLite we know: {error}"));
        // SAFETY: the signatures are those of sqlite3.h; TRANSIENT stands for a pointer of the same size.
        unsafe {
            Ok(Self {
                open: *library.get(b"sqlite3_open_v2\0").map_err(missing)?,
                close: *library.get(b"sqlite3_close_v2\0").map_err(missing)?,
                exec: *library.get(b"sqlite3_exec\0").map_err(missing)?,
                prepare: *library.get(b"sqlite3_prepare_v2\0").map_err(missing)?,
                bind_int: *library.get(b"sqlite3_bind_int64\0").map_err(missing)?,
                bind_text: *library.get(b"sqlite3_bind_text\0").map_err(missing)?,
                step: *library.get(b"sqlite3_step\0").map_err(missing)?,
                column_int: *library.get(b"sqlite3_column_int64\0").map_err(missing)?,
                column_text: *library.get(b"sqlite3_column_text\0").map_err(missing)?,
                column_bytes: *library.get(b"sqlite3_column_bytes\0").map_err(missing)?,
                reset: *library.get(b"sqlite3_reset\0").map_err(missing)?,
                finalize: *library.get(b"sqlite3_finalize\0").map_err(missing)?,
                enable_extensions: library.get(b"sqlite3_enable_load_extension\0").map(|found| *found).ok(),
                load_extension: library.get(b"sqlite3_load_extension\0").map(|found| *found).ok(),
                status: *library.get(b"sqlite3_db_status\0").map_err(missing)?,
                errmsg: *library.get(b"sqlite3_errmsg\0").map_err(missing)?,
                libversion: *library.get(b"sqlite3_libversion\0").map_err(missing)?,
                _library: ManuallyDrop::new(library),
            })
        }
    }

    /// What went wrong last on a connection.
    pub fn message(&self, handle: Handle) -> String {
        // SAFETY: the library returns a terminated string for every connection, and for none.
        unsafe { CStr::from_ptr((self.errmsg)(handle)).to_string_lossy().into_owned() }
    }

    /// The library's version, as in `3.40.1`.
    pub fn version(&self) -> String {
        // SAFETY: a constant, terminated string.
        unsafe { CStr::from_ptr((self.libversion)()).to_string_lossy().into_owned() }
    }
}
