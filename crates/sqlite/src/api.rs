//! The functions of SQLite that are called: from the table that an extension is given, or from the program or its library.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::codes;
use crate::raw::Vfs;

type FilenameOf = unsafe extern "C" fn(*const c_char) -> *const c_char;

/// Functions of SQLite.
#[derive(Clone, Copy)]
pub struct Api {
    pub vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    pub vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    pub uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    pub filename_journal: FilenameOf,
    pub filename_wal: FilenameOf,
    log: unsafe extern "C" fn(c_int, *const c_char, ...),
}

/// `sqlite3_api_routines` of `sqlite3ext.h`, up to the last function that is needed. SQLite only ever adds to its end.
#[repr(C)]
pub struct Routines {
    before_version: [*const c_void; 67],
    version_number: unsafe extern "C" fn() -> c_int,
    malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    before_vfs: [*const c_void; 72],
    vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    before_log: [*const c_void; 24],
    log: unsafe extern "C" fn(c_int, *const c_char, ...),
    before_uri: [*const c_void; 21],
    uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    before_filename: [*const c_void; 57],
    filename_journal: FilenameOf,
    filename_wal: FilenameOf,
}

/// 3.32: the first with names of files as they are read here.
const VERSION_MIN: c_int = 3_032_000;

static API: OnceLock<Api> = OnceLock::new();

/// The functions, once [`of_table`] or [`of_program`] has found them.
pub fn api() -> &'static Api {
    API.get().expect("found before the VFS was registered")
}

/// Takes the functions from the table; fails with an explanation if SQLite is too old.
///
/// # Safety
/// `table` is the one that SQLite gave to an extension.
pub unsafe fn of_table(table: *const Routines) -> Result<(), CString> {
    // SAFETY: the caller's word; the number of the version stands in every table.
    let version = unsafe { ((*table).version_number)() };
    check_version(version)?;
    // SAFETY: tables of this version have all fields.
    let table = unsafe { &*table };
    API.get_or_init(|| Api {
        vfs_find: table.vfs_find,
        vfs_register: table.vfs_register,
        malloc: table.malloc,
        uri_parameter: table.uri_parameter,
        filename_journal: table.filename_journal,
        filename_wal: table.filename_wal,
        log: table.log,
    });
    Ok(())
}

/// The function of the table that gives out SQLite's memory, which is in tables of all versions.
///
/// # Safety
/// As [`of_table`], or NULL.
pub unsafe fn malloc_of(table: *const Routines) -> Option<unsafe extern "C" fn(c_int) -> *mut c_void> {
    // SAFETY: the caller's word.
    (!table.is_null()).then(|| unsafe { (*table).malloc })
}

fn check_version(version: c_int) -> Result<(), CString> {
    if version >= VERSION_MIN {
        return Ok(());
    }
    let (major, minor) = (version / 1_000_000, version / 1000 % 1000);
    Err(CString::new(format!("the VFS on volumes needs SQLite 3.32 or newer, this is {major}.{minor}"))
        .unwrap_or_default())
}

/// The symbol of the program that comes first in its order, or that of SQLite's library if it was loaded beside that order, as Python does.
fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() { in_library(name) } else { Some(found) }
}

