//! Bytes of files.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::ahead::PAGES_AT_ONCE;
use crate::block::Trim;
use crate::core::Change;
use crate::error::{Result, VolumeError};
use crate::frame::PageMemory;
use crate::inode::{Inode, Kind, SIZE_BYTES_MAX, Time};
use crate::inodes::Cell;
use crate::key::{Ino, PageKey};
use crate::sync::RwLockWriteGuard;
use crate::volume::Volume;
use crate::word::PAGE_BYTES;

/// A system call says ENXIO of a socket.
pub(crate) const NODE: VolumeError =
    VolumeError::System { step: "the bytes of a pipe, a socket or a device", errno: libc::ENXIO };

/// The part of one page that a range of a file touches.
struct Piece {
    page: u32,
    offset: usize,
    /// Of the range.
    bytes: Range<usize>,
}

/// The pages of `len` bytes from `offset`, which lies below the largest size.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let at = offset + done as u64;
        let in_page = (at % PAGE_BYTES as u64) as usize;
        let piece = (PAGE_BYTES - in_page).min(len - done);
        done += piece;
        Some(Piece { page: (at / PAGE_BYTES as u64) as u32, offset: in_page, bytes: done - piece..done })
    })
}

/// The first page that lies wholly behind `size_bytes`.
fn pages_of(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(PAGE_BYTES as u64)
}

impl Volume {
    /// Reads from a file; returns how many bytes there were, fewer than asked for only at its end.
    ///
    /// # Errors
    /// [`VolumeError::IsAFolder`]; the bytes could not be read.
    pub fn read(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let cell = self.cell(ino);
        let _unchanged = cell.read();
        let inode = self.file(ino)?;
        let left = inode.size_bytes.saturating_sub(offset);
        let len = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let memory = cell.memory();
        if len > PAGE_BYTES {
            if memory.is_none() {
                self.read_on(&cell, ino, offset, len);
            }
            self.read_pages(ino, memory.as_ref(), offset, len)?;
        }
        for piece in pieces(offset, len) {
            let key = PageKey::data(ino, piece.page);
            let target = &mut bytes[piece.bytes];
            self.core().with_page(key, memory.as_ref(), |_, state| state.read(key, piece.offset, target))?;
        }
        Ok(len)
    }

    /// Has pages read that will be needed, if calls go through a file that nobody has mapped.
    fn read_on(&self, cell: &Arc<Cell>, ino: Ino, offset: u64, len: usize) {
        let pages = (offset / PAGE_BYTES as u64) as u32..pages_of(offset + len as u64) as u32;
        let core = self.core();
        let ahead = cell.followed.note(pages, core.cache.recent_max() / 4);
        for first in ahead.step_by(PAGES_AT_ONCE as usize) {
            if core.cache.peek(PageKey::data(ino, first)).is_some() {
                continue;
            }
            let cell = Arc::clone(cell);
            core.readers.ask(move |core| {
                let _unchanged = cell.read();
                let Ok(inode) = core.inode(ino) else { return };
                let end = pages_of(inode.size_bytes) as u32;
                if !cell.is_mapped() {
                    // The call that needs a page that could not be read meets the error again.
                    let _ = core.read_ahead(ino, first, end.saturating_sub(first), None, |_, _| Ok(None));
                }
            });
        }
    }

    /// Brings the pages of a range to RAM, many at a time. What does not fit goes again before it is used, and is read once more then.
    fn read_pages(
        &self,
        ino: Ino,
        memory: Option<&Arc<dyn PageMemory>>,
        offset: u64,
        len: usize,
    ) -> Result<()> {
        let first = (offset / PAGE_BYTES as u64) as u32;
        let end = pages_of(offset + len as u64) as u32;
        for at in (first..end).step_by(PAGES_AT_ONCE as usize) {
            self.core().read_ahead(ino, at, end - at, None, |first, bytes| {
                let Some(memory) = memory else { return Ok(None) };
                for (index, page) in (first..).zip(bytes.chunks_exact(PAGE_BYTES)) {
                    if !memory.fill(index, page.try_into().expect("a page"))? {
                        return Ok(None);
                    }
                }
                Ok(Some(Arc::clone(memory)))
            })?;
        }
        Ok(())
    }

