//! The next page of a file that is on flash.

use super::Table;
use crate::error::Result;
use crate::flash::Flash;
use crate::key::{Ino, PageKey};
use crate::node::NODE_WORDS;
use crate::table::Root;
use crate::word::Word;

impl Table {
    /// The first page from `first` on that is on flash. Whatever is zeros is passed over 512 pages at a time, or as many as a node has below
    /// it.
    ///
    /// # Errors
    /// A node could not be read.
    pub fn next(&self, flash: &Flash, ino: Ino, first: u32) -> Result<Option<u32>> {
        let root = self.root(flash, ino)?;
        if u64::from(first) >= root.pages() {
            return Ok(None);
        }
        if root.height == 0 {
            return Ok((root.word != Word::ZERO).then_some(0));
        }
        self.next_below(flash, PageKey::new(ino, root.height, 0), root, first)
    }

    /// As [`Table::next`], of the pages that a node translates.
    fn next_below(&self, flash: &Flash, key: PageKey, root: Root, first: u32) -> Result<Option<u32>> {
        let Some(node) = self.node(flash, key, root)? else { return Ok(None) };
        let shift = 9 * (key.level() - 1);
        let start = u64::from(key.index()) << (shift + 9);
        let first_slot = (u64::from(first).saturating_sub(start) >> shift) as usize;
        for slot in first_slot..NODE_WORDS {
            let (word, child) = (node.word(slot), key.child(slot));
            if key.level() == 1 {
                if word != Word::ZERO {
                    return Ok(Some(child.index()));
                }
            } else if word != Word::ZERO || self.nodes.get(child).is_some() {
                let found = self.next_below(flash, child, root, first)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        self.nodes.shrink();
        Ok(None)
    }
}
