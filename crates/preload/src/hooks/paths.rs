//! Calls that name files: a name may lie in managed memory.

use std::ffi::c_void;

use libc::{DIR, FILE, c_char, c_int, c_uint, mode_t, off_t, timespec, timeval};

use crate::hooks::missing;
use crate::real::real;
use crate::span::Pin;

/// Stands in front of a function whose named arguments are strings; `also` gives memory beside them.
macro_rules! named {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty; $($text:ident),+ $(; also $address:expr, $bytes:expr)?;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: passed on to the caller.
            $(let _pin = unsafe { Pin::string($text) };)+
            $(let _also = Pin::new($address as usize, $bytes as usize);)?
            let real = real!($name: unsafe extern "C" fn($($type),*) -> $result);
            match real {
                // SAFETY: passed on to the caller.
                Some(real) => unsafe { real($($argument),*) },
                None => missing(),
            }
        }
    )*};
}

type Text = *const c_char;
const NONE: Text = std::ptr::null();
/// The longest name that the kernel fills in.
const PATH: usize = 4096;
const STAT: usize = size_of::<libc::stat>();

named! {
    fn open(path: Text, flags: c_int, mode: mode_t) -> c_int; path;
    fn open64(path: Text, flags: c_int, mode: mode_t) -> c_int; path;
    fn openat(fd: c_int, path: Text, flags: c_int, mode: mode_t) -> c_int; path;
    fn openat64(fd: c_int, path: Text, flags: c_int, mode: mode_t) -> c_int; path;
    fn __open_2(path: Text, flags: c_int) -> c_int; path;
    fn __open64_2(path: Text, flags: c_int) -> c_int; path;
    fn creat(path: Text, mode: mode_t) -> c_int; path;
    fn fopen(path: Text, mode: Text) -> *mut FILE; path;
    fn fopen64(path: Text, mode: Text) -> *mut FILE; path;
    fn freopen(path: Text, mode: Text, stream: *mut FILE) -> *mut FILE; path;
    fn opendir(path: Text) -> *mut DIR; path;
    fn stat(path: Text, stat: *mut libc::stat) -> c_int; path; also stat, STAT;
    fn stat64(path: Text, stat: *mut libc::stat) -> c_int; path; also stat, STAT;
    fn lstat(path: Text, stat: *mut libc::stat) -> c_int; path; also stat, STAT;
    fn lstat64(path: Text, stat: *mut libc::stat) -> c_int; path; also stat, STAT;
    fn fstatat(fd: c_int, path: Text, stat: *mut libc::stat, flags: c_int) -> c_int; path; also stat, STAT;
    fn fstatat64(fd: c_int, path: Text, stat: *mut libc::stat, flags: c_int) -> c_int; path; also stat, STAT;
    fn statx(fd: c_int, path: Text, flags: c_int, mask: c_uint, out: *mut c_void) -> c_int; path; also out, 256;
    fn access(path: Text, mode: c_int) -> c_int; path;
    fn faccessat(fd: c_int, path: Text, mode: c_int, flags: c_int) -> c_int; path;
    fn unlink(path: Text) -> c_int; path;
    fn unlinkat(fd: c_int, path: Text, flags: c_int) -> c_int; path;
    fn remove(path: Text) -> c_int; path;
    fn rmdir(path: Text) -> c_int; path;
    fn mkdir(path: Text, mode: mode_t) -> c_int; path;
    fn mkdirat(fd: c_int, path: Text, mode: mode_t) -> c_int; path;
    fn rename(from: Text, to: Text) -> c_int; from, to;
    fn renameat(from_fd: c_int, from: Text, to_fd: c_int, to: Text) -> c_int; from, to;
    fn link(from: Text, to: Text) -> c_int; from, to;
    fn symlink(from: Text, to: Text) -> c_int; from, to;
    fn chdir(path: Text) -> c_int; path;
    fn chmod(path: Text, mode: mode_t) -> c_int; path;
    fn chown(path: Text, user: c_uint, group: c_uint) -> c_int; path;
    fn truncate(path: Text, bytes: off_t) -> c_int; path;
    fn truncate64(path: Text, bytes: off_t) -> c_int; path;
    fn lchown(path: Text, user: c_uint, group: c_uint) -> c_int; path;
    fn fchmodat(fd: c_int, path: Text, mode: mode_t, flags: c_int) -> c_int; path;
    fn fchownat(fd: c_int, path: Text, user: c_uint, group: c_uint, flags: c_int) -> c_int; path;
    fn linkat(from_fd: c_int, from: Text, to_fd: c_int, to: Text, flags: c_int) -> c_int; from, to;
    fn symlinkat(from: Text, to_fd: c_int, to: Text) -> c_int; from, to;
    fn renameat2(from_fd: c_int, from: Text, to_fd: c_int, to: Text, flags: c_uint) -> c_int; from, to;
    fn mkfifo(path: Text, mode: mode_t) -> c_int; path;
    fn mkfifoat(fd: c_int, path: Text, mode: mode_t) -> c_int; path;
    fn mknod(path: Text, mode: mode_t, device: u64) -> c_int; path;
    fn mknodat(fd: c_int, path: Text, mode: mode_t, device: u64) -> c_int; path;
    fn chroot(path: Text) -> c_int; path;
    fn mkstemp(template: *mut c_char) -> c_int; template;
    fn mkstemp64(template: *mut c_char) -> c_int; template;
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int; template;
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int; template;
    fn mkdtemp(template: *mut c_char) -> *mut c_char; template;
    fn creat64(path: Text, mode: mode_t) -> c_int; path;
    fn freopen64(path: Text, mode: Text, stream: *mut FILE) -> *mut FILE; path;
    fn __openat_2(fd: c_int, path: Text, flags: c_int) -> c_int; path;
    fn __openat64_2(fd: c_int, path: Text, flags: c_int) -> c_int; path;
    fn memfd_create(name: Text, flags: c_uint) -> c_int; name;
    fn shm_open(path: Text, flags: c_int, mode: mode_t) -> c_int; path;
    fn shm_unlink(path: Text) -> c_int; path;
    fn inotify_add_watch(fd: c_int, path: Text, mask: u32) -> c_int; path;
    fn readlink(path: Text, buffer: *mut c_char, bytes: usize) -> isize; path; also buffer, bytes.min(PATH);
    fn readlinkat(fd: c_int, path: Text, buffer: *mut c_char, bytes: usize) -> isize; path;
        also buffer, bytes.min(PATH);
    fn __readlink_chk(path: Text, buffer: *mut c_char, bytes: usize, room: usize) -> isize; path;
        also buffer, bytes.min(PATH);
    fn __readlinkat_chk(fd: c_int, path: Text, buffer: *mut c_char, bytes: usize, room: usize) -> isize; path;
        also buffer, bytes.min(PATH);
    fn statfs(path: Text, out: *mut c_void) -> c_int; path; also out, size_of::<libc::statfs>();
    fn statfs64(path: Text, out: *mut c_void) -> c_int; path; also out, size_of::<libc::statfs>();
    fn utimensat(fd: c_int, path: Text, times: *const timespec, flags: c_int) -> c_int; path; also times, 32;
    fn utimes(path: Text, times: *const timeval) -> c_int; path; also times, 32;
    fn lutimes(path: Text, times: *const timeval) -> c_int; path; also times, 32;
    fn utime(path: Text, times: *const c_void) -> c_int; path; also times, 16;
    fn getxattr(path: Text, name: Text, value: *mut c_void, bytes: usize) -> isize; path, name; also value, bytes;
    fn lgetxattr(path: Text, name: Text, value: *mut c_void, bytes: usize) -> isize; path, name; also value, bytes;
    fn fgetxattr(fd: c_int, name: Text, value: *mut c_void, bytes: usize) -> isize; name; also value, bytes;
    fn setxattr(path: Text, name: Text, value: *const c_void, bytes: usize, flags: c_int) -> c_int; path, name;
        also value, bytes;
    fn lsetxattr(path: Text, name: Text, value: *const c_void, bytes: usize, flags: c_int) -> c_int; path, name;
        also value, bytes;
    fn fsetxattr(fd: c_int, name: Text, value: *const c_void, bytes: usize, flags: c_int) -> c_int; name;
        also value, bytes;
    fn listxattr(path: Text, list: *mut c_char, bytes: usize) -> isize; path; also list, bytes;
    fn llistxattr(path: Text, list: *mut c_char, bytes: usize) -> isize; path; also list, bytes;
    fn flistxattr(fd: c_int, list: *mut c_char, bytes: usize) -> isize; NONE; also list, bytes;
    fn removexattr(path: Text, name: Text) -> c_int; path, name;
    fn __xstat(version: c_int, path: Text, stat: *mut libc::stat) -> c_int; path; also stat, STAT;
    fn __xstat64(version: c_int, path: Text, stat: *mut libc::stat) -> c_int; path; also stat, STAT;
    fn __lxstat(version: c_int, path: Text, stat: *mut libc::stat) -> c_int; path; also stat, STAT;
    fn __lxstat64(version: c_int, path: Text, stat: *mut libc::stat) -> c_int; path; also stat, STAT;
    fn __fxstatat(version: c_int, fd: c_int, path: Text, stat: *mut libc::stat, flags: c_int) -> c_int; path;
        also stat, STAT;
    fn __fxstatat64(version: c_int, fd: c_int, path: Text, stat: *mut libc::stat, flags: c_int) -> c_int; path;
        also stat, STAT;
}

// ---- Directories -----------------------------------------------------------

/// Bytes of a directory that is open: the C library has it in one block of malloc, with the buffer that the kernel fills behind it. A malloc of the
/// program's own may have that in managed memory.
fn directory_bytes(directory: *const DIR) -> usize {
    /// Descriptor and lock, the size of the buffer, and more; `struct __dirstream`.
    const HEAD: usize = 64;
    const BUFFER_MAX: usize = 1 << 20;
    // SAFETY: an open directory begins so.
    let buffer = unsafe { directory.cast::<usize>().add(1).read() };
    HEAD + buffer.min(BUFFER_MAX)
}

hook! {
    fn readdir(directory: *mut DIR) -> *mut c_void; directory, directory_bytes(directory);
    fn readdir64(directory: *mut DIR) -> *mut c_void; directory, directory_bytes(directory);
    fn readdir_r(directory: *mut DIR, entry: *mut c_void, result: *mut c_void) -> c_int;
        directory, directory_bytes(directory);
    fn readdir64_r(directory: *mut DIR, entry: *mut c_void, result: *mut c_void) -> c_int;
        directory, directory_bytes(directory);
}