fn in_library(name: &CStr) -> Option<*mut c_void> {
    [c"libsqlite3.so.0", c"libsqlite3.so"].into_iter().find_map(|library| {
        // SAFETY: the name ends with a zero byte; nothing is loaded that is not there already.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: the handle is open. It stays so: its functions are going to be called.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    })
}

/// The function of that name behind this library, which has one of the same name.
pub fn behind(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() { in_library(name) } else { Some(found) }
}

/// Takes the functions from the program or its library; fails with an explanation if SQLite is too old or not there.
#[allow(clippy::missing_transmute_annotations)]
pub fn of_program() -> Result<(), CString> {
    /// The function of that name, with the type that its place in [`Api`] has: written once more here, it could differ.
    macro_rules! function {
        ($name:literal) => {{
            let missing = concat!("this program has no function ", $name);
            let found = CString::new($name).ok().and_then(|name| find(&name));
            let found = found.ok_or_else(|| CString::new(missing).unwrap_or_default())?;
            // SAFETY: the types are those of `sqlite3.h`.
            unsafe { std::mem::transmute::<*mut c_void, _>(found) }
        }};
    }
    let version: unsafe extern "C" fn() -> c_int = function!("sqlite3_libversion_number");
    // SAFETY: the function takes nothing.
    check_version(unsafe { version() })?;
    let found = Api {
        vfs_find: function!("sqlite3_vfs_find"),
        vfs_register: function!("sqlite3_vfs_register"),
        malloc: function!("sqlite3_malloc"),
        uri_parameter: function!("sqlite3_uri_parameter"),
        filename_journal: function!("sqlite3_filename_journal"),
        filename_wal: function!("sqlite3_filename_wal"),
        log: function!("sqlite3_log"),
    };
    API.get_or_init(|| found);
    Ok(())
}

impl Api {
    /// Says something in SQLite's error log, which programs can show.
    pub fn say(&self, code: c_int, text: &str) {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        // SAFETY: both strings end with a zero byte; the format takes one.
        unsafe { (self.log)(code, c"aquifer: %s".as_ptr(), text.as_ptr()) };
    }

    /// The parameter of a name that SQLite gave to open a file.
    ///
    /// # Safety
    /// The name is that of a main database, its journal or its log, from `xOpen`.
    pub unsafe fn parameter(&self, name: *const c_char, key: &CStr) -> Option<Vec<u8>> {
        // SAFETY: the caller's word.
        let value = unsafe { (self.uri_parameter)(name, key.as_ptr()) };
        if value.is_null() {
            return None;
        }
        // SAFETY: SQLite's parameters end with a zero byte.
        Some(unsafe { CStr::from_ptr(value) }.to_bytes().to_vec())
    }

    /// A copy of a string in memory that SQLite frees; NULL without memory.
    pub fn copy(&self, text: &CStr) -> *mut c_char {
        let bytes = text.to_bytes_with_nul();
        // SAFETY: a plain number.
        let copy = unsafe { (self.malloc)(bytes.len() as c_int) }.cast::<c_char>();
        if !copy.is_null() {
            // SAFETY: the new block has that many bytes.
            unsafe { copy.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
        }
        copy
    }
}

/// SQLite's number for an error, after it was told why.
pub fn told(code: c_int, text: &str) -> c_int {
    if code != codes::OK {
        api().say(code, text);
    }
    code
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Position of a function among those of the header's table.
    fn position(header: &str, name: &str) -> Option<usize> {
        let table = header.split_once("struct sqlite3_api_routines {")?.1.split_once("\n};")?.0;
        table
            .split(';')
            .position(|line| line.contains(&format!("(*{name})")) || line.contains(&format!("*{name})(")))
    }

    #[test]
    fn the_table_is_that_of_the_header() {
        let Ok(header) = std::fs::read_to_string("/usr/include/sqlite3ext.h") else {
            println!("SKIP no sqlite3ext.h (Debian: libsqlite3-dev)");
            return;
        };
        for (name, offset) in [
            ("libversion_number", offset_of!(Routines, version_number)),
            ("malloc", offset_of!(Routines, malloc)),
            ("vfs_find", offset_of!(Routines, vfs_find)),
            ("vfs_register", offset_of!(Routines, vfs_register)),
            ("log", offset_of!(Routines, log)),
            ("uri_parameter", offset_of!(Routines, uri_parameter)),
            ("filename_journal", offset_of!(Routines, filename_journal)),
            ("filename_wal", offset_of!(Routines, filename_wal)),
        ] {
            assert_eq!(position(&header, name), Some(offset / size_of::<usize>()), "{name}");
        }
    }
}
