//! Numbers and sentences of errors, per thread.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int};

use aquifer::Error;

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
    static CODE: Cell<c_int> = const { Cell::new(0) };
}

/// Keeps the sentence of `error` for `aq_error_message` and returns its number.
pub(crate) fn fail(error: &Error) -> c_int {
    keep(error.code() as c_int, &error.to_string())
}

/// Keeps a sentence of our own with the number of it.
pub(crate) fn fail_with(code: aquifer::ErrorCode, sentence: &str) -> c_int {
    keep(code as c_int, sentence)
}

/// Keeps a sentence for `aq_error_message` and its number, which it returns.
pub(crate) fn keep(code: c_int, sentence: &str) -> c_int {
    CODE.set(code);
    let text: Vec<u8> = sentence.bytes().filter(|&byte| byte != 0).collect();
    // Not there while a thread ends; then nobody can ask either.
    let _ = LAST.try_with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
    code
}

/// The number of an outcome.
pub(crate) fn code(outcome: Result<(), Error>) -> c_int {
    outcome.map_or_else(|error| fail(&error), |()| 0)
}

/// The pointer of an outcome, NULL on failure.
pub(crate) fn pointer(outcome: Result<*mut u8, Error>) -> *mut std::ffi::c_void {
    outcome.map_or_else(
        |error| {
            fail(&error);
            std::ptr::null_mut()
        },
        <*mut u8>::cast,
    )
}

/// What exactly failed last in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn aq_error_message() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The number of what failed last in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn aq_error_code() -> c_int {
    CODE.get()
}

/// The sentence for an error number.
#[unsafe(no_mangle)]
pub extern "C" fn aq_strerror(error: c_int) -> *const c_char {
    sentence(error).as_ptr()
}

fn sentence(error: c_int) -> &'static CStr {
    match error {
        0 => c"success",
        1 => c"an argument makes no sense; see aq_error_message for which",
        2 => c"the heap is full; free objects or give it a larger file",
        3 => c"the RAM budget is below the minimum; give at least AQ_RAM_MIN bytes",
        4 => c"the RAM budget is more than the machine has; give less",
        5 => c"the flash path or its directory does not exist; create it or choose another",
        6 => c"the flash file, device or size is too small; give a larger one",
        7 => c"the flash path may not be read and written; change its permissions or choose another",
        8 => c"the flash path is in use by another heap; choose another",
        9 => c"the file system has no room for the flash file; free some or choose a smaller size",
        10 => c"the kernel refused or is too old; Linux 6.8 or newer is needed",
        11 => c"userfaultfd may not be used here; allow it in the container's seccomp profile",
        12 => c"the flash device reported an error; check the system log and the device",
        13 => c"bytes on flash do not match their checksum; the device is damaged",
        14 => c"the pointer is not from this heap; give it to the allocator it came from",
        15 => c"the object is not allocated; it was freed before",
        16 => c"the object is pinned, or too much is pinned; unpin something",
        17 => c"a forked child cannot use heaps; use them in the parent, or exec",
        18 => c"the default heap is open already; call aq_init before the first allocation",
        19 => c"the heap is not open; call aq_init",
        20 => c"a broken invariant; this is a defect of the library",
        21 => c"the transaction met another one; abort it and run it again",
        22 => c"nothing is allocated there; the reference is wrong, or its object was freed",
        23 => {
            c"the file is no durable heap or volume that this library can open; choose another, or a newer library"
        }
        24 => c"a nested transaction was aborted, and the whole with it; run it again from the start",
        25 => {
            c"a transaction is under way, or a file is open or mapped; commit or abort it, close or unmap it first"
        }
        26 => c"there is no such key, or no such file or folder; look at the key or the path",
        27 => c"the name exists already; choose another, or remove it",
        28 => c"a part of the path is no folder; look at the path",
        29 => c"it is a folder; name a file in it",
        30 => c"the folder has entries; remove them first",
        31 => c"this cannot be a name; names have 1 to 255 bytes, paths at most 4095",
        32 => c"permission denied; see the mode and the owner of the file, and how it was opened",
        33 => c"a file has at most 16 TiB; write less",
        34 => c"too many names of one file, or too many symbolic links on the way; look for a loop",
        35 => c"the volume is full; remove files, or make a larger one",
        36 => c"the volume, heap or transaction was opened to read only; open it for changes",
        37 => c"the process that has the volume is gone; start it again, close and connect",
        38 => c"it is of another type; look at the reference, or at the type that the root was set with",
        39 => c"the buffer is too small; count tells how many bytes there are",
        _ => c"unknown error number",
    }
}
