//! SQLite's structures, as `sqlite3.h` has them. They are written out here because they are three, and SQLite promises never to change them; crates with
//! bindings look for a library to link with when they are built, and this one must not be linked with any.

use std::ffi::{c_char, c_int, c_void};

/// `sqlite3_int64`.
pub type Int64 = i64;

/// `sqlite3_file`: SQLite allocates it with the bytes that the VFS asks for; the methods stand first.
#[repr(C)]
pub struct RawFile {
    pub methods: *const IoMethods,
    /// What stands behind the methods, in files of ours.
    pub opened: *mut c_void,
}

type OfFile = unsafe extern "C" fn(*mut RawFile) -> c_int;
type WithInt = unsafe extern "C" fn(*mut RawFile, c_int) -> c_int;

/// `sqlite3_io_methods`, version 3.
#[repr(C)]
pub struct IoMethods {
    pub version: c_int,
    pub close: OfFile,
    pub read: unsafe extern "C" fn(*mut RawFile, *mut c_void, c_int, Int64) -> c_int,
    pub write: unsafe extern "C" fn(*mut RawFile, *const c_void, c_int, Int64) -> c_int,
    pub truncate: unsafe extern "C" fn(*mut RawFile, Int64) -> c_int,
    pub sync: WithInt,
    pub file_size: unsafe extern "C" fn(*mut RawFile, *mut Int64) -> c_int,
    pub lock: WithInt,
    pub unlock: WithInt,
    pub check_reserved_lock: unsafe extern "C" fn(*mut RawFile, *mut c_int) -> c_int,
    pub file_control: unsafe extern "C" fn(*mut RawFile, c_int, *mut c_void) -> c_int,
    pub sector_size: OfFile,
    pub device_characteristics: OfFile,
    pub shm_map: unsafe extern "C" fn(*mut RawFile, c_int, c_int, c_int, *mut *mut c_void) -> c_int,
    pub shm_lock: unsafe extern "C" fn(*mut RawFile, c_int, c_int, c_int) -> c_int,
    pub shm_barrier: unsafe extern "C" fn(*mut RawFile),
    pub shm_unmap: WithInt,
    pub fetch: unsafe extern "C" fn(*mut RawFile, Int64, c_int, *mut *mut c_void) -> c_int,
    pub unfetch: unsafe extern "C" fn(*mut RawFile, Int64, *mut c_void) -> c_int,
}

/// A function of a library that the VFS loaded.
pub type Symbol = Option<unsafe extern "C" fn()>;

/// `sqlite3_vfs`, version 2: without the system calls that version 3 lets tests replace.
#[repr(C)]
pub struct Vfs {
    pub version: c_int,
    pub file_bytes: c_int,
    pub path_bytes_max: c_int,
    pub next: *mut Vfs,
    pub name: *const c_char,
    pub data: *mut c_void,
    pub open: unsafe extern "C" fn(*mut Vfs, *const c_char, *mut RawFile, c_int, *mut c_int) -> c_int,
    pub delete: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    pub access: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub full_pathname: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub dl_open: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void>,
    pub dl_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char)>,
    pub dl_sym: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Symbol>,
    pub dl_close: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void)>,
    pub randomness: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub sleep: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub current_time: unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int,
    pub get_last_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub current_time_int64: Option<unsafe extern "C" fn(*mut Vfs, *mut Int64) -> c_int>,
}
