//! Static wear levelling: blocks whose pages nobody writes again are erased too.

use super::blocks::Role;
use super::error::FtlError;
use super::frontier::Stream;
use super::translation::Ftl;
use crate::nand::BlockId;

impl Ftl {
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
