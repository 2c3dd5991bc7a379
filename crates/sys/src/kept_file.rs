//! Files of the kernel that are read again and again.

use core::ffi::CStr;

use crate::descriptors;
use crate::process::{open_to_read, read_to_end};

/// A file that stays open: each look at it has what it says now, and takes no number of a descriptor that the program may count on.
#[derive(Debug)]
pub struct KeptFile(libc::c_int);

impl KeptFile {
    /// `None` if there is none, or too many are open.
    pub fn open(path: &CStr) -> Option<KeptFile> {
        open_to_read(path).map(|fd| KeptFile(descriptors::own(fd)))
    }

    /// What it says, as far as there is room for it; nothing if it can be read no more.
    ///
    /// # Context
    /// System calls only; signal-safe.
    pub fn read<'a>(&self, buf: &'a mut [u8]) -> &'a [u8] {
        let filled = read_to_end(self.0, buf);
        &buf[..filled]
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        descriptors::close(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_is_read() {
        let file = KeptFile::open(c"/proc/self/oom_score_adj").expect("proc");
        let say =
            |text: &str| std::fs::write("/proc/self/oom_score_adj", text).expect("a larger one is allowed");
        let before = std::str::from_utf8(file.read(&mut [0; 16])).expect("text").trim().parse::<i32>();
        let before = before.expect("a number");
        say(&(before + 1).to_string());
        assert_eq!(file.read(&mut [0; 16]).trim_ascii(), (before + 1).to_string().as_bytes());
        assert_eq!(file.read(&mut []), b"");
        assert!(KeptFile::open(c"/proc/self/none").is_none());
    }
}
