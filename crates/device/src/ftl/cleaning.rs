//! Making room: moving what is valid out of a block, and erasing it. Static wear levelling does so to blocks whose pages nobody writes again.

use super::blocks::Role;
use super::error::FtlError;
use super::frontier::Stream;
use super::translation::Ftl;
use crate::nand::{BlockId, NandError, PageId, PageKind, Urgency};

/// A block that is being cleaned.
#[derive(Debug)]
pub(super) struct Emptying {
    block: BlockId,
    /// Pages before this one have been moved.
    next: u32,
    /// Pages to move for each page of the host.
    pages_per_host_page: u32,
    /// When the last of those that were moved is programmed.
    moved_ns: u64,
}

impl Ftl {
    /// Sees that the host's next page has a place, and that the reserve is whole.
    pub(super) fn make_room(&mut self, at_ns: u64) -> Result<(), FtlError> {
        if let Some(error) = self.stopped {
            return Err(error.into());
        }
        while let Some(block) = self.failing.pop() {
            self.retire(block, at_ns)?;
        }
        self.choose_die(at_ns)
    }

    /// Settles on the die for the host's next page: the one with the least to do that can be given room.
    pub(super) fn choose_die(&mut self, at_ns: u64) -> Result<(), FtlError> {
        for die in self.host.dies_by_load(&self.nand, at_ns) {
            if self.host.is_open_on(die) || self.make_room_on(die, at_ns)? {
                self.host_die = die;
                return self.clean_a_little(die, at_ns);
            }
        }
        Err(FtlError::WornOut)
    }

    /// Cleans blocks of a die until it has one beyond the reserve; false when its blocks hold too little garbage for that.
    fn make_room_on(&mut self, die: u32, at_ns: u64) -> Result<bool, FtlError> {
        let mut attempts = self.nand.geometry().blocks_per_die();
        // The host's block may have been opened by a page that was moved.
        while self.free.count_on(die) <= self.options.reserve_blocks_per_die && !self.host.is_open_on(die) {
            if attempts == 0 || self.clean(die, at_ns)?.is_none() {
                return Ok(false);
            }
            attempts -= 1;
        }
        Ok(true)
    }

