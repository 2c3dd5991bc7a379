//! What the kernel tells of this process in `/proc`, read without allocating: a thread of the program may hold the locks of its malloc, which the C
//! library's functions for directories would need.

use std::ffi::CStr;

use libc::c_long;

use crate::hooks::raw::direct;

/// An open file or directory.
pub struct Opened(usize);

impl Opened {
    /// The path ends with a zero byte.
    pub fn new(path: &[u8]) -> Option<Self> {
        let (at, flags) = (path.as_ptr() as usize, (libc::O_RDONLY | libc::O_CLOEXEC) as usize);
        // SAFETY: the path is one.
        let opened = unsafe { direct(libc::SYS_openat, libc::AT_FDCWD as usize, at, flags, 0, 0, 0) };
        usize::try_from(opened).ok().map(Self)
    }

    /// By `read` or `getdents64`; 0 at the end, and after an error.
    pub fn read(&self, number: c_long, to: &mut [u8]) -> usize {
        // SAFETY: `to` has room for `to.len()` bytes.
        let count = unsafe { direct(number, self.0, to.as_mut_ptr() as usize, to.len(), 0, 0, 0) };
        usize::try_from(count).unwrap_or(0)
    }

    /// The first bytes of what a link in this directory says; how many. The name ends with a zero byte.
    fn link(&self, name: &[u8], to: &mut [u8]) -> usize {
        let (name, room) = (name.as_ptr() as usize, to.as_mut_ptr() as usize);
        // SAFETY: `name` ends with a zero byte, and `to` has room for `to.len()` bytes.
        let count = unsafe { direct(libc::SYS_readlinkat, self.0, name, room, to.len(), 0, 0) };
        usize::try_from(count).unwrap_or(0)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: it is open, and nobody else's.
        unsafe { direct(libc::SYS_close, self.0, 0, 0, 0, 0, 0) };
    }
}

/// Calls `visit` with the directory and the name, without its zero byte, of each entry that is called by a number: threads, descriptors.
pub fn for_each_number(path: &CStr, mut visit: impl FnMut(&Opened, &[u8])) {
    let Some(directory) = Opened::new(path.to_bytes_with_nul()) else { return };
    let mut entries = [0; 4096];
    loop {
        let count = directory.read(libc::SYS_getdents64, &mut entries);
        if count == 0 {
            return;
        }
        let mut left = &entries[..count];
        // An entry: 16 bytes, its length, its kind, its name.
        while let Some(&[low, high]) = left.get(16..18) {
            let (entry, others) = left.split_at(usize::from(u16::from_le_bytes([low, high])).min(left.len()));
            left = others;
            let name = entry.get(19..).and_then(|name| name.split(|byte| *byte == 0).next()).unwrap_or(&[]);
            if name.first().is_some_and(u8::is_ascii_digit) {
                visit(&directory, name);
            }
        }
    }
}

/// Whether the program has an io_uring.
pub fn has_ring() -> bool {
    const RING: &[u8] = b"anon_inode:[io_uring]";
    let mut has_ring = false;
    for_each_number(c"/proc/self/fd", |directory, name| {
        let (mut named, mut link) = ([0; 16], [0; RING.len() + 1]);
        if let Some(room) = named[..15].get_mut(..name.len()) {
            room.copy_from_slice(name);
            let count = directory.link(&named, &mut link);
            has_ring |= &link[..count] == RING;
        }
    });
    has_ring
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found() {
        let own = |path: &[u8]| Opened::new(path).is_some();
        assert!(own(b"/proc/self/task\0") && !own(b"/proc/self/none\0"));
        let (mut threads, id) = (Vec::new(), std::process::id());
        for_each_number(c"/proc/self/task", |_, name| {
            threads.push(String::from_utf8(name.to_vec()).unwrap())
        });
        assert!(threads.contains(&id.to_string()), "{threads:?}");
    }

    #[test]
    fn rings_are_told_from_other_files() {
        let mut parameters = [0u8; 120];
        let at = parameters.as_mut_ptr() as usize;
        // SAFETY: the parameters of io_uring_setup have 120 bytes.
        let ring = unsafe { direct(libc::SYS_io_uring_setup, 4, at, 0, 0, 0, 0) };
        if ring < 0 {
            crate::tell::tell!("SKIP io_uring: error {}", -ring);
            return;
        }
        assert!(has_ring());
        // SAFETY: it is the test's.
        unsafe { direct(libc::SYS_close, ring as usize, 0, 0, 0, 0, 0) };
        assert!(!has_ring());
    }
}
