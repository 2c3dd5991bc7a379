//! Whether a file can bypass the page cache, and in which blocks.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::kernel;
use crate::buffer::AlignedBuffer;

/// The blocks that a device can have.
const BLOCK_BYTES: [usize; 2] = [512, 4096];

/// How an open file is read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mode {
    pub(super) direct: bool,
    pub(super) block_bytes: usize,
}

/// Without direct I/O any block would do; the smallest wastes the least.
const BUFFERED: Mode = Mode { direct: false, block_bytes: BLOCK_BYTES[0] };

/// Switches `file` to direct I/O where its file system can do that in blocks of at most 4096 bytes, and to
/// the page cache without read-ahead elsewhere.
pub(super) fn choose(file: &File) -> Mode {
    if let Some(block_bytes) = direct_block(file) {
        return Mode { direct: true, block_bytes };
    }
    // A file that refuses the flag does not have it, so that taking it back cannot fail in a way that
    // matters.
    let _ = kernel::set_direct(file, false);
    kernel::expect_random_reads(file);
    BUFFERED
}

fn direct_block(file: &File) -> Option<usize> {
    if kernel::is_in_memory(file) {
        return None;
    }
    let alignment = kernel::direct_alignment(file);
    if alignment == Some(0) {
        return None;
    }
    kernel::set_direct(file, true).ok()?;
    match alignment {
        Some(alignment) => BLOCK_BYTES.into_iter().find(|&block| alignment as usize <= block),
        None => BLOCK_BYTES.into_iter().find(|&block| can_read_in(file, block)),
    }
}

/// Whether a read of one block works with memory that is aligned to no more than this block.
fn can_read_in(file: &File, block_bytes: usize) -> bool {
    let mut memory = AlignedBuffer::new(2 * block_bytes);
    file.read_at(&mut memory[block_bytes..], 0).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_block_can_be_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mode = choose(&file);
        assert!(BLOCK_BYTES.contains(&mode.block_bytes));
        assert!(can_read_in(&file, mode.block_bytes));
    }

    #[test]
    fn a_trial_agrees_with_what_the_file_system_says() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mode = choose(&file);
        if !mode.direct || kernel::direct_alignment(&file).is_none() {
            println!("SKIPPED a_trial_agrees_with_what_the_file_system_says: it does not say");
            return;
        }
        let smallest = BLOCK_BYTES.into_iter().find(|&block| can_read_in(&file, block));
        assert_eq!(smallest, Some(mode.block_bytes));
    }
}
