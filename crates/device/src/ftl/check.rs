//! Proof that table, flash and counters agree.

use super::translation::Ftl;
use crate::nand::{NandError, Oob, PageKind};

/// What does not agree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// An equation of the counters does not hold.
    #[error("{what}: {left} is not {right}")]
    Counters {
        /// The equation.
        what: &'static str,
        /// Its one side.
        left: u64,
        /// Its other side.
        right: u64,
    },
    /// The newest page of a logical page is not where the table says.
    #[error("logical page {logical} is at {table:?} by the table and at {flash:?} by the flash")]
    Place {
        /// The logical page.
        logical: u32,
        /// Page number in the table.
        table: Option<u32>,
        /// Page with the highest sequence on the flash.
        flash: Option<u32>,
    },
    /// The flash could not be read.
    #[error(transparent)]
    Nand(#[from] NandError),
}

fn equal(what: &'static str, left: u64, right: u64) -> Result<(), Disagreement> {
    if left == right { Ok(()) } else { Err(Disagreement::Counters { what, left, right }) }
}

impl Ftl {
    /// Looks at every page: whether programs, erases and pages in use add up, each logical page is where the flash has its newest copy,
    /// and blocks know how many valid pages they have. A power cut makes programs that nobody counted: check before it, or after opening.
    ///
    /// # Errors
    /// The first [`Disagreement`].
    pub fn check(&mut self) -> Result<(), Disagreement> {
        self.check_counters()?;
        self.check_places()
    }

    fn check_counters(&self) -> Result<(), Disagreement> {
        let pages_per_block = u64::from(self.nand.geometry().pages_per_block);
        let (now, then) = (self.nand.counters(), self.nand_at_open);
        let programs = now.programs - then.programs;
        let erases = now.erases - then.erases;
        let unused = now.unused_pages_erased - then.unused_pages_erased;
        let used: u64 = self.blocks.ids().map(|block| u64::from(self.nand.used_pages(block))).sum();
        equal(
            "programs = host + cleaning + levelling + metadata + failed",
            programs,
            self.counters.programs(),
        )?;
        equal("erases as counted above and below", self.counters.erases, erases)?;
        equal(
            "erases x pages of a block = programs - pages in use + pages erased without use",
            erases * pages_per_block + used,
            programs + unused + self.used_at_open,
        )?;
        let valid = self.blocks.ids().map(|block| u64::from(self.blocks[block].valid)).sum();
        equal(
            "sum of valid pages = mapped logical pages",
            valid,
            self.mapping.places().flatten().count() as u64,
        )
    }

    fn check_places(&mut self) -> Result<(), Disagreement> {
        let mut newest = vec![(0, None); self.mapping.places().count()];
        for block in self.blocks.ids() {
            for index in 0..self.nand.used_pages(block) {
                let page = self.nand.geometry().page(block, index);
                let Some(oob) = Oob::decode(&self.nand.read_oob(page, 0)?.oob) else { continue };
                let first = if oob.kind == PageKind::Trims { self.user_pages } else { 0 };
                let known = &mut newest[first as usize + oob.logical as usize];
                if oob.sequence > known.0 {
                    *known = (oob.sequence, Some(page.0));
                }
            }
        }
        for (logical, (place, (_, flash))) in self.mapping.places().zip(newest).enumerate() {
            let table = place.map(|page| page.0);
            // What was trimmed may still be on the flash.
            if table != flash && table.is_some() {
                return Err(Disagreement::Place { logical: logical as u32, table, flash });
            }
        }
        Ok(())
    }
}
