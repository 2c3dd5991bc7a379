//! The table, found again from what the pages say of themselves.

use super::blocks::{Blocks, End, FreeBlocks, Role};
use super::counters::FtlCounters;
use super::error::FtlOpenError;
use super::frontier::Frontier;
use super::mapping::Mapping;
use super::options::{Frontiers, FtlOptions};
use super::translation::Ftl;
use super::trims::Trims;
use super::victim::VictimPolicy;
use crate::nand::{BlockId, Nand, Oob, PageId, PageKind, Urgency};

/// Highest sequence that is believed. A million programs each second take a hundred thousand years to get there.
const SEQUENCE_MAX: u64 = 1 << 62;

impl Ftl {
    /// The translation layer of a new or a used device: the newest page of each logical page counts, unless it was trimmed later. The
    /// options must be those of the first time, except for policies.
    ///
    /// # Errors
    /// [`FtlOpenError`].
    pub fn open(nand: Nand, options: FtlOptions) -> Result<Self, FtlOpenError> {
        let mut ftl = Self::empty_layer(nand, options)?;
        let sequences = ftl.find_newest()?;
        ftl.forget_trimmed(&sequences);
        ftl.give_roles();
        Ok(ftl)
    }

    fn empty_layer(nand: Nand, options: FtlOptions) -> Result<Self, FtlOpenError> {
        check(&options)?;
        let geometry = *nand.geometry();
        let (dies, pages_per_block) = (geometry.dies(), geometry.pages_per_block);
        let mut blocks = Blocks::new(geometry.blocks());
        for block in blocks.ids().filter(|&block| nand.is_bad(block)) {
            blocks[block].role = Role::Bad;
        }
        let good_blocks = blocks.with_role(Role::Free).count() as u32;
        // Blocks that have gone bad since the first time do not change the number of user pages.
        let first_blocks = geometry.blocks() - nand.factory_bad_blocks();
        let first_pages = f64::from(first_blocks) * f64::from(pages_per_block);
        let user_pages = (first_pages / (1.0 + options.over_provisioning)).floor() as u32;
        let trims = Trims::new(user_pages, geometry.page_bytes);
        let logical_pages = user_pages + trims.parts();
        let host = Frontier::new(dies, End::First);
        let cleaning = (options.frontiers == Frontiers::Separate).then(|| Frontier::new(dies, End::First));
        let leveling = options.wear_leveling.static_threshold.map(|_| Frontier::new(dies, End::Last));
        let frontiers =
            [Some(&host), cleaning.as_ref(), leveling.as_ref()].into_iter().flatten().count() as u32;
        let needed_blocks = (frontiers + options.reserve_blocks_per_die) * dies + 1;
        let full_blocks = logical_pages.div_ceil(pages_per_block);
        let spare_blocks = good_blocks.saturating_sub(full_blocks);
        // A used device may be worn out; it can be read all the same.
        let is_new = blocks.ids().all(|block| nand.used_pages(block) == 0);
        if is_new && spare_blocks < needed_blocks {
            let over_provisioning = options.over_provisioning;
            return Err(FtlOpenError::TooFewSpareBlocks { spare_blocks, needed_blocks, over_provisioning });
        }
        Ok(Ftl {
            nand_at_open: nand.counters(),
            used_at_open: blocks.ids().map(|block| u64::from(nand.used_pages(block))).sum(),
            user_pages,
            good_blocks_min: full_blocks + needed_blocks,
            good_blocks,
            mapping: Mapping::new(logical_pages, geometry.pages()),
            free: FreeBlocks::new(dies, options.wear_leveling.dynamic),
            host,
            host_die: 0,
            cleaning,
            leveling,
            victims: (0..dies)
                .map(|die| {
                    options.victim.make(geometry.blocks(), pages_per_block, options.seed ^ u64::from(die))
                })
                .collect(),
            trims,
            emptying: (0..dies).map(|_| None).collect(),
            failing: Vec::new(),
            sequence: 0,
            counters: FtlCounters::default(),
            stopped: None,
            page_buffer: vec![0; geometry.page_bytes as usize],
            blocks,
            options,
            nand,
        })
    }

