//! Where a file has bytes, and where it is zeros that take no room.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::error::Result;
use crate::key::{Ino, PageKey};
use crate::volume::Volume;
use crate::word::PAGE_BYTES;

impl Volume {
    /// Ranges of a file, from byte `from` on and in their order, that may hold anything but zeros: at most `ranges_max`. All else reads as
    /// zeros, behind the last range only if there are fewer than `ranges_max`. Ranges begin and end with pages, or with the file.
    ///
    /// # Errors
    /// [`VolumeError::IsAFolder`](crate::VolumeError::IsAFolder); the table could not be read.
    pub fn data_ranges(&self, ino: Ino, from: u64, ranges_max: usize) -> Result<Vec<Range<u64>>> {
        let cell = self.cell(ino);
        let _unchanged = cell.read();
        let inode = self.file(ino)?;
        let page_bytes = PAGE_BYTES as u64;
        let end = inode.size_bytes;
        let mut ranges: Vec<Range<u64>> = Vec::new();
        if from >= end {
            return Ok(ranges);
        }
        // Before the table: what a commit takes meanwhile is in one of them.
        let in_ram: BTreeSet<u32> = self.pages_in_ram(ino).collect();
        let mut at = from / page_bytes;
        while at * page_bytes < end {
            let first = at as u32;
            let next_in_ram = in_ram.range(first..).next().copied();
            let next_on_flash = self.next_on_flash(ino, first)?;
            let Some(page) = next_in_ram.into_iter().chain(next_on_flash).min() else { break };
            let start = u64::from(page) * page_bytes;
            if start >= end {
                break;
            }
            let bytes = start.max(from)..(start + page_bytes).min(end);
            let is_full = ranges.len() == ranges_max;
            match ranges.last_mut() {
                Some(last) if last.end == bytes.start => last.end = bytes.end,
                _ if is_full => break,
                _ => ranges.push(bytes),
            }
            at = u64::from(page) + 1;
        }
        Ok(ranges)
    }

    /// The first byte from `from` on that may be anything but zero, by pages; `None` if there is none before the end.
    ///
    /// # Errors
    /// As [`Volume::data_ranges`].
    pub fn next_data(&self, ino: Ino, from: u64) -> Result<Option<u64>> {
        let cell = self.cell(ino);
        let _unchanged = cell.read();
        let end = self.file(ino)?.size_bytes;
        if from >= end {
            return Ok(None);
        }
        let first = (from / PAGE_BYTES as u64) as u32;
        // Before the table, as in `data_ranges`.
        let in_ram = self.pages_in_ram(ino).filter(|&page| page >= first).min();
        let page = in_ram.into_iter().chain(self.next_on_flash(ino, first)?).min();
        let start = page.map(|page| (u64::from(page) * PAGE_BYTES as u64).max(from));
        Ok(start.filter(|&start| start < end))
    }

    /// The first byte from `from` on that is in a page of zeros without room; the end of the file if there is none before it, `None` behind that.
    ///
    /// # Errors
    /// As [`Volume::data_ranges`].
    pub fn next_hole(&self, ino: Ino, from: u64) -> Result<Option<u64>> {
        let cell = self.cell(ino);
        let _unchanged = cell.read();
        let end = self.file(ino)?.size_bytes;
        if from >= end {
            return Ok(None);
        }
        let core = self.core();
        let is_trimmed = |page| core.trims.covers(PageKey::data(ino, page));
        let mut at = from / PAGE_BYTES as u64;
        while at < end.div_ceil(PAGE_BYTES as u64) {
            // RAM before the table, as in `data_ranges`.
            let run_end = if self.is_data_in_ram(PageKey::data(ino, at as u32)) {
                at + 1
            } else {
                core.table.run_end(&core.flash, ino, at as u32, is_trimmed)?
            };
            if run_end == at {
                break;
            }
            at = run_end;
        }
        Ok(Some((at * PAGE_BYTES as u64).clamp(from, end)))
    }

    /// Pages of a file in RAM that are, or will be, on flash.
    fn pages_in_ram(&self, ino: Ino) -> impl Iterator<Item = u32> + '_ {
        let keys = self.core().cache.keys_of(ino).into_iter();
        keys.filter(|&key| self.is_data_in_ram(key)).map(PageKey::index)
    }

    /// Whether a page is in RAM and more than zeros that were read where flash has nothing.
    fn is_data_in_ram(&self, key: PageKey) -> bool {
        let Some(frame) = self.core().cache.peek(key) else { return false };
        match frame.ready() {
            Ok(Some(state)) => !state.is_new || state.is_promised,
            // The table has what has left.
            Ok(None) => false,
            // What cannot be read is there.
            Err(_) => true,
        }
    }

    /// The first page from `first` on that is on flash, and was not made zeros since.
    fn next_on_flash(&self, ino: Ino, first: u32) -> Result<Option<u32>> {
        let core = self.core();
        let mut at = Some(first);
        while let Some(first) = at {
            match core.table.next(&core.flash, ino, first)? {
                Some(page) if core.trims.covers(PageKey::data(ino, page)) => at = page.checked_add(1),
                found => return Ok(found),
            }
        }
        Ok(None)
    }
}
