//! Where files have holes.
//!
//! The kernel does not bring what programs stored through mappings before it asks. A program may have stored into each page of zeros that the kernel has
//! read. The volume's word counts for all other pages; the kernel is asked to bring these first.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use aquifer_volume::{Ino, PAGE_BYTES, Result, VolumeError};
use fuser::{INodeNo, Notifier};

use crate::attributes::{ino_of, number_of};
use crate::server::Server;

/// More ranges than this of one file become one.
const RANGES_MAX: usize = 256;

/// Zeros that the kernel has read, as ranges of bytes in their order, by file.
#[derive(Default)]
pub struct ZerosRead {
    files: Mutex<HashMap<Ino, Vec<Range<u64>>>>,
    /// How the kernel is asked to bring what it has.
    notifier: OnceLock<Notifier>,
    /// Held by a thread that waits until the kernel has brought something: other threads must be free to take it.
    bringing: Mutex<()>,
}

impl ZerosRead {
    fn lock(&self) -> MutexGuard<'_, HashMap<Ino, Vec<Range<u64>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the kernel be asked by this from now on.
    pub fn ask_by(&self, notifier: Notifier) {
        // There is one session.
        let _ = self.notifier.set(notifier);
    }

    /// Notes the pages of zeros in what is sent to the kernel.
    pub fn note(&self, ino: Ino, offset: u64, bytes: &[u8]) {
        let mut zeros: Vec<Range<u64>> = Vec::new();
        for (start, page) in (offset..).step_by(PAGE_BYTES).zip(bytes.chunks(PAGE_BYTES)) {
            if page.iter().any(|&byte| byte != 0) {
                continue;
            }
            let end = start + PAGE_BYTES as u64;
            match zeros.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => zeros.push(start..end),
            }
        }
        if !zeros.is_empty() {
            add(self.lock().entry(ino).or_default(), &zeros);
        }
    }

    /// The kernel has nothing of a file any more.
    pub fn forget(&self, ino: Ino) {
        self.lock().remove(&ino);
    }

    /// What the kernel may have changed of a file without a word, after it was asked to bring that.
    fn brought(&self, ino: Ino) -> Vec<Range<u64>> {
        let bringing = self.bringing.try_lock();
        if let (Ok(_alone), Some(notifier)) = (&bringing, self.notifier.get()) {
            let ranges = self.lock().remove(&ino).unwrap_or_default();
            let is_brought = |range: &Range<u64>| {
                let len = range.end - range.start;
                notifier.inval_inode(number_of(ino), range.start as i64, len as i64).is_ok()
            };
            let left: Vec<_> = ranges.into_iter().filter(|range| !is_brought(range)).collect();
            if !left.is_empty() {
                add(self.lock().entry(ino).or_default(), &left);
            }
        }
        self.lock().get(&ino).cloned().unwrap_or_default()
    }
}

/// Adds ranges, and joins those that touch.
fn add(ranges: &mut Vec<Range<u64>>, more: &[Range<u64>]) {
    ranges.extend_from_slice(more);
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let is_joined = next.start <= last.end;
        if is_joined {
            last.end = last.end.max(next.end);
        }
        is_joined
    });
    if ranges.len() > RANGES_MAX {
        ranges[0].end = ranges[ranges.len() - 1].end;
        ranges.truncate(1);
    }
}

impl Server {
    /// What else is known of a file's pages in the kernel goes when the kernel forgets the file.
    pub fn forget_kernel(&self, ino: Ino) {
        self.zeros_read.forget(ino);
        if let Some(write_back) = &self.write_back {
            write_back.forget(ino);
        }
    }

    /// Where the next data of a file, or its next hole, begins.
    pub fn seek(&self, ino: INodeNo, offset: i64, whence: i32) -> Result<i64> {
        const NONE: VolumeError = VolumeError::System { step: "looking for data", errno: libc::ENXIO };
        let ino = ino_of(ino)?;
        let from = u64::try_from(offset).map_err(|_| NONE)?;
        // Pages that the kernel has and keeps are data, wherever they are.
        let is_all_data = self.write_back.as_ref().is_some_and(|write_back| !write_back.bring(ino, from));
        let size_bytes = self.volume.inode(ino)?.size_bytes;
        if from >= size_bytes {
            return Err(NONE);
        }
        let changed = if is_all_data {
            std::iter::once(0..size_bytes).collect()
        } else if self.is_read_only || self.write_back.is_some() {
            Vec::new()
        } else {
            self.zeros_read.brought(ino)
        };
        let found = match whence {
            libc::SEEK_DATA => {
                let next = self.volume.next_data(ino, from)?;
                let changed =
                    changed.iter().find(|range| range.end > from).map(|range| range.start.max(from));
                next.into_iter().chain(changed).min().filter(|&at| at < size_bytes).ok_or(NONE)?
            }
            libc::SEEK_HOLE => {
                let mut at = from;
                loop {
                    at = self.volume.next_hole(ino, at)?.unwrap_or(size_bytes);
                    match changed.iter().find(|range| range.contains(&at)) {
                        Some(range) => at = range.end,
                        None => break at.min(size_bytes),
                    }
                }
            }
            _ => return Err(VolumeError::Invalid("a way to seek that is not known")),
        };
        Ok(found as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_zeros_are_noted_and_forgotten() {
        let (read, ino, page) = (ZerosRead::default(), Ino(9), PAGE_BYTES as u64);
        let mut bytes = vec![0; 4 * PAGE_BYTES];
        bytes[PAGE_BYTES + 7] = 1;
        read.note(ino, 8 * page, &bytes);
        assert_eq!(read.brought(ino), [8 * page..9 * page, 10 * page..12 * page]);
        read.note(ino, 9 * page, &[0; 100]);
        assert_eq!(read.brought(ino), Vec::from_iter(Some(8 * page..12 * page)));
        read.note(ino, 20 * page, &[1; 100]);
        assert_eq!(read.brought(ino), Vec::from_iter(Some(8 * page..12 * page)));
        read.forget(ino);
        assert_eq!(read.brought(ino), []);
    }

    #[test]
    fn many_ranges_become_one() {
        let mut ranges = Vec::new();
        for n in 0..2 * RANGES_MAX as u64 {
            add(&mut ranges, std::slice::from_ref(&(n * 10..n * 10 + 1)));
        }
        assert!(ranges.len() <= RANGES_MAX && ranges[0].start == 0);
        assert_eq!(ranges.last().map(|last| last.end), Some(2 * RANGES_MAX as u64 * 10 - 9));
    }
}
