//! What nbdkit and a plugin call each other by: version 2 of its interface, as in `nbdkit-plugin.h` of 1.32.
//!
//! nbdkit takes as many bytes of [`Plugin`] as [`Plugin::struct_size`] says, so that older and newer versions of it take
//! the same plugin.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::{offset_of, size_of};
use std::ptr;

use rustix::net::SocketAddrAny;

/// Version of the interface.
pub const API_VERSION: c_int = 2;
/// Any number of requests of any number of connections at once.
pub const PARALLEL: c_int = 3;
/// Any number of connections at once, and of each one request.
pub const SERIALIZE_REQUESTS: c_int = 2;
/// The flag of a request that is durable before it is answered.
pub const FLAG_FUA: u32 = 1 << 1;
/// What `can_fua` says of a plugin that knows [`FLAG_FUA`].
pub const FUA_NATIVE: c_int = 2;

/// An entry of an older version of the interface, or one that is left to nbdkit.
type Unused = *const c_void;

/// `struct nbdkit_plugin`.
#[repr(C)]
pub struct Plugin {
    pub struct_size: u64,
    pub api_version: c_int,
    pub thread_model: c_int,
    pub name: *const c_char,
    pub longname: *const c_char,
    pub version: *const c_char,
    pub description: *const c_char,
    pub load: Option<extern "C" fn()>,
    pub unload: Option<extern "C" fn()>,
    pub config: Option<unsafe extern "C" fn(*const c_char, *const c_char) -> c_int>,
    pub config_complete: Option<extern "C" fn() -> c_int>,
    pub config_help: *const c_char,
    pub open: Option<extern "C" fn(c_int) -> *mut c_void>,
    pub close: Option<unsafe extern "C" fn(*mut c_void)>,
    pub get_size: Option<unsafe extern "C" fn(*mut c_void) -> i64>,
    pub can_write: Unused,
    pub can_flush: Unused,
    pub is_rotational: Unused,
    pub can_trim: Unused,
    pub version_1: [Unused; 5],
    pub errno_is_preserved: c_int,
    pub dump_plugin: Unused,
    pub can_zero: Unused,
    pub can_fua: Option<extern "C" fn(*mut c_void) -> c_int>,
    pub pread: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, u32, u64, u32) -> c_int>,
    pub pwrite: Option<unsafe extern "C" fn(*mut c_void, *const c_void, u32, u64, u32) -> c_int>,
    pub flush: Option<unsafe extern "C" fn(*mut c_void, u32) -> c_int>,
    pub trim: Option<unsafe extern "C" fn(*mut c_void, u32, u64, u32) -> c_int>,
    pub zero: Option<unsafe extern "C" fn(*mut c_void, u32, u64, u32) -> c_int>,
    pub magic_config_key: *const c_char,
    pub can_multi_conn: Option<extern "C" fn(*mut c_void) -> c_int>,
    pub can_extents: Unused,
    pub extents: Unused,
    pub can_cache: Unused,
    pub cache: Unused,
    pub thread_model_now: Option<extern "C" fn() -> c_int>,
    pub can_fast_zero: Unused,
    pub preconnect: Option<extern "C" fn(c_int) -> c_int>,
    pub get_ready: Option<extern "C" fn() -> c_int>,
    pub after_fork: Option<extern "C" fn() -> c_int>,
    pub list_exports: Option<unsafe extern "C" fn(c_int, c_int, *mut c_void) -> c_int>,
    pub default_export: Option<extern "C" fn(c_int, c_int) -> *const c_char>,
    pub export_description: Unused,
    pub cleanup: Option<extern "C" fn()>,
    pub block_size: Option<unsafe extern "C" fn(*mut c_void, *mut u32, *mut u32, *mut u32) -> c_int>,
}

// As a C compiler lays the header out on 64-bit machines.
const _: () = {
    assert!(size_of::<Plugin>() == 384);
    assert!(offset_of!(Plugin, open) == 88);
    assert!(offset_of!(Plugin, errno_is_preserved) == 184);
    assert!(offset_of!(Plugin, pread) == 216);
    assert!(offset_of!(Plugin, can_multi_conn) == 264);
    assert!(offset_of!(Plugin, block_size) == 376);
};