    /// Points the table to the newest page of each logical page; returns the sequences of these.
    fn find_newest(&mut self) -> Result<Vec<u64>, FtlOpenError> {
        let mut sequences = vec![0; (self.user_pages + self.trims.parts()) as usize];
        for block in self.blocks.ids() {
            for index in 0..self.nand.used_pages(block) {
                let page = self.nand.geometry().page(block, index);
                if let Some(oob) = Oob::decode(&self.nand.read_oob(page, 0)?.oob) {
                    self.consider(page, block, &oob, &mut sequences)?;
                }
            }
        }
        Ok(sequences)
    }

    fn consider(
        &mut self,
        page: PageId,
        block: BlockId,
        oob: &Oob,
        sequences: &mut [u64],
    ) -> Result<(), FtlOpenError> {
        let logical = self.logical_of(oob)?;
        if oob.sequence > SEQUENCE_MAX {
            return Err(FtlOpenError::Sequence { page, sequence: oob.sequence });
        }
        self.sequence = self.sequence.max(oob.sequence);
        self.blocks[block].newest = self.blocks[block].newest.max(oob.sequence);
        if oob.sequence > sequences[logical as usize] {
            sequences[logical as usize] = oob.sequence;
            self.mapping.set(logical, page);
        }
        Ok(())
    }

    fn logical_of(&self, oob: &Oob) -> Result<u32, FtlOpenError> {
        let (first, count) = match oob.kind {
            PageKind::Trims => (self.user_pages, self.trims.parts()),
            PageKind::Data | PageKind::Lost => (0, self.user_pages),
        };
        match u32::try_from(oob.logical) {
            Ok(logical) if logical < count => Ok(first + logical),
            _ => Err(FtlOpenError::ForeignPage { logical: oob.logical, user_pages: count }),
        }
    }

    /// Clears what was trimmed after it was written. A part of the bitmap that cannot be read trims nothing: old bytes are allowed in a range
    /// that was trimmed.
    fn forget_trimmed(&mut self, sequences: &[u64]) {
        let mut bytes = vec![0; self.page_bytes() as usize];
        for part in 0..self.trims.parts() {
            let logical = self.user_pages + part;
            let Some(page) = self.mapping.place(logical) else { continue };
            if self.read_page(page, part, &mut bytes, Urgency::InTurn, 0).is_err() {
                continue;
            }
            let trimmed_at = sequences[logical as usize];
            for logical in self.trims.decode(part, &bytes) {
                if sequences[logical as usize] < trimmed_at {
                    self.mapping.clear(logical);
                }
            }
        }
    }

    fn give_roles(&mut self) {
        for page in self.mapping.places().flatten().collect::<Vec<_>>() {
            let (block, _) = page.split(self.nand.geometry().pages_per_block);
            self.blocks[block].valid += 1;
        }
        let mut used: Vec<_> = self.blocks.with_role(Role::Free).collect();
        // Policies that look at the order of filling find it again.
        used.sort_by_key(|&block| self.blocks[block].newest);
        for block in used {
            let die = self.nand.geometry().die_of(block);
            let valid = self.blocks[block].valid;
            match self.nand.used_pages(block) {
                0 => self.free.add(die, block, self.nand.erases(block)),
                used if used < self.nand.geometry().pages_per_block && self.adopt(die, block) => {
                    self.blocks[block].role = Role::Open;
                }
                _ => {
                    self.blocks[block].role = Role::Closed;
                    self.victims[die as usize].add(block, valid);
                }
            }
        }
    }

    /// Goes on with a block that was open.
    fn adopt(&mut self, die: u32, block: BlockId) -> bool {
        let frontiers = [Some(&mut self.host), self.cleaning.as_mut(), self.leveling.as_mut()];
        frontiers.into_iter().flatten().any(|frontier| frontier.adopt(die, block))
    }
}

fn check(options: &FtlOptions) -> Result<(), FtlOpenError> {
    if !(options.over_provisioning > 0.0 && options.over_provisioning <= 1000.0) {
        return Err(FtlOpenError::OverProvisioning(options.over_provisioning));
    }
    if options.reserve_blocks_per_die == 0 {
        return Err(FtlOpenError::NoReserve);
    }
    if options.victim == VictimPolicy::Choices(0) {
        return Err(FtlOpenError::NoChoices);
    }
    Ok(())
}
