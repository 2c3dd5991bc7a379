//! Files whose bytes somebody may need.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::path::Path;

use super::FileDevice;

/// An extended attribute of files whose bytes are memory of a process, and nothing to anybody when it has ended.
const MARK: &CStr = c"user.aquifer.memory";
/// Bytes that are looked at, from the first on that the file system has.
const LOOKED_AT_BYTES: u64 = 1 << 20;

impl FileDevice {
    /// Whether there is a regular file at `path` with bytes other than zeros, which no process has had as memory: such memory would overwrite it.
    pub fn holds_data(path: &Path) -> bool {
        let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
        // What cannot be read is told by who opens it.
        let Some(mut file) = is_file.then(|| OpenOptions::new().read(true).open(path).ok()).flatten() else {
            return false;
        };
        !is_marked(&file) && has_bytes(&mut file)
    }

    /// Notes that the file's bytes are memory, where the file system keeps such notes: it may be used so again after this process was killed.
    pub fn mark_as_memory(&self) {
        let yes = [1u8];
        // SAFETY: the descriptor is open, the name ends with a zero byte, and the kernel reads one byte.
        unsafe { libc::fsetxattr(self.file.as_raw_fd(), MARK.as_ptr(), yes.as_ptr().cast(), yes.len(), 0) };
    }
}

fn is_marked(file: &File) -> bool {
    // SAFETY: as above; without room only the size is told.
    unsafe { libc::fgetxattr(file.as_raw_fd(), MARK.as_ptr(), std::ptr::null_mut(), 0) >= 0 }
}

fn has_bytes(file: &mut File) -> bool {
    // SAFETY: the descriptor is open.
    let first = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_DATA) };
    // Only holes, or a file system that does not tell.
    let first = u64::try_from(first).unwrap_or(0);
    let mut bytes = Vec::new();
    let read =
        file.seek(SeekFrom::Start(first)).and_then(|_| file.take(LOOKED_AT_BYTES).read_to_end(&mut bytes));
    read.is_ok() && bytes.iter().any(|&byte| byte != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_others_are_seen_and_zeros_and_memory_are_none() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("file");
        assert!(!FileDevice::holds_data(&path) && !FileDevice::holds_data(folder.path()));
        std::fs::write(&path, vec![0; 100_000]).unwrap();
        assert!(!FileDevice::holds_data(&path), "zeros are no data");
        File::create(&path).unwrap().set_len(1 << 30).unwrap();
        assert!(!FileDevice::holds_data(&path), "holes are no data");
        std::fs::write(&path, "precious").unwrap();
        assert!(FileDevice::holds_data(&path));
        let device = FileDevice::create(&path, 1 << 20).unwrap();
        device.mark_as_memory();
        if is_marked(&device.file) {
            assert!(!FileDevice::holds_data(&path), "it was memory of a process");
        } else {
            println!("SKIPPED a mark: this file system has no extended attributes");
        }
    }
}
