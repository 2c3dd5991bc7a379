//! Reads and writes.

use std::ffi::c_void;

use libc::{c_char, c_int, iovec, off_t, ssize_t};

use crate::hooks::missing;
use crate::parts::{Kind, Manner, transfer, transfer_list};
use crate::real::real;

/// A transfer between a file and one buffer, at the file's position.
macro_rules! at_position {
    ($(fn $name:ident($buffer:ty $(, $more:ident: $type:ty)*), $manner:ident;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, buffer: $buffer, bytes: usize $(, $more: $type)*) -> ssize_t {
            let real = real!($name: unsafe extern "C" fn(c_int, $buffer, usize $(, $type)*) -> ssize_t);
            let Some(real) = real else { return missing() };
            transfer(Manner::$manner, || Kind::of(fd), buffer as usize, bytes, |part, _, bytes| {
                // SAFETY: passed on to the caller; the part is in its buffer.
                unsafe { real(fd, part as $buffer, bytes $(, $more)*) }
            })
        }
    )*};
}

at_position! {
    fn read(*mut c_void), IN;
    fn write(*const c_void), OUT;
    fn __read_chk(*mut c_void, room: usize), IN;
    fn getdents64(*mut c_void), IN;
}

/// A transfer at a given offset.
macro_rules! at_offset {
    ($(fn $name:ident($buffer:ty $(, $more:ident: $type:ty)*), $manner:ident;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fd: c_int,
            buffer: $buffer,
            bytes: usize,
            offset: off_t
            $(, $more: $type)*
        ) -> ssize_t {
            let real = real!($name: unsafe extern "C" fn(c_int, $buffer, usize, off_t $(, $type)*) -> ssize_t);
            let Some(real) = real else { return missing() };
            transfer(Manner::$manner, || Kind::of(fd), buffer as usize, bytes, |part, at, bytes| {
                // SAFETY: passed on to the caller; the part is in its buffer.
                unsafe { real(fd, part as $buffer, bytes, offset + at as off_t $(, $more)*) }
            })
        }
    )*};
}

at_offset! {
    fn pread(*mut c_void), IN;
    fn pread64(*mut c_void), IN;
    fn pwrite(*const c_void), OUT;
    fn pwrite64(*const c_void), OUT;
    fn __pread_chk(*mut c_void, room: usize), IN;
    fn __pread64_chk(*mut c_void, room: usize), IN;
}

/// The offset of a part; -1 stands for the file's position, which moves by itself.
fn advance(offset: off_t, at: usize) -> off_t {
    if offset == -1 { offset } else { offset + at as off_t }
}

/// A transfer between a file and several buffers.
macro_rules! vectored {
    ($(fn $name:ident($($offset:ident: $type:ty $(, $flags:ident: $flags_type:ty)?)?), $manner:ident;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fd: c_int,
            list: *const iovec,
            count: c_int
            $(, $offset: $type $(, $flags: $flags_type)?)?
        ) -> ssize_t {
            type Real = unsafe extern "C" fn(c_int, *const iovec, c_int $(, $type $(, $flags_type)?)?) -> ssize_t;
            let Some(real) = real!($name: Real) else { return missing() };
            if count < 0 {
                // SAFETY: passed on to the caller.
                return unsafe { real(fd, list, count $(, $offset $(, $flags)?)?) };
            }
            // SAFETY: passed on to the caller.
            unsafe {
                transfer_list(Manner::$manner, || Kind::of(fd), list, count as usize, |list, count, _at| {
                    real(fd, list, count as c_int $(, advance($offset, _at) $(, $flags)?)?)
                })
            }
        }
    )*};
}

vectored! {
    fn readv(), IN;
    fn writev(), OUT;
    fn preadv(offset: off_t), IN;
    fn preadv64(offset: off_t), IN;
    fn pwritev(offset: off_t), OUT;
    fn pwritev64(offset: off_t), OUT;
    fn preadv2(offset: off_t, flags: c_int), IN;
    fn preadv64v2(offset: off_t, flags: c_int), IN;
    fn pwritev2(offset: off_t, flags: c_int), OUT;
    fn pwritev64v2(offset: off_t, flags: c_int), OUT;
}

/// # Safety
/// As the manual page of `getrandom` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, bytes: usize, flags: libc::c_uint) -> ssize_t {
    let real = real!(getrandom: unsafe extern "C" fn(*mut c_void, usize, libc::c_uint) -> ssize_t);
    let Some(real) = real else { return missing() };
    transfer(
        Manner::IN,
        || Kind::File,
        buffer as usize,
        bytes,
        |part, _, bytes| {
            // SAFETY: passed on to the caller; the part is in its buffer.
            unsafe { real(part.cast(), bytes, flags) }
        },
    )
}

/// The longest name that the kernel fills in.
const NAME_BYTES: usize = 4096;

hook! {
    fn getentropy(buffer: *mut c_void, bytes: usize) -> c_int; buffer, bytes.min(256);
    fn getcwd(buffer: *mut c_char, bytes: usize) -> *mut c_char; buffer, bytes.min(NAME_BYTES);
    fn __getcwd_chk(buffer: *mut c_char, bytes: usize, room: usize) -> *mut c_char; buffer, bytes.min(NAME_BYTES);
}