    /// Writes to a file, which grows if need be. Returns how many bytes were written: all, unless the volume
    /// is full. The bytes within 64 pages from the first one on are written atomically.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`] if there was no room for the first page, [`VolumeError::TooLarge`].
    ///
    /// # Durability
    /// None before [`Volume::sync`].
    pub fn write(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<usize> {
        let cell = self.cell(ino);
        let _alone = cell.write();
        self.write_alone(ino, cell.memory().as_ref(), offset, bytes)
    }

    /// Writes behind the last byte of a file; returns where.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn append(&self, ino: Ino, bytes: &[u8]) -> Result<(u64, usize)> {
        let cell = self.cell(ino);
        let _alone = cell.write();
        let offset = self.file(ino)?.size_bytes;
        Ok((offset, self.write_alone(ino, cell.memory().as_ref(), offset, bytes)?))
    }

    /// Writes `writes`, offsets with bytes, to a file atomically: a crash leaves all of them or none. Where
    /// they overlap, the later one counts.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`], [`VolumeError::TooLarge`], and [`VolumeError::Invalid`] for more pages than may wait in RAM for a commit: nothing was
    /// written. If a page could not be read while others were written already, the volume takes no more changes.
    ///
    /// # Durability
    /// None before [`Volume::sync`].
    pub fn write_together(&self, ino: Ino, writes: &[(u64, &[u8])]) -> Result<()> {
        let mut size_bytes = 0;
        let mut pages = HashSet::new();
        for &(offset, bytes) in writes {
            let end = offset.checked_add(bytes.len() as u64).filter(|&end| end <= SIZE_BYTES_MAX);
            size_bytes = end.ok_or(VolumeError::TooLarge)?.max(size_bytes);
            pages.extend(pieces(offset, bytes.len()).map(|piece| piece.page));
        }
        if pages.len() > self.core().limits().dirty_pages {
            return Err(VolumeError::Invalid("these are more pages than can be written in one moment"));
        }
        let cell = self.cell(ino);
        let _alone = cell.write();
        let change = self.core().begin()?;
        self.file(ino)?;
        let mut new = 0;
        for page in pages {
            new += u64::from(self.needs_room(PageKey::data(ino, page))?);
        }
        change.reserve(ino, new)?;
        let memory = cell.memory();
        self.write_reserved(&change, ino, memory.as_ref(), size_bytes, writes).inspect_err(|error| {
            // Half of it must never be committed.
            self.core().stop(error);
        })
    }

    fn write_reserved(
        &self,
        change: &Change<'_>,
        ino: Ino,
        memory: Option<&Arc<dyn PageMemory>>,
        size_bytes: u64,
        writes: &[(u64, &[u8])],
    ) -> Result<()> {
        let mut first = 0;
        for &(offset, bytes) in writes {
            for piece in pieces(offset, bytes.len()) {
                let key = PageKey::data(ino, piece.page);
                first += u64::from(change.write_page(key, piece.offset, &bytes[piece.bytes], memory)?);
            }
        }
        // Rights, names and attributes of the file may be changed meanwhile.
        let note = |inode: &mut Inode| {
            inode.pages += first;
            inode.size_bytes = inode.size_bytes.max(size_bytes);
            touch(inode);
        };
        change.update_inode(ino, note).map(drop)
    }

