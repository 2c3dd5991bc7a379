//! Transfers that the C library makes on behalf of a stream. It calls the kernel without asking anybody, with the
//! program's own buffer if that is large.

use std::ffi::c_void;

use libc::{FILE, c_char, c_int};

use crate::hooks::missing;
use crate::parts::PART_BYTES;
use crate::place::{Place, Way};
use crate::real::real;
use crate::route::{is_managed_address, owns};

unsafe extern "C" {
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
}

/// A stream that is this thread's alone until this is dropped, so that no other thread's output comes between two parts.
struct Locked(*mut FILE);

impl Locked {
    /// # Safety
    /// The stream is open and stays so.
    unsafe fn new(stream: *mut FILE) -> Self {
        // SAFETY: passed on to the caller.
        unsafe { flockfile(stream) };
        Self(stream)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: locked by this thread.
        unsafe { funlockfile(self.0) };
    }
}

macro_rules! stream {
    ($(fn $name:ident($buffer:ty $(, room: $room:ty)?), $way:ident;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            buffer: $buffer,
            $(room: $room,)?
            size: usize,
            count: usize,
            stream: *mut FILE,
        ) -> usize {
            type Real = unsafe extern "C" fn($buffer, $($room,)? usize, usize, *mut FILE) -> usize;
            let Some(real) = real!($name: Real) else { return 0 };
            let bytes = size.saturating_mul(count);
            if !is_managed_address(buffer as usize) || bytes == 0 {
                // SAFETY: passed on to the caller.
                return unsafe { real(buffer, $(room as $room,)? size, count, stream) };
            }
            // SAFETY: passed on to the caller; the parts are in its buffer.
            let done = unsafe {
                in_parts(Way::$way, buffer as usize, bytes, stream, |part, _at, bytes| {
                    real(part as $buffer, $(room.saturating_sub(_at) as $room,)? 1, bytes, stream)
                })
            };
            done / size
        }
    )*};
}

/// Calls `call(pointer, at, bytes)` with parts of a buffer that are in place, until all is done or it does less.
///
/// # Safety
/// The stream is open.
unsafe fn in_parts(
    way: Way,
    address: usize,
    bytes: usize,
    stream: *mut FILE,
    mut call: impl FnMut(*mut u8, usize, usize) -> usize,
) -> usize {
    // SAFETY: passed on to the caller.
    let _locked = unsafe { Locked::new(stream) };
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(PART_BYTES);
        let mut place = Place::new(way, address + done, part);
        let moved = call(place.address(), done, part);
        place.arrived(moved);
        done += moved;
        if moved < part {
            break;
        }
    }
    done
}

stream! {
    fn fread(*mut c_void), In;
    fn fread_unlocked(*mut c_void), In;
    fn fwrite(*const c_void), Out;
    fn fwrite_unlocked(*const c_void), Out;
    fn __fread_chk(*mut c_void, room: usize), In;
    fn __fread_unlocked_chk(*mut c_void, room: usize), In;
}

/// Writes a string of the heap's; returns whether all of it was written.
///
/// # Safety
/// The string ends with a zero byte, and the stream is open.
unsafe fn put(text: *const c_char, stream: *mut FILE) -> bool {
    // SAFETY: passed on to the caller.
    unsafe {
        let bytes = libc::strlen(text);
        fwrite(text.cast(), 1, bytes, stream) == bytes
    }
}

macro_rules! text {
    ($(fn $name:ident();)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(text: *const c_char, stream: *mut FILE) -> c_int {
            if is_managed_address(text as usize) {
                // SAFETY: passed on to the caller.
                return if unsafe { put(text, stream) } { 1 } else { libc::EOF };
            }
            match real!($name: unsafe extern "C" fn(*const c_char, *mut FILE) -> c_int) {
                // SAFETY: passed on to the caller.
                Some(real) => unsafe { real(text, stream) },
                None => missing(),
            }
        }
    )*};
}

text! {
    fn fputs();
    fn fputs_unlocked();
}

unsafe extern "C" {
    static stdout: *mut FILE;
}

/// # Safety
/// As the manual page of `puts` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn puts(text: *const c_char) -> c_int {
    if is_managed_address(text as usize) {
        // SAFETY: passed on to the caller; the standard output is open as long as nobody closes it.
        unsafe {
            let _locked = Locked::new(stdout);
            let is_put = put(text, stdout) && libc::fputc(i32::from(b'\n'), stdout) != libc::EOF;
            return if is_put { 1 } else { libc::EOF };
        }
    }
    match real!(puts: unsafe extern "C" fn(*const c_char) -> c_int) {
        // SAFETY: passed on to the caller.
        Some(real) => unsafe { real(text) },
        None => missing(),
    }
}

/// A buffer of the heap's is not used: the stream gets one of the C library's.
///
/// # Safety
/// As the manual page of `setvbuf` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setvbuf(stream: *mut FILE, buffer: *mut c_char, mode: c_int, bytes: usize) -> c_int {
    let buffer = if owns(buffer.cast()) { std::ptr::null_mut() } else { buffer };
    match real!(setvbuf: unsafe extern "C" fn(*mut FILE, *mut c_char, c_int, usize) -> c_int) {
        // SAFETY: passed on to the caller.
        Some(real) => unsafe { real(stream, buffer, mode, bytes) },
        None => missing(),
    }
}

/// # Safety
/// As the manual page of `setbuf` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setbuf(stream: *mut FILE, buffer: *mut c_char) {
    // SAFETY: passed on to the caller.
    unsafe { setbuffer(stream, buffer, libc::BUFSIZ as usize) }
}

/// # Safety
/// As the manual page of `setbuffer` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setbuffer(stream: *mut FILE, buffer: *mut c_char, bytes: usize) {
    let mode = if buffer.is_null() { libc::_IONBF } else { libc::_IOFBF };
    // SAFETY: passed on to the caller.
    unsafe { setvbuf(stream, buffer, mode, bytes) };
}
