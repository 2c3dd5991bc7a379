//! The translation layer: reads, writes, trims.

use aquifer_base::checksum::crc32c_seeded;

use super::blocks::{Blocks, FreeBlocks, Role};
use super::cleaning::Emptying;
use super::counters::FtlCounters;
use super::error::FtlError;
use super::frontier::{Frontier, Stream};
use super::mapping::Mapping;
use super::options::FtlOptions;
use super::trims::Trims;
use super::victim::Victims;
use crate::nand::{BlockId, Nand, NandCounters, NandError, Oob, PageId, PageKind, Urgency};

/// Times that a page with too many wrong bits is read before it is given up.
const READ_ATTEMPTS: usize = 3;

/// A flash device with its translation layer. Times are simulated: each request is told when it begins, and tells when it ends.
#[derive(Debug)]
pub struct Ftl {
    pub(super) nand: Nand,
    /// The flash's counters when this began.
    pub(super) nand_at_open: NandCounters,
    /// Pages that were used already.
    pub(super) used_at_open: u64,
    pub(super) options: FtlOptions,
    pub(super) user_pages: u32,
    /// Good blocks without which nothing can be written safely.
    pub(super) good_blocks_min: u32,
    pub(super) good_blocks: u32,
    pub(super) mapping: Mapping,
    pub(super) blocks: Blocks,
    pub(super) free: FreeBlocks,
    pub(super) host: Frontier,
    /// Where the host's next page goes.
    pub(super) host_die: u32,
    /// `None` when moved pages go to the host's blocks.
    pub(super) cleaning: Option<Frontier>,
    pub(super) leveling: Option<Frontier>,
    /// Of each die.
    pub(super) victims: Vec<Box<dyn Victims>>,
    pub(super) trims: Trims,
    /// The block of each die that is being cleaned.
    pub(super) emptying: Vec<Option<Emptying>>,
    /// Blocks in which a program failed, to be emptied and given up.
    pub(super) failing: Vec<BlockId>,
    pub(super) sequence: u64,
    pub(super) counters: FtlCounters,
    /// The first error of the flash. Nothing is written after it.
    pub(super) stopped: Option<NandError>,
    pub(super) page_buffer: Vec<u8>,
}