    fn write_alone(
        &self,
        ino: Ino,
        memory: Option<&Arc<dyn PageMemory>>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<usize> {
        /// Pages that are written between two looks whether a commit is due.
        const PAGES_AT_ONCE: usize = 64;
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > SIZE_BYTES_MAX) {
            return Err(VolumeError::TooLarge);
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let in_page = (at % PAGE_BYTES as u64) as usize;
            let len = (PAGES_AT_ONCE * PAGE_BYTES - in_page).min(bytes.len() - done);
            let change = self.core().begin()?;
            let outcome = self.write_some(&change, ino, memory, at, &bytes[done..done + len]);
            match outcome {
                Ok(written) if written == len => done += len,
                Ok(written) => return Ok(done + written),
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes what there is room for.
    fn write_some(
        &self,
        change: &Change<'_>,
        ino: Ino,
        memory: Option<&Arc<dyn PageMemory>>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<usize> {
        let before = self.file(ino)?;
        self.clear_tail(change, ino, &before, memory, offset)?;
        let (mut written, mut first, mut outcome) = (0, 0, Ok(()));
        for piece in pieces(offset, bytes.len()) {
            let key = PageKey::data(ino, piece.page);
            match change.write_page(key, piece.offset, &bytes[piece.bytes.clone()], memory) {
                Ok(is_first) => first += u64::from(is_first),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
            written = piece.bytes.end;
        }
        if written == 0 {
            return outcome.map(|()| 0);
        }
        change.update_inode(ino, |inode| {
            inode.pages += first;
            inode.size_bytes = inode.size_bytes.max(offset + written as u64);
            touch(inode);
        })?;
        Ok(written)
    }

    /// Before a file grows to `offset`: what a program stored behind its end, in its last page, must not become part of it. A program that has it mapped may
    /// store there while this looks, so then it is cleared in any case.
    pub(crate) fn clear_tail(
        &self,
        change: &Change<'_>,
        ino: Ino,
        inode: &Inode,
        memory: Option<&Arc<dyn PageMemory>>,
        offset: u64,
    ) -> Result<()> {
        let in_page = (inode.size_bytes % PAGE_BYTES as u64) as usize;
        if in_page == 0 || offset <= inode.size_bytes {
            return Ok(());
        }
        let key = PageKey::data(ino, (inode.size_bytes / PAGE_BYTES as u64) as u32);
        if !self.is_stored(key)? {
            return Ok(());
        }
        let mut tail = [0; PAGE_BYTES];
        let tail = &mut tail[in_page..];
        change.core().with_page(key, memory, |_, state| state.read(key, in_page, tail))?;
        if memory.is_some() || tail.iter().any(|&byte| byte != 0) {
            let is_first = change.write_page(key, in_page, &[0; PAGE_BYTES][in_page..], memory)?;
            change.update_inode(ino, |inode| inode.pages += u64::from(is_first))?;
        }
        Ok(())
    }

    /// Changes the size of a file: what is cut off is gone, what is added reads as zeros.
    ///
    /// # Errors
    /// [`VolumeError::TooLarge`], [`VolumeError::IsAFolder`].
    pub fn truncate(&self, ino: Ino, size_bytes: u64) -> Result<()> {
        if size_bytes > SIZE_BYTES_MAX {
            return Err(VolumeError::TooLarge);
        }
        let cell = self.cell(ino);
        let _alone = cell.write();
        let change = self.core().begin()?;
        let inode = self.file(ino)?;
        let memory = cell.memory();
        self.clear_tail(&change, ino, &inode, memory.as_ref(), size_bytes)?;
        let resize = |inode: &mut Inode| {
            inode.size_bytes = size_bytes;
            touch(inode);
        };
        let end = inode.end_page() * PAGE_BYTES as u64;
        if size_bytes >= inode.size_bytes {
            return change.update_inode(ino, resize).map(drop);
        }
        let behind = self.zero(&change, ino, memory.as_ref(), &inode, size_bytes, end)?;
        let taken = self.core().take_pages(ino);
        // First the size: nobody brings a page from then on that is cut off.
        change.update_inode(ino, |inode| {
            inode.reserved_end = 0;
            resize(inode);
        })?;
        self.free_pages(&change, &taken, ino, &inode, behind)
    }

    /// Makes a range of a file zeros that take no room, also where it was reserved behind the end. The size stays.
    ///
    /// # Errors
    /// [`VolumeError::IsAFolder`]; a page that is zeroed in part could not be read.
    pub fn punch(&self, ino: Ino, offset: u64, len_bytes: u64) -> Result<()> {
        let cell = self.cell(ino);
        let _alone = cell.write();
        let change = self.core().begin()?;
        let inode = self.file(ino)?;
        let end = offset.saturating_add(len_bytes).min(inode.end_page() * PAGE_BYTES as u64);
        if offset < end {
            let within = self.zero(&change, ino, cell.memory().as_ref(), &inode, offset, end)?;
            let taken = self.core().take_pages(ino);
            self.free_pages(&change, &taken, ino, &inode, within)?;
        }
        change.update_inode(ino, touch).map(drop)
    }

    /// Zeros the bytes `start..end` of a file in pages that do not lie wholly in it. Returns those that do, or end behind the end of the file: they can be
    /// freed.
    fn zero(
        &self,
        change: &Change<'_>,
        ino: Ino,
        memory: Option<&Arc<dyn PageMemory>>,
        inode: &Inode,
        start: u64,
        end: u64,
    ) -> Result<Range<u64>> {
        let page = PAGE_BYTES as u64;
        let is_to_end = end >= inode.size_bytes;
        let first = start.div_ceil(page);
        let end_page = if is_to_end { pages_of(inode.size_bytes).max(end / page) } else { end / page };
        let zeros = [0; PAGE_BYTES];
        let clear = |from: u64, to: u64| -> Result<()> {
            let key = PageKey::data(ino, (from / page) as u32);
            if from < to && self.is_stored(key)? {
                let is_first =
                    change.write_page(key, (from % page) as usize, &zeros[..(to - from) as usize], memory)?;
                change.update_inode(ino, |inode| inode.pages += u64::from(is_first))?;
            }
            Ok(())
        };
        clear(start, end.min(first * page))?;
        if !is_to_end && end_page >= first {
            clear((end_page * page).max(start), end)?;
        }
        Ok(first..end_page)
    }

    /// Whether a page is anything but zeros that take no room.
    fn is_stored(&self, key: PageKey) -> Result<bool> {
        let core = self.core();
        if core.cache.peek(key).is_some() {
            return Ok(true);
        }
        Ok(!core.trims.covers(key)
            && core.table.get(&core.flash, key.ino(), key.index())? != crate::word::Word::ZERO)
    }

    /// Whether flash has nothing of a page and was promised to nobody for it.
    pub(crate) fn needs_room(&self, key: PageKey) -> Result<bool> {
        let core = self.core();
        if let Some(frame) = core.cache.peek(key)
            && let Some(state) = frame.ready()?
        {
            return Ok(state.is_new && !state.is_promised);
        }
        Ok(!self.is_stored(key)?)
    }

    /// Frees pages of a file, which the caller may take away from it ([`crate::core::Core::take_pages`]). They read as zeros before the first of them is taken away: who brings one meanwhile brings zeros.
    pub(crate) fn free_pages(
        &self,
        change: &Change<'_>,
        _taken: &RwLockWriteGuard<'_, ()>,
        ino: Ino,
        inode: &Inode,
        pages: Range<u64>,
    ) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let core = change.core();
        let (first, last) = (pages.start as u32, u32::try_from(pages.end - 1).unwrap_or(u32::MAX));
        let trim = Trim { ino, first, last };
        let before = core.trims.of(ino);
        core.trims.add(trim);
        let mut freed = 0;
        let mut seen = HashSet::new();
        let mut cut = |index: u32| {
            core.cache.cut(PageKey::data(ino, index), |state| {
                seen.insert(index);
                freed += u64::from(!state.is_new || state.is_promised);
                core.forget_promise(state);
            })
        };
        if u64::from(last - first) < core.cache.frames() as u64 {
            (first..=last).try_for_each(&mut cut)?;
        } else {
            let keys = core.cache.keys_of(ino).into_iter().map(PageKey::index);
            keys.filter(|index| (first..=last).contains(index)).try_for_each(&mut cut)?;
        }
        let is_all = first == 0 && inode.end_page() <= u64::from(last) + 1;
        if !is_all {
            let was_trimmed = |index| before.iter().any(|trim| trim.covers(PageKey::data(ino, index)));
            let was_stored = |index| !seen.contains(&index) && !was_trimmed(index);
            freed += core.table.count(&core.flash, ino, first, last, was_stored)?;
        }
        change.update_inode(ino, |inode| {
            inode.pages = if is_all { 0 } else { inode.pages.saturating_sub(freed) }
        })?;
        Ok(())
    }

    /// The inode of a file whose bytes may be read and written.
    pub(crate) fn file(&self, ino: Ino) -> Result<Inode> {
        let inode = self.core().inode(ino)?;
        match inode.kind {
            Kind::File => Ok(inode),
            Kind::Folder => Err(VolumeError::IsAFolder),
            Kind::Symlink => Err(VolumeError::Invalid("a symbolic link has no bytes to read or write")),
            Kind::Pipe | Kind::Socket | Kind::BlockDevice | Kind::CharacterDevice => Err(NODE),
            Kind::Xattrs => Err(VolumeError::NotFound),
        }
    }
}

/// Notes a change of a file's bytes.
pub(crate) fn touch(inode: &mut Inode) {
    inode.written_at = Time::now();
    inode.changed_at = inode.written_at;
}
