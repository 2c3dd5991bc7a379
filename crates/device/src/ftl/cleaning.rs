//! Making room: moving what is valid out of a block, and erasing it.

use super::blocks::Role;
use super::error::FtlError;
use super::frontier::Stream;
use super::translation::Ftl;
use crate::nand::{BlockId, NandError, PageId, PageKind};

impl Ftl {
    /// Sees that the host's next page has a place, and that the reserve is whole.
    pub(super) fn make_room(&mut self, at_ns: u64) -> Result<(), FtlError> {
        if let Some(error) = self.stopped {
            return Err(error.into());
        }
        while let Some(block) = self.failing.pop() {
            self.retire(block, at_ns)?;
        }
        while self.host.wants_block() && self.free.count() <= self.reserve_blocks {
            self.clean(at_ns)?;
        }
        Ok(())
    }

    /// Cleans ahead of need until half of the spare blocks are free, or until `end_ns`.
    ///
    /// # Errors
    /// [`FtlError`].
    pub fn rest(&mut self, from_ns: u64, end_ns: u64) -> Result<(), FtlError> {
        let pages_per_block = self.nand.geometry().pages_per_block;
        let spare_blocks = self.good_blocks - self.user_pages.div_ceil(pages_per_block);
        let wanted = self.reserve_blocks + (spare_blocks - spare_blocks.min(self.reserve_blocks)) / 2;
        let mut now_ns = from_ns;
        while self.free.count() < wanted && now_ns < end_ns && self.stopped.is_none() {
            now_ns = self.clean(now_ns)?;
        }
        Ok(())
    }

    /// Cleans one block; returns when it is erased.
    pub(super) fn clean(&mut self, at_ns: u64) -> Result<u64, FtlError> {
        if self.good_blocks < self.good_blocks_min {
            return Err(FtlError::WornOut);
        }
        let block = self.victims.choose(&self.blocks, self.sequence).ok_or(FtlError::WornOut)?;
        self.blocks[block].role = Role::Leaving;
        let moved_ns = self.empty(block, Stream::Cleaning, at_ns)?;
        let erased_ns = self.erase(block, moved_ns)?;
        self.level_wear(block, at_ns)?;
        Ok(erased_ns)
    }

    /// Moves everything valid out of a block; returns when that is done.
    pub(super) fn empty(&mut self, block: BlockId, stream: Stream, at_ns: u64) -> Result<u64, FtlError> {
        let mut done_ns = at_ns;
        for index in 0..self.nand.used_pages(block) {
            if self.blocks[block].valid == 0 {
                break;
            }
            let page = self.nand.geometry().page(block, index);
            if let Some(logical) = self.mapping.owner(page) {
                done_ns = done_ns.max(self.relocate(page, logical, stream, at_ns)?);
            }
        }
        Ok(done_ns)
    }

    /// Erases an emptied block and adds it to the free ones; returns when that is done.
    pub(super) fn erase(&mut self, block: BlockId, at_ns: u64) -> Result<u64, FtlError> {
        match self.nand.erase(block, at_ns) {
            Ok(done_ns) => {
                self.counters.erases += 1;
                self.blocks[block].role = Role::Free;
                self.free.add(self.nand.geometry().die_of(block), block, self.nand.erases(block));
                Ok(done_ns)
            }
            Err(NandError::EraseFailed(_)) => {
                self.note_bad(block);
                Ok(at_ns)
            }
            Err(error) => Err(self.stop(error)),
        }
    }

    fn relocate(&mut self, page: PageId, logical: u32, stream: Stream, at_ns: u64) -> Result<u64, FtlError> {
        if let Some(part) = logical.checked_sub(self.user_pages) {
            return self.write_trims(stream, part, at_ns);
        }
        let mut bytes = std::mem::take(&mut self.page_buffer);
        self.counters.cleaning_reads += 1;
        let outcome = match self.read_page(page, logical, &mut bytes, at_ns) {
            Ok((kind, read_ns)) => self.program(stream, kind, logical, &bytes, read_ns),
            Err(FtlError::Lost(_)) => {
                self.counters.lost_pages += 1;
                bytes.fill(0);
                self.program(stream, PageKind::Lost, logical, &bytes, at_ns)
            }
            Err(error) => Err(error),
        };
        self.page_buffer = bytes;
        outcome
    }

    /// Empties a block in which a program failed, and gives it up.
    fn retire(&mut self, block: BlockId, at_ns: u64) -> Result<(), FtlError> {
        self.empty(block, Stream::Cleaning, at_ns)?;
        self.nand.retire(block).map_err(|error| self.stop(error))?;
        self.note_bad(block);
        Ok(())
    }

    fn note_bad(&mut self, block: BlockId) {
        self.blocks[block].role = Role::Bad;
        self.good_blocks -= 1;
        self.counters.retired_blocks += 1;
    }
}
