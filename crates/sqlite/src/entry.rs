//! How SQLite comes to know the VFS.
//!
//! As an extension, it is one VFS among others, named `aquifer`. If the library is preloaded, its `sqlite3_open` stands in front of SQLite's, and the
//! first call makes the VFS the default one; not earlier, because programs configure SQLite before they use it.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::api::{self, Routines, api};
use crate::codes;
use crate::host;
use crate::raw::Vfs;
use crate::vfs::vfs_over;

/// The VFS as it was registered.
struct Registered {
    vfs: *mut Vfs,
    host: *mut Vfs,
    /// Whether it is to be the default one.
    is_default: bool,
}

// SAFETY: only SQLite changes what is behind the pointers, under its own lock.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

static REGISTERED: OnceLock<Registered> = OnceLock::new();

/// Registers the VFS, once. The functions of SQLite are known.
fn register(is_default: bool) -> &'static Registered {
    REGISTERED.get_or_init(|| {
        // SAFETY: NULL asks for the default VFS.
        let host = unsafe { (api().vfs_find)(std::ptr::null()) };
        assert!(!host.is_null(), "SQLite has no VFS");
        host::set(host);
        let vfs = Box::into_raw(Box::new(vfs_over(host::host().1)));
        // SAFETY: the structure is complete and is never freed.
        unsafe { (api().vfs_register)(vfs, is_default.into()) };
        Registered { vfs, host, is_default }
    })
}

type Malloc = unsafe extern "C" fn(c_int) -> *mut c_void;

/// Leaves a text for SQLite, in memory of its own.
///
/// # Safety
/// `place` is NULL or takes a pointer; `malloc` is SQLite's.
unsafe fn explain(text: &CString, malloc: Option<Malloc>, place: *mut *mut c_char) {
    let bytes = text.as_bytes_with_nul();
    let Some(malloc) = malloc.filter(|_| !place.is_null()) else { return };
    // SAFETY: the block has as many bytes as are copied.
    unsafe {
        let copy = malloc(bytes.len() as c_int).cast::<c_char>();
        if !copy.is_null() {
            copy.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        }
        place.write(copy);
    }
}

/// The entry point of the extension. Without a table of functions, those of the program are used.
///
/// # Safety
/// `message` is NULL or takes a pointer; `table` is NULL or what SQLite gives to extensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_aquifersqlite_init(
    _database: *mut c_void,
    message: *mut *mut c_char,
    table: *const Routines,
) -> c_int {
    // SAFETY: the caller's word.
    let found = unsafe { if table.is_null() { api::of_program() } else { api::of_table(table) } };
    match found {
        Ok(()) => {
            register(false);
            codes::OK_LOAD_PERMANENTLY
        }
        Err(text) => {
            // SAFETY: the caller's word.
            unsafe { explain(&text, api::malloc_of(table), message) };
            codes::ERROR
        }
    }
}

/// As [`sqlite3_aquifersqlite_init`], under the name that SQLite tries first.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    database: *mut c_void,
    message: *mut *mut c_char,
    table: *const Routines,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { sqlite3_aquifersqlite_init(database, message, table) }
}

/// Makes the VFS the default one if this library was preloaded.
fn prepare() {
    if REGISTERED.get().is_none() && api::of_program().is_err() {
        return;
    }
    let registered = register(true);
    // SAFETY: NULL asks for the default VFS. SQLite makes its own the default again when it is shut down and used anew.
    unsafe {
        if registered.is_default && (api().vfs_find)(std::ptr::null()) == registered.host {
            (api().vfs_register)(registered.vfs, 1);
        }
    }
}

/// The function of SQLite that one of the same name stands in front of; `None` if the program has no SQLite.
macro_rules! behind {
    ($name:literal, $type:ty) => {{
        static FOUND: OnceLock<Option<$type>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let found = api::behind($name)?;
            // SAFETY: the type is that of the function, as `sqlite3.h` says.
            Some(unsafe { std::mem::transmute::<*mut c_void, $type>(found) })
        })
    }};
}

type Open = unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> c_int;
type OpenWith = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, *const c_char) -> c_int;

/// Opens a database, after the VFS was registered.
///
/// # Safety
/// As SQLite's function.
unsafe fn open_by(open: Option<Open>, name: *const c_void, database: *mut *mut c_void) -> c_int {
    prepare();
    // SAFETY: the caller's word.
    open.map_or(codes::ERROR, |open| unsafe { open(name, database) })
}

/// Stands in front of SQLite's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open(name: *const c_char, database: *mut *mut c_void) -> c_int {
    let open = behind!(c"sqlite3_open", Open);
    // SAFETY: the caller's word.
    unsafe { open_by(open, name.cast(), database) }
}

/// Stands in front of SQLite's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open16(name: *const c_void, database: *mut *mut c_void) -> c_int {
    let open = behind!(c"sqlite3_open16", Open);
    // SAFETY: the caller's word.
    unsafe { open_by(open, name, database) }
}

/// Stands in front of SQLite's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open_v2(
    name: *const c_char,
    database: *mut *mut c_void,
    flags: c_int,
    vfs: *const c_char,
) -> c_int {
    prepare();
    let open = behind!(c"sqlite3_open_v2", OpenWith);
    // SAFETY: the caller's word.
    open.map_or(codes::ERROR, |open| unsafe { open(name, database, flags, vfs) })
}
