//! The lines of a file of the kernel, read in a fault handler.

use std::ffi::CStr;

const BUFFER_BYTES: usize = 4096;

/// Calls `each` with every line of the file, without its end. Lines that are longer than any path are left out.
pub fn for_each_line_in_fault(path: &CStr, each: &mut dyn FnMut(&[u8])) {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    if fd < 0 {
        return;
    }
    let mut buffer = [0; BUFFER_BYTES];
    let mut filled = 0;
    loop {
        let room = &mut buffer[filled..];
        // SAFETY: the kernel writes at most as many bytes as there is room for.
        let got = unsafe { libc::syscall(libc::SYS_read, fd, room.as_mut_ptr(), room.len()) };
        let Some(got) = usize::try_from(got).ok().filter(|got| *got > 0) else { break };
        filled += got;
        let mut rest = &buffer[..filled];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            each(&rest[..end]);
            rest = &rest[end + 1..];
        }
        let left = rest.len();
        buffer.copy_within(filled - left..filled, 0);
        // A line that fills the buffer would leave no room to read.
        filled = if left < BUFFER_BYTES { left } else { 0 };
    }
    // SAFETY: opened above, and used nowhere else.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}
