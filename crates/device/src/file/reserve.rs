//! Disk space for the whole of a file, taken when it is opened.
//!
//! A program that runs out of disk in the middle of an eviction has nowhere to put its data. So the space is
//! reserved before the first byte is promised, and kept until the file is removed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::kernel;
use crate::buffer::AlignedBuffer;

/// Zeros written per call where the file system cannot reserve.
const ZEROS_BYTES: u64 = 1 << 20;

/// Makes `file` at least `len_bytes` long, with disk space for all of that; what it holds already stays.
///
/// # Errors
/// ENOSPC or EDQUOT when there is not enough space; the file may have grown.
pub(super) fn reserve(file: &File, len_bytes: u64) -> io::Result<()> {
    match kernel::allocate(file, len_bytes) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
            grow_by_writing(file, len_bytes)
        }
        result => result,
    }
}

/// Writes zeros behind the end. Holes before it stay holes: to fill them one must read the whole file, and a
/// file system without `fallocate` seldom has any.
fn grow_by_writing(file: &File, len_bytes: u64) -> io::Result<()> {
    let zeros = AlignedBuffer::new(ZEROS_BYTES as usize);
    let mut end = file.metadata()?.len();
    while end < len_bytes {
        let step = (len_bytes - end).min(ZEROS_BYTES);
        file.write_all_at(&zeros[..step as usize], end)?;
        end += step;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_grows_a_file_and_keeps_what_it_holds() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"kept", 0).unwrap();
        let len_bytes = ZEROS_BYTES + 4096;
        grow_by_writing(&file, len_bytes).unwrap();
        assert_eq!(file.metadata().unwrap().len(), len_bytes);
        let mut start = [1; 8];
        file.read_exact_at(&mut start, 0).unwrap();
        assert_eq!(&start, b"kept\0\0\0\0");
        grow_by_writing(&file, 4096).unwrap();
        assert_eq!(file.metadata().unwrap().len(), len_bytes, "never shorter");
    }
}
