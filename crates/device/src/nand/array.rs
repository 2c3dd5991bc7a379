//! The flash itself: what may be done to it, and what comes of it.

use std::path::Path;

use aquifer_base::random::Random;

use super::block::{BlockState, Health};
use super::contents::{Backing, Contents};
use super::file::NandFile;
use super::power::Power;
use super::timing::Clockwork;
use super::wear::{self, Failures};
use super::{
    BlockId, Geometry, NandError, NandOpenError, OOB_BYTES, PageId, PowerCut, Tear, Timing, Urgency,
    Violation, Wear,
};

/// What an emulated device is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct NandOptions {
    /// How many of everything.
    pub geometry: Geometry,
    /// How long things take.
    pub timing: Timing,
    /// How it ages.
    pub wear: Wear,
    /// Where bytes are kept.
    pub backing: Backing,
    /// Of all that is random.
    pub seed: u64,
}

impl NandOptions {
    /// Flash in memory that takes no time and never ages.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        NandOptions { geometry, timing: Timing::NONE, wear: Wear::default(), backing: Backing::Ram, seed: 1 }
    }
}

/// What was done to the flash since it was made or opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NandCounters {
    /// Pages read, with or without their bytes.
    pub reads: u64,
    /// Pages used by programs, also by those that failed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages that were still unused when their block was erased.
    pub unused_pages_erased: u64,
    /// Bits that were read wrong and mended.
    pub corrected_bits: u64,
}

/// What a page was found to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRead {
    /// Its out-of-band bytes.
    pub oob: [u8; OOB_BYTES],
    /// When the bytes are there.
    pub done_ns: u64,
}

/// Emulated flash. Every operation is told the simulated time at which it may begin.
#[derive(Debug)]
pub struct Nand {
    geometry: Geometry,
    wear: Wear,
    contents: Contents,
    blocks: Vec<BlockState>,
    clockwork: Clockwork,
    power: Power,
    failures: Failures,
    dice: Random,
    counters: NandCounters,
}

impl Nand {
    /// A new device, or the one in an existing file.
    ///
    /// # Errors
    /// [`NandOpenError`].
    pub fn new(options: NandOptions) -> Result<Self, NandOpenError> {
        let NandOptions { geometry, timing, wear, backing, seed } = options;
        geometry.check()?;
        let (contents, found) = match backing {
            Backing::Ram => (Contents::in_ram(geometry, true), None),
            Backing::OobOnly => (Contents::in_ram(geometry, false), None),
            Backing::File(path) => {
                let (file, found) = NandFile::open(&path, geometry)?;
                (Contents::in_file(geometry, file), found)
            }
        };
        let is_new = found.is_none();
        let blocks = found.unwrap_or_else(|| from_the_factory(&geometry, &wear, seed));
        let clockwork = Clockwork::new(geometry, timing);
        let (power, failures, counters) = Default::default();
        let dice = Random::new(seed);
        let nand = Nand { geometry, wear, contents, blocks, clockwork, power, failures, dice, counters };
        if is_new {
            nand.write_bad_states()?;
        }
        Ok(nand)
    }

    /// The geometry of the device in a file.
    ///
    /// # Errors
    /// [`NandOpenError`].
    pub fn geometry_of(path: &Path) -> Result<Geometry, NandOpenError> {
        NandFile::geometry_of(path)
    }

    /// How many of everything.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// How long things take.
    #[must_use]
    pub fn timing(&self) -> Timing {
        self.clockwork.timing()
    }

    /// From now on things take so long. What was under way is done, and simulated time is zero.
    pub fn set_timing(&mut self, timing: Timing) {
        self.clockwork = Clockwork::new(self.geometry, timing);
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> NandCounters {
        self.counters
    }

    /// Whether a block must not be used.
    #[must_use]
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.blocks[block.0 as usize].health != Health::Good
    }

    /// Blocks that were bad when the device was made.
    #[must_use]
    pub fn factory_bad_blocks(&self) -> u32 {
        self.blocks.iter().filter(|state| state.health == Health::FactoryBad).count() as u32
    }