    /// Cleans ahead of need until half of the spare blocks are free, or until `end_ns`.
    ///
    /// # Errors
    /// [`FtlError`].
    pub fn rest(&mut self, from_ns: u64, end_ns: u64) -> Result<(), FtlError> {
        let (dies, pages_per_block) = (self.nand.geometry().dies(), self.nand.geometry().pages_per_block);
        // A device that was opened with many bad blocks may not even have enough for its user pages.
        let spare_blocks = self.good_blocks.saturating_sub(self.user_pages.div_ceil(pages_per_block));
        let wanted = self.reserve_blocks() + spare_blocks.saturating_sub(self.reserve_blocks()) / 2;
        for die in 0..dies {
            let mut now_ns = from_ns;
            // Where time stands still, blocks without garbage would be cleaned in turn for ever.
            for _ in 0..self.nand.geometry().blocks_per_die() {
                let is_enough = self.free.count_on(die) >= wanted / dies;
                if is_enough || now_ns >= end_ns || self.stopped.is_some() {
                    break;
                }
                match self.clean(die, now_ns)? {
                    Some(done_ns) => now_ns = done_ns,
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Cleans one block of a die, or the rest of one that was begun; returns when it is erased. `None` when the die has no block to clean.
    fn clean(&mut self, die: u32, at_ns: u64) -> Result<Option<u64>, FtlError> {
        if self.emptying[die as usize].is_none() && !self.begin_to_empty(die)? {
            return Ok(None);
        }
        self.go_on_emptying(die, u32::MAX, at_ns)
    }

    /// Does as much of the cleaning as one page of the host costs, so that nobody waits for all of it at once.
    fn clean_a_little(&mut self, die: u32, at_ns: u64) -> Result<(), FtlError> {
        let is_needed = self.free.count_on(die) <= self.options.reserve_blocks_per_die + 1;
        if self.emptying[die as usize].is_none() && !(is_needed && self.begin_to_empty(die)?) {
            return Ok(());
        }
        let pages = self.emptying[die as usize].as_ref().map_or(0, |emptying| emptying.pages_per_host_page);
        self.go_on_emptying(die, pages, at_ns)?;
        Ok(())
    }

    /// Chooses the next block of a die to clean; false when there is none.
    fn begin_to_empty(&mut self, die: u32) -> Result<bool, FtlError> {
        if self.good_blocks < self.good_blocks_min {
            return Err(FtlError::WornOut);
        }
        let chosen = self.victims[die as usize].choose(&self.blocks, self.sequence);
        let Some(block) = chosen else { return Ok(false) };
        self.blocks[block].role = Role::Leaving;
        let valid = self.blocks[block].valid;
        let gained = self.nand.geometry().pages_per_block - valid;
        // A block of `gained` pages is ready by the time that the host has filled as many.
        let pages_per_host_page = if gained == 0 { u32::MAX } else { valid.div_ceil(gained) };
        self.emptying[die as usize] = Some(Emptying { block, next: 0, pages_per_host_page, moved_ns: 0 });
        Ok(true)
    }

    /// Moves up to `pages` of the block that is being emptied on a die, and erases it after the last; returns when it is erased.
    fn go_on_emptying(&mut self, die: u32, pages: u32, at_ns: u64) -> Result<Option<u64>, FtlError> {
        let Some(mut emptying) = self.emptying[die as usize].take() else { return Ok(None) };
        let block = emptying.block;
        let mut left = pages;
        while left > 0 && self.blocks[block].valid > 0 {
            let page = self.nand.geometry().page(block, emptying.next);
            emptying.next += 1;
            if let Some(logical) = self.mapping.owner(page) {
                let done_ns = self.relocate(page, logical, Stream::Cleaning(die), at_ns)?;
                emptying.moved_ns = emptying.moved_ns.max(done_ns);
                left -= 1;
            }
        }
        if self.blocks[block].valid > 0 {
            self.emptying[die as usize] = Some(emptying);
            return Ok(None);
        }
        let erased_ns = self.erase(block, emptying.moved_ns.max(at_ns))?;
        self.level_wear(die, block, at_ns)?;
        Ok(Some(erased_ns))
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
        let outcome = match self.read_page(page, logical, &mut bytes, Urgency::InTurn, at_ns) {
            Ok((kind, read_ns)) => self.program(stream, kind, logical, &bytes, read_ns),
            // One page that is not what it should be must not keep its block, and so the device, from being written.
            Err(FtlError::Lost(_) | FtlError::Damaged { .. }) => {
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
        let die = self.nand.geometry().die_of(block);
        self.empty(block, Stream::Cleaning(die), at_ns)?;
        self.nand.retire(block).map_err(|error| self.stop(error))?;
        self.note_bad(block);
        Ok(())
    }

    fn note_bad(&mut self, block: BlockId) {
        self.blocks[block].role = Role::Bad;
        self.good_blocks -= 1;
        self.counters.retired_blocks += 1;
    }

    /// After `worn` was erased: moves what the least-erased full block of the die holds to a worn one, if the two are too far apart. Dies
    /// are levelled each for itself; the host's pages are spread over them evenly.
    pub(super) fn level_wear(&mut self, die: u32, worn: BlockId, at_ns: u64) -> Result<(), FtlError> {
        let Some(threshold) = self.options.wear_leveling.static_threshold else { return Ok(()) };
        let on_die = |&block: &BlockId| self.nand.geometry().die_of(block) == die;
        let closed = self.blocks.with_role(Role::Closed).filter(on_die);
        let Some(cold) = closed.min_by_key(|&block| self.nand.erases(block)) else { return Ok(()) };
        let distance = self.nand.erases(worn).saturating_sub(self.nand.erases(cold));
        // One free block may be needed to move to, and one must be left for the cleaner.
        if distance <= threshold || self.free.count_on(die) < 2 {
            return Ok(());
        }
        self.victims[die as usize].remove(cold, self.blocks[cold].valid);
        self.blocks[cold].role = Role::Leaving;
        let moved_ns = self.empty(cold, Stream::Leveling(die), at_ns)?;
        self.erase(cold, moved_ns)?;
        Ok(())
    }
}