impl Ftl {
    /// Logical pages.
    #[must_use]
    pub fn user_pages(&self) -> u32 {
        self.user_pages
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> u32 {
        self.nand.geometry().page_bytes
    }

    /// The flash below.
    #[must_use]
    pub fn nand(&self) -> &Nand {
        &self.nand
    }

    /// The flash below, to cut its power.
    pub fn nand_mut(&mut self) -> &mut Nand {
        &mut self.nand
    }

    /// The flash below, without its translation layer, as after a power cut.
    #[must_use]
    pub fn into_nand(self) -> Nand {
        self.nand
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> FtlCounters {
        self.counters
    }

    /// Free blocks that the cleaner keeps on all dies together: its own, and one on each die for the host.
    #[must_use]
    pub fn reserve_blocks(&self) -> u32 {
        (self.options.reserve_blocks_per_die + 1) * self.nand.geometry().dies()
    }

    /// Spare pages by user pages, (T - U) / U, where T are the pages of good blocks now.
    #[must_use]
    pub fn over_provisioning(&self) -> f64 {
        let total = f64::from(self.good_blocks) * f64::from(self.nand.geometry().pages_per_block);
        (total - f64::from(self.user_pages)) / f64::from(self.user_pages)
    }

    /// Where every logical page is.
    pub fn places(&self) -> impl Iterator<Item = Option<PageId>> {
        self.mapping.places().take(self.user_pages as usize)
    }

    /// Fewest and most erases of good blocks.
    #[must_use]
    pub fn erase_spread(&self) -> (u32, u32) {
        let good = self.blocks.ids().filter(|&block| self.blocks[block].role != Role::Bad);
        good.map(|block| self.nand.erases(block))
            .fold((u32::MAX, 0), |(low, high), erases| (low.min(erases), high.max(erases)))
    }

    /// How many full blocks have each number of valid pages, from none on.
    #[must_use]
    pub fn valid_histogram(&self) -> Vec<u32> {
        let mut counts = vec![0; self.nand.geometry().pages_per_block as usize + 1];
        for block in self.blocks.with_role(Role::Closed) {
            counts[self.blocks[block].valid as usize] += 1;
        }
        counts
    }

    /// Fills `bytes` with a logical page, with zeros if it holds nothing; returns when it is done.
    ///
    /// # Errors
    /// [`FtlError`]; `bytes` are then undefined.
    ///
    /// # Panics
    /// When there is no such logical page, or `bytes` is not as long as one.
    pub fn read(&mut self, logical: u32, bytes: &mut [u8], at_ns: u64) -> Result<u64, FtlError> {
        assert!(logical < self.user_pages, "logical page {logical} of {}", self.user_pages);
        let Some(page) = self.mapping.place(logical) else {
            bytes.fill(0);
            return Ok(at_ns);
        };
        self.counters.host_reads += 1;
        match self.read_page(page, logical, bytes, Urgency::Now, at_ns)? {
            (PageKind::Lost, _) => Err(FtlError::Lost(logical)),
            (_, done_ns) => Ok(done_ns),
        }
    }

    /// Writes a logical page; returns when it is done, and durable.
    ///
    /// # Errors
    /// [`FtlError`]; the page then holds its old bytes, or after [`NandError::PowerLost`] perhaps the new ones.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    pub fn write(&mut self, logical: u32, bytes: &[u8], at_ns: u64) -> Result<u64, FtlError> {
        assert!(logical < self.user_pages, "logical page {logical} of {}", self.user_pages);
        self.make_room(at_ns)?;
        self.program(Stream::Host, PageKind::Data, logical, bytes, at_ns)
    }

    /// Says that a logical page holds nothing any more; durable after the next [`sync`](Self::sync).
    ///
    /// # Panics
    /// When there is no such logical page.
    pub fn trim(&mut self, logical: u32) {
        assert!(logical < self.user_pages, "logical page {logical} of {}", self.user_pages);
        if let Some(page) = self.mapping.clear(logical) {
            self.note_garbage(page);
            self.trims.note(logical);
            self.counters.trims += 1;
        }
    }

    /// Makes every write and trim durable; returns when that is done.
    ///
    /// # Errors
    /// [`FtlError`].
    pub fn sync(&mut self, at_ns: u64) -> Result<u64, FtlError> {
        let mut done_ns = at_ns;
        while let Some(part) = self.trims.first_changed() {
            self.make_room(at_ns)?;
            done_ns = done_ns.max(self.write_trims(Stream::Host, part, at_ns)?);
        }
        self.nand.sync_backing()?;
        Ok(done_ns)
    }

    /// Says that no request will begin before `now_ns` any more.
    pub fn forget_before(&mut self, now_ns: u64) {
        self.nand.forget_before(now_ns);
    }

    /// Writes one part of the bitmap of trimmed pages as it is now.
    pub(super) fn write_trims(&mut self, stream: Stream, part: u32, at_ns: u64) -> Result<u64, FtlError> {
        let mut bytes = vec![0; self.page_bytes() as usize];
        self.trims.encode(part, &self.mapping, &mut bytes);
        let done_ns = self.program(stream, PageKind::Trims, self.user_pages + part, &bytes, at_ns)?;
        self.trims.note_written(part);
        Ok(done_ns)
    }

    /// Reads a page and sees that it is what the table says.
    pub(super) fn read_page(
        &mut self,
        page: PageId,
        logical: u32,
        bytes: &mut [u8],
        urgency: Urgency,
        at_ns: u64,
    ) -> Result<(PageKind, u64), FtlError> {
        let mut attempt = self.nand.read(page, bytes, urgency, at_ns);
        for _ in 1..READ_ATTEMPTS {
            if matches!(attempt, Err(NandError::Uncorrectable { .. })) {
                attempt = self.nand.read(page, bytes, urgency, at_ns);
            }
        }
        let read = match attempt {
            Err(NandError::Uncorrectable { .. }) => return Err(FtlError::Lost(logical)),
            attempt => attempt?,
        };
        let oob = Oob::decode(&read.oob).filter(|oob| {
            oob.logical == u64::from(logical)
                && (!self.nand.keeps_bytes() || oob.data_crc == crc32c_seeded(0, bytes))
        });
        oob.map(|oob| (oob.kind, read.done_ns)).ok_or(FtlError::Damaged { page, logical })
    }

    /// Programs a page somewhere and points the table there.
    pub(super) fn program(
        &mut self,
        stream: Stream,
        kind: PageKind,
        logical: u32,
        bytes: &[u8],
        at_ns: u64,
    ) -> Result<u64, FtlError> {
        let data_crc = if self.nand.keeps_bytes() { crc32c_seeded(0, bytes) } else { 0 };
        let number = if kind == PageKind::Trims { logical - self.user_pages } else { logical };
        loop {
            let page = self.next_page(stream).ok_or(FtlError::WornOut)?;
            self.sequence += 1;
            let oob = Oob { kind, logical: number.into(), sequence: self.sequence, data_crc };
            let (block, index) = page.split(self.nand.geometry().pages_per_block);
            match self.nand.program(page, bytes, &oob.encode(), at_ns) {
                Ok(done_ns) => {
                    self.count_program(stream, kind);
                    self.note_programmed(logical, page, block, index);
                    return Ok(done_ns);
                }
                Err(NandError::ProgramFailed(_)) => {
                    self.note_failure(block);
                    if stream == Stream::Host {
                        self.choose_die(at_ns)?;
                    }
                }
                Err(error) => return Err(self.stop(error)),
            }
        }
    }

    /// Notes the first error of the flash.
    pub(super) fn stop(&mut self, error: NandError) -> FtlError {
        self.stopped.get_or_insert(error);
        error.into()
    }

    fn count_program(&mut self, stream: Stream, kind: PageKind) {
        let counter = match (stream, kind) {
            (Stream::Host, PageKind::Trims) => &mut self.counters.metadata_programs,
            (Stream::Host, _) => &mut self.counters.host_programs,
            (Stream::Cleaning(_), _) => &mut self.counters.cleaning_programs,
            (Stream::Leveling(_), _) => &mut self.counters.leveling_programs,
        };
        *counter += 1;
    }

    fn next_page(&mut self, stream: Stream) -> Option<PageId> {
        let (frontier, die) = match stream {
            Stream::Host => (&mut self.host, self.host_die),
            Stream::Cleaning(die) => (self.cleaning.as_mut().unwrap_or(&mut self.host), die),
            Stream::Leveling(die) => (self.leveling.as_mut().unwrap_or(&mut self.host), die),
        };
        let mut page = frontier.page_on(die, &self.nand, &mut self.free);
        if stream != Stream::Host {
            page = page.or_else(|| self.page_anywhere());
        }
        let (block, _) = page?.split(self.nand.geometry().pages_per_block);
        self.blocks[block].role = Role::Open;
        page
    }

    /// A page on any die, for what must be moved when its own die has no room: power cuts in the middle of cleaning use the reserve up.
    fn page_anywhere(&mut self) -> Option<PageId> {
        let frontiers = [self.cleaning.as_mut(), self.leveling.as_mut(), Some(&mut self.host)];
        for frontier in frontiers.into_iter().flatten() {
            for die in 0..self.nand.geometry().dies() {
                let page = frontier.page_on(die, &self.nand, &mut self.free);
                if page.is_some() {
                    return page;
                }
            }
        }
        None
    }

    fn note_programmed(&mut self, logical: u32, page: PageId, block: BlockId, index: u32) {
        self.blocks[block].valid += 1;
        self.blocks[block].newest = self.sequence;
        if let Some(old) = self.mapping.set(logical, page) {
            self.note_garbage(old);
        }
        if index + 1 == self.nand.geometry().pages_per_block {
            self.close(block);
            self.blocks[block].role = Role::Closed;
            let die = self.nand.geometry().die_of(block);
            self.victims[die as usize].add(block, self.blocks[block].valid);
        }
    }

    fn note_garbage(&mut self, page: PageId) {
        let (block, _) = page.split(self.nand.geometry().pages_per_block);
        self.blocks[block].valid -= 1;
        if self.blocks[block].role == Role::Closed {
            let die = self.nand.geometry().die_of(block);
            self.victims[die as usize].drop_page(block, self.blocks[block].valid);
        }
    }

    fn note_failure(&mut self, block: BlockId) {
        self.counters.failed_programs += 1;
        self.close(block);
        self.blocks[block].role = Role::Leaving;
        self.failing.push(block);
    }

    fn close(&mut self, block: BlockId) {
        self.host.close(block);
        for frontier in [&mut self.cleaning, &mut self.leveling].into_iter().flatten() {
            frontier.close(block);
        }
    }
}