    /// How often a block was erased.
    #[must_use]
    pub fn erases(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].erases
    }

    /// Pages of a block that were used since its last erase, also by programs that the power cut.
    #[must_use]
    pub fn used_pages(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].used
    }

    /// Whether pages' bytes are kept, so that checksums of them say something.
    #[must_use]
    pub fn keeps_bytes(&self) -> bool {
        self.contents.keeps_bytes()
    }

    /// When a die would have programmed a page that it is given at `at_ns`, if its channel is free.
    #[must_use]
    pub fn program_end_ns(&self, die: u32, at_ns: u64) -> u64 {
        self.clockwork.program_end_ns(die, at_ns)
    }

    /// Says that no operation will begin before `now_ns` any more.
    pub fn forget_before(&mut self, now_ns: u64) {
        self.clockwork.forget_before(now_ns);
    }

    /// Reads a page; an erased one is all ones.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`] when too many bits are wrong; a second attempt may find fewer.
    pub fn read(
        &mut self,
        page: PageId,
        bytes: &mut [u8],
        urgency: Urgency,
        at_ns: u64,
    ) -> Result<PageRead, NandError> {
        let block = self.allow(page)?;
        self.check_length(bytes.len())?;
        let mean = self.wear.bit_errors_mean(&self.geometry, self.erases(block));
        let bits = wear::poisson(&mut self.dice, mean);
        let done_ns = self.clockwork.read(block, urgency, at_ns);
        self.counters.reads += 1;
        if bits > self.wear.correctable_bits && mean > 0.0 {
            return Err(NandError::Uncorrectable { page, bits });
        }
        self.counters.corrected_bits += u64::from(bits);
        self.contents.read(page, bytes).map_err(|error| NandError::backing(&error))?;
        Ok(PageRead { oob: self.oob(page)?, done_ns })
    }

    /// Reads the out-of-band bytes of a page alone. They have a stronger error correction, and are never found wrong.
    ///
    /// # Errors
    /// [`NandError`].
    pub fn read_oob(&mut self, page: PageId, at_ns: u64) -> Result<PageRead, NandError> {
        let block = self.allow(page)?;
        let done_ns = self.clockwork.read(block, Urgency::InTurn, at_ns);
        self.counters.reads += 1;
        Ok(PageRead { oob: self.oob(page)?, done_ns })
    }

    /// Programs a page with its out-of-band bytes; returns when it is done.
    ///
    /// # Errors
    /// [`NandError`]. After [`NandError::ProgramFailed`] the page is used up and holds nothing.
    pub fn program(
        &mut self,
        page: PageId,
        bytes: &[u8],
        oob: &[u8; OOB_BYTES],
        at_ns: u64,
    ) -> Result<u64, NandError> {
        let block = self.allow_change(page)?;
        self.check_length(bytes.len())?;
        self.check_order(page)?;
        self.blocks[block.0 as usize].used += 1;
        self.counters.programs += 1;
        let whole = bytes.len() + OOB_BYTES;
        let outcome = match self.power.spend() {
            Some(tear) => {
                self.store(page, bytes, oob, tear.of(whole))?;
                Err(NandError::PowerLost)
            }
            None if self.program_fails() => {
                self.store(page, bytes, oob, bytes.len() / 2)?;
                Err(NandError::ProgramFailed(page))
            }
            None => self.store(page, bytes, oob, whole),
        };
        self.write_state(block)?;
        outcome?;
        Ok(self.clockwork.program(block, at_ns))
    }

    /// Erases a block; returns when it is done.
    ///
    /// # Errors
    /// [`NandError`]. After [`NandError::EraseFailed`] the block is bad.
    pub fn erase(&mut self, block: BlockId, at_ns: u64) -> Result<u64, NandError> {
        self.allow_change(self.geometry.page(block, 0))?;
        let pages = self.geometry.pages_per_block;
        let state = &mut self.blocks[block.0 as usize];
        if let Some(tear) = self.power.spend() {
            let reached = tear.of(pages as usize) as u32;
            let is_done = reached == pages || (tear != Tear::Nothing && reached >= state.used);
            self.note_erase(block, reached, is_done)?;
            return Err(NandError::PowerLost);
        }
        let is_worn = self.wear.erase_limit > 0 && state.erases >= self.wear.erase_limit;
        if self.failures.spend() || is_worn {
            state.health = Health::GrownBad;
            self.write_state(block)?;
            return Err(NandError::EraseFailed(block));
        }
        self.note_erase(block, pages, true)?;
        Ok(self.clockwork.erase(block, at_ns))
    }

    /// Marks a block as bad, as a controller does when programs of it fail.
    ///
    /// # Errors
    /// [`NandError::Backing`].
    pub fn retire(&mut self, block: BlockId) -> Result<(), NandError> {
        self.blocks[block.0 as usize].health = Health::GrownBad;
        self.write_state(block)
    }

    /// Makes everything durable in the file behind it, if there is one.
    ///
    /// # Errors
    /// [`NandError::Backing`].
    pub fn sync_backing(&self) -> Result<(), NandError> {
        match self.contents.file() {
            Some(file) => file.sync().map_err(|error| NandError::backing(&error)),
            None => Ok(()),
        }
    }

    /// Plans a power cut.
    pub fn cut_power(&mut self, cut: PowerCut) {
        self.power.plan(cut);
    }

    /// Plans that a program or erase fails, after `after_operations` that do not.
    pub fn fail(&mut self, after_operations: u64) {
        self.failures.plan(after_operations);
    }

    /// Switches the power on again, at simulated time zero.
    pub fn restore_power(&mut self) {
        self.power.restore();
        self.clockwork = Clockwork::new(self.geometry, self.timing());
    }

    /// The device as it is now, without the cost of a copy: the two share what neither changes. `None` for one in a file.
    #[must_use]
    pub fn snapshot(&self) -> Option<Self> {
        Some(Nand {
            geometry: self.geometry,
            wear: self.wear,
            contents: self.contents.snapshot()?,
            blocks: self.blocks.clone(),
            clockwork: self.clockwork.clone(),
            power: self.power.clone(),
            failures: self.failures.clone(),
            dice: self.dice.clone(),
            counters: self.counters,
        })
    }

    fn program_fails(&mut self) -> bool {
        self.failures.spend() || self.dice.below(1_000_000_000) < u64::from(self.wear.program_failures_ppb)
    }

    fn allow(&self, page: PageId) -> Result<BlockId, NandError> {
        if self.power.is_off() {
            return Err(NandError::PowerLost);
        }
        if page.0 >= self.geometry.pages() {
            return Err(Violation::OutOfRange(page).into());
        }
        Ok(page.split(self.geometry.pages_per_block).0)
    }

    fn allow_change(&self, page: PageId) -> Result<BlockId, NandError> {
        let block = self.allow(page)?;
        if self.is_bad(block) {
            return Err(Violation::BadBlock(block).into());
        }
        Ok(block)
    }

    fn check_length(&self, got: usize) -> Result<(), NandError> {
        let page_bytes = self.geometry.page_bytes;
        if got == page_bytes as usize {
            Ok(())
        } else {
            Err(Violation::WrongLength { page_bytes, got }.into())
        }
    }

    fn check_order(&self, page: PageId) -> Result<(), NandError> {
        let (block, index) = page.split(self.geometry.pages_per_block);
        let next = self.used_pages(block);
        match index.cmp(&next) {
            std::cmp::Ordering::Less => Err(Violation::ProgramTwice { page, next }.into()),
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(Violation::OutOfOrder { page, next }.into()),
        }
    }

    fn oob(&self, page: PageId) -> Result<[u8; OOB_BYTES], NandError> {
        self.contents.oob(page).map_err(|error| NandError::backing(&error))
    }

    fn store(
        &mut self,
        page: PageId,
        bytes: &[u8],
        oob: &[u8; OOB_BYTES],
        reached: usize,
    ) -> Result<(), NandError> {
        self.contents.program(page, bytes, oob, reached).map_err(|error| NandError::backing(&error))
    }

    /// Erases the first pages of a block; it can be programmed again only when that was all of it.
    fn note_erase(&mut self, block: BlockId, reached: u32, is_done: bool) -> Result<(), NandError> {
        self.contents.erase(block, reached).map_err(|error| NandError::backing(&error))?;
        let state = &mut self.blocks[block.0 as usize];
        if is_done {
            self.counters.erases += 1;
            self.counters.unused_pages_erased += u64::from(self.geometry.pages_per_block - state.used);
            state.erases = state.erases.saturating_add(1);
            state.used = 0;
        } else {
            // What is left must be erased again: no page of it can be programmed.
            state.used = self.geometry.pages_per_block;
        }
        self.write_state(block)
    }

    /// In a new file, zeros say that a block is good.
    fn write_bad_states(&self) -> Result<(), NandError> {
        (0..self.geometry.blocks())
            .map(BlockId)
            .filter(|&block| self.is_bad(block))
            .try_for_each(|block| self.write_state(block))
    }

    fn write_state(&self, block: BlockId) -> Result<(), NandError> {
        match self.contents.file() {
            Some(file) => file
                .write_state(block, self.blocks[block.0 as usize])
                .map_err(|error| NandError::backing(&error)),
            None => Ok(()),
        }
    }
}

/// New blocks, some of them marked bad.
fn from_the_factory(geometry: &Geometry, wear: &Wear, seed: u64) -> Vec<BlockState> {
    let mut dice = Random::new(seed ^ 0xFAC7);
    let mut block = || {
        let is_bad = dice.below(1_000_000) < u64::from(wear.factory_bad_ppm);
        let health = if is_bad { Health::FactoryBad } else { Health::Good };
        BlockState { health, ..BlockState::default() }
    };
    (0..geometry.blocks()).map(|_| block()).collect()
}
