//! Static wear levelling: blocks whose pages nobody writes again are erased too.

use super::blocks::Role;
use super::error::FtlError;
use super::frontier::Stream;
use super::translation::Ftl;
use crate::nand::BlockId;

impl Ftl {
    /// After `worn` was erased: moves what the least-erased full block holds to a worn block, if the two are too far apart.
    pub(super) fn level_wear(&mut self, worn: BlockId, at_ns: u64) -> Result<(), FtlError> {
        let Some(threshold) = self.options.wear_leveling.static_threshold else { return Ok(()) };
        let closed = self.blocks.with_role(Role::Closed);
        let Some(cold) = closed.min_by_key(|&block| self.nand.erases(block)) else { return Ok(()) };
        if self.nand.erases(worn).saturating_sub(self.nand.erases(cold)) <= threshold {
            return Ok(());
        }
        self.victims.remove(cold, self.blocks[cold].valid);
        self.blocks[cold].role = Role::Leaving;
        let moved_ns = self.empty(cold, Stream::Leveling, at_ns)?;
        self.erase(cold, moved_ns)?;
        Ok(())
    }
}