#[cfg(not(test))]
mod server {
    use super::{c_char, c_int, c_void};

    // The server's own, which the plugin finds when it is loaded.
    unsafe extern "C" {
        pub fn nbdkit_error(format: *const c_char, ...);
        pub fn nbdkit_set_error(number: c_int);
        pub fn nbdkit_export_name() -> *const c_char;
        pub fn nbdkit_add_export(exports: *mut c_void, name: *const c_char, about: *const c_char) -> c_int;
        pub fn nbdkit_peer_name(address: *mut libc::sockaddr, len: *mut libc::socklen_t) -> c_int;
        pub fn nbdkit_shutdown();
    }
}

/// Says why something failed, on standard error or wherever nbdkit logs.
pub fn error(sentence: &str) {
    let sentence = CString::new(sentence.replace('\0', " ")).expect("no zero is left");
    // SAFETY: the format takes one string, which lives until nbdkit returns.
    unsafe { server::nbdkit_error(c"%s".as_ptr(), sentence.as_ptr()) }
}

/// Sets the error of the request that this thread does.
pub fn set_errno(number: c_int) {
    // SAFETY: no more than a number of the calling thread.
    unsafe { server::nbdkit_set_error(number) }
}

/// The export that the client of this thread asks for; empty if it leaves that open.
///
/// # Context
/// In `open`.
pub fn export_name() -> Vec<u8> {
    // SAFETY: nbdkit gives NULL or a string that lives as long as the connection, which has just begun.
    let name = unsafe { server::nbdkit_export_name() };
    if name.is_null() {
        return Vec::new();
    }
    // SAFETY: as above, and not NULL.
    unsafe { CStr::from_ptr(name) }.to_bytes().to_vec()
}

/// Adds `name` to a list of exports, and returns what `list_exports` has to.
///
/// # Safety
/// `exports` is that of the call of `list_exports`.
pub unsafe fn add_export(exports: *mut c_void, name: &CStr) -> c_int {
    // SAFETY: the caller's promise; nbdkit copies the name, and NULL is no description.
    unsafe { server::nbdkit_add_export(exports, name.as_ptr(), ptr::null()) }
}

/// The address of the client of this thread.
///
/// # Context
/// In `preconnect` or `open`.
pub fn peer() -> Option<SocketAddrAny> {
    // SAFETY: a structure of numbers, for which zeros are a value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: nbdkit writes at most `len` bytes of the storage, and how many it wrote.
    let outcome = unsafe { server::nbdkit_peer_name((&raw mut storage).cast(), &raw mut len) };
    if outcome != 0 {
        return None;
    }
    if !(2..=size_of::<libc::sockaddr_storage>()).contains(&(len as usize)) {
        return None;
    }
    // SAFETY: the storage holds an address of `len` bytes, which the kernel has written.
    Some(unsafe { SocketAddrAny::read((&raw const storage).cast(), len) })
}

/// Makes the server end: it takes no more clients, and its threads no more requests.
pub fn shut_down() {
    // SAFETY: no arguments, and allowed on every thread.
    unsafe { server::nbdkit_shutdown() }
}

/// Unit tests have no server.
#[cfg(test)]
mod server {
    use super::{c_char, c_int, c_void};

    pub unsafe fn nbdkit_error(_: *const c_char, _: *const c_char) {}
    pub unsafe fn nbdkit_set_error(_: c_int) {}
    pub unsafe fn nbdkit_export_name() -> *const c_char {
        c"".as_ptr()
    }
    pub unsafe fn nbdkit_add_export(_: *mut c_void, _: *const c_char, _: *const c_char) -> c_int {
        0
    }
    pub unsafe fn nbdkit_peer_name(_: *mut libc::sockaddr, _: *mut libc::socklen_t) -> c_int {
        -1
    }
    pub unsafe fn nbdkit_shutdown() {}
}
