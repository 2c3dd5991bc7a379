//! Nodes that cannot be read.

use super::{Entered, ROOTS_PER_PAGE, Root, Table, root_in};
use crate::error::{Result, if_readable};
use crate::flash::Flash;
use crate::key::{Ino, PageKey};
use crate::node::NODE_WORDS;
use crate::word::Word;

impl Table {
    /// The nodes that cannot be read, and have none above them that cannot.
    ///
    /// # Errors
    /// What is not damage.
    pub fn damaged_nodes(&self, flash: &Flash) -> Result<Vec<PageKey>> {
        let mut damaged = Vec::new();
        let top = self.top();
        let mut pages_of_roots = Vec::new();
        self.visit_nodes(flash, Ino::ROOTS, top, &mut damaged, &mut |page| pages_of_roots.push(page))?;
        if top.height == 0 {
            pages_of_roots.push(PageKey::data(Ino::ROOTS, 0));
        }
        for key in pages_of_roots {
            let Some(page) = if_readable(self.roots(flash, Ino(key.index() * ROOTS_PER_PAGE)))? else {
                damaged.push(key);
                continue;
            };
            let Some(page) = page else { continue };
            let first = key.index() * ROOTS_PER_PAGE;
            for ino in (first.max(Ino::INODES.0)..first + ROOTS_PER_PAGE).map(Ino) {
                self.visit_nodes(flash, ino, root_in(&page, ino), &mut damaged, &mut |_| ())?;
            }
            self.nodes.shrink();
        }
        Ok(damaged)
    }

    /// Calls `visit` for pages that leaves name, and adds nodes that cannot be read to `damaged`.
    fn visit_nodes(
        &self,
        flash: &Flash,
        ino: Ino,
        root: Root,
        damaged: &mut Vec<PageKey>,
        visit: &mut dyn FnMut(PageKey),
    ) -> Result<()> {
        let mut waiting = Vec::new();
        if root.height > 0 {
            waiting.push(PageKey::new(ino, root.height, 0));
        }
        let mut entered = Entered::default();
        while let Some(key) = waiting.pop() {
            entered.count(self, flash)?;
            let Some(node) = if_readable(self.node(flash, key, root))? else {
                damaged.push(key);
                continue;
            };
            let Some(node) = node else { continue };
            for slot in 0..NODE_WORDS {
                let child = key.child(slot);
                if node.word(slot) == Word::ZERO && self.nodes.get(child).is_none() {
                    continue;
                }
                if key.level() > 1 { waiting.push(child) } else { visit(child) }
            }
        }
        Ok(())
    }

    /// Puts an empty node in place of one that cannot be read. It stays in RAM.
    pub fn put_empty(&self, node: PageKey) {
        self.nodes.make(node);
    }
}
