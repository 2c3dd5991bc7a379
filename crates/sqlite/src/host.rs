//! The program's own VFS: it has the files that are in no volume, and carries out what has nothing to do with files.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::codes;
use crate::raw::{Int64, Symbol, Vfs};

static HOST: AtomicPtr<Vfs> = AtomicPtr::new(std::ptr::null_mut());

/// Says which VFS it is: the default one before ours came.
pub fn set(vfs: *mut Vfs) {
    HOST.store(vfs, Ordering::Release);
}

/// The program's own VFS, and its structure.
pub fn host() -> (*mut Vfs, &'static Vfs) {
    let host = HOST.load(Ordering::Acquire);
    // SAFETY: set before ours was registered; SQLite's own VFS structures are never freed.
    (host, unsafe { &*host })
}

pub unsafe extern "C" fn dl_open(_vfs: *mut Vfs, path: *const c_char) -> *mut c_void {
    let (vfs, methods) = host();
    // SAFETY: what SQLite gave, passed on.
    methods.dl_open.map_or(std::ptr::null_mut(), |method| unsafe { method(vfs, path) })
}

pub unsafe extern "C" fn dl_error(_vfs: *mut Vfs, len: c_int, text: *mut c_char) {
    let (vfs, methods) = host();
    if let Some(method) = methods.dl_error {
        // SAFETY: what SQLite gave, passed on.
        unsafe { method(vfs, len, text) };
    }
}

pub unsafe extern "C" fn dl_sym(_vfs: *mut Vfs, library: *mut c_void, name: *const c_char) -> Symbol {
    let (vfs, methods) = host();
    // SAFETY: what SQLite gave, passed on.
    methods.dl_sym.and_then(|method| unsafe { method(vfs, library, name) })
}

pub unsafe extern "C" fn dl_close(_vfs: *mut Vfs, library: *mut c_void) {
    let (vfs, methods) = host();
    if let Some(method) = methods.dl_close {
        // SAFETY: what SQLite gave, passed on.
        unsafe { method(vfs, library) };
    }
}

pub unsafe extern "C" fn randomness(_vfs: *mut Vfs, len: c_int, bytes: *mut c_char) -> c_int {
    let (vfs, methods) = host();
    // SAFETY: what SQLite gave, passed on.
    unsafe { (methods.randomness)(vfs, len, bytes) }
}

pub unsafe extern "C" fn sleep(_vfs: *mut Vfs, time_us: c_int) -> c_int {
    let (vfs, methods) = host();
    // SAFETY: what SQLite gave, passed on.
    unsafe { (methods.sleep)(vfs, time_us) }
}

pub unsafe extern "C" fn current_time(_vfs: *mut Vfs, julian_day: *mut f64) -> c_int {
    let (vfs, methods) = host();
    // SAFETY: what SQLite gave, passed on.
    unsafe { (methods.current_time)(vfs, julian_day) }
}

pub unsafe extern "C" fn get_last_error(_vfs: *mut Vfs, len: c_int, text: *mut c_char) -> c_int {
    let (vfs, methods) = host();
    // SAFETY: what SQLite gave, passed on.
    methods.get_last_error.map_or(0, |method| unsafe { method(vfs, len, text) })
}

pub unsafe extern "C" fn current_time_int64(_vfs: *mut Vfs, time_ms: *mut Int64) -> c_int {
    let (vfs, methods) = host();
    match methods.current_time_int64 {
        // SAFETY: what SQLite gave, passed on.
        Some(method) if methods.version >= 2 => unsafe { method(vfs, time_ms) },
        _ => {
            const DAY_MS: f64 = 86_400_000.0;
            let mut julian_day = 0.0;
            // SAFETY: the day is written to a variable of ours, the time where SQLite wants it.
            unsafe {
                let outcome = (methods.current_time)(vfs, &mut julian_day);
                if outcome == codes::OK {
                    time_ms.write((julian_day * DAY_MS) as Int64);
                }
                outcome
            }
        }
    }
}
