//! Transfers by `pread` and `pwrite`: the path that faults take, and that finishes what a ring left undone.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::{DeviceError, Operation};

/// Fills `buf` from `offset`, of which the first `done` bytes are there already.
///
/// # Context
/// Runs in fault handlers: `FileExt` is one system call, and an `io::Error` that holds an error number has no
/// heap memory.
pub(crate) fn read(
    file: &File,
    offset: u64,
    buf: &mut [u8],
    done: usize,
    block_bytes: usize,
) -> Result<(), DeviceError> {
    let whole = Whole { operation: Operation::Read, offset, len_bytes: buf.len(), block_bytes };
    whole.repeat(done, |done| file.read_at(&mut buf[done..], offset + done as u64))
}

/// Writes `buf` at `offset`, where its first `done` bytes are already. Same context as [`read`].
pub(crate) fn write(
    file: &File,
    offset: u64,
    buf: &[u8],
    done: usize,
    block_bytes: usize,
) -> Result<(), DeviceError> {
    let whole = Whole { operation: Operation::Write, offset, len_bytes: buf.len(), block_bytes };
    whole.repeat(done, |done| file.write_at(&buf[done..], offset + done as u64))
}

/// What the system's error number means for a transfer.
pub(crate) fn failure(operation: Operation, offset: u64, len_bytes: usize, errno: i32) -> DeviceError {
    match (operation, errno) {
        (Operation::Write, libc::ENOSPC | libc::EDQUOT) => DeviceError::Full { offset, len_bytes },
        _ => DeviceError::Io { operation, offset, len_bytes, errno },
    }
}

/// The number in an error that a system call returned.
pub(crate) fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// A transfer as the caller asked for it, however many calls it takes.
struct Whole {
    operation: Operation,
    offset: u64,
    len_bytes: usize,
    block_bytes: usize,
}

impl Whole {
    /// Calls `step` with the number of bytes done until all are, and again when a signal interrupts it.
    fn repeat(
        &self,
        mut done: usize,
        mut step: impl FnMut(usize) -> io::Result<usize>,
    ) -> Result<(), DeviceError> {
        let &Whole { operation, offset, len_bytes, block_bytes } = self;
        while done < len_bytes {
            match step(done) {
                Ok(moved) if moved < block_bytes => {
                    let got = done + moved;
                    return Err(DeviceError::ShortTransfer { operation, offset, wanted: len_bytes, got });
                }
                // Direct I/O continues at a block, so a part of one is moved again.
                Ok(moved) => done += moved / block_bytes * block_bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failure(operation, offset, len_bytes, errno_of(&error))),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(operation: Operation) -> Whole {
        Whole { operation, offset: 4096, len_bytes: 2048, block_bytes: 512 }
    }

    /// Runs the steps in turn; returns the outcome and where each of them began.
    fn run(operation: Operation, steps: Vec<io::Result<usize>>) -> (Result<(), DeviceError>, Vec<usize>) {
        let mut begun = Vec::new();
        let mut steps = steps.into_iter();
        let result = whole(operation).repeat(0, |done| {
            begun.push(done);
            steps.next().expect("no step after the last")
        });
        (result, begun)
    }

    #[test]
    fn continues_at_a_block_and_after_a_signal() {
        let interrupted = io::Error::from_raw_os_error(libc::EINTR);
        let (result, begun) =
            run(Operation::Read, vec![Ok(512), Err(interrupted), Ok(700), Ok(512), Ok(512)]);
        assert_eq!(result, Ok(()));
        assert_eq!(begun, [0, 512, 512, 1024, 1536]);
    }

    #[test]
    fn what_is_done_already_is_left_alone() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 4096], 0).unwrap();
        write(&file, 1024, &[2; 2048], 512, 512).unwrap();
        let mut buf = [3; 3072];
        read(&file, 512, &mut buf, 512, 512).unwrap();
        let expected = [[3; 512], [1; 512], [2; 512], [2; 512], [2; 512], [1; 512]];
        assert_eq!(buf.as_slice(), expected.as_flattened());
    }

    #[test]
    fn less_than_a_block_is_the_end() {
        let (result, _) = run(Operation::Read, vec![Ok(1024), Ok(10)]);
        let expected =
            DeviceError::ShortTransfer { operation: Operation::Read, offset: 4096, wanted: 2048, got: 1034 };
        assert_eq!(result, Err(expected));
    }

    #[test]
    fn a_full_disk_has_its_own_error() {
        let full = || vec![Err(io::Error::from_raw_os_error(libc::ENOSPC))];
        assert_eq!(run(Operation::Write, full()).0, Err(DeviceError::Full { offset: 4096, len_bytes: 2048 }));
        let error = run(Operation::Read, full()).0.unwrap_err();
        assert!(matches!(error, DeviceError::Io { errno: libc::ENOSPC, .. }));
    }
}
