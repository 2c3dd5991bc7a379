//! The pages of a file that are on flash.

use std::ops::ControlFlow;

use super::{Entered, Root, Table};
use crate::error::Result;
use crate::flash::Flash;
use crate::key::{Ino, PageKey};
use crate::node::NODE_WORDS;
use crate::word::Word;

/// Is told of pages, until it breaks.
type Visit<'a> = &'a mut dyn FnMut(u32) -> ControlFlow<()>;

impl Table {
    /// The first page from `first` on that is on flash.
    ///
    /// # Errors
    /// A node could not be read.
    pub fn next(&self, flash: &Flash, ino: Ino, first: u32) -> Result<Option<u32>> {
        let mut found = None;
        self.visit_pages(flash, ino, first, &mut |page| {
            found = Some(page);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// The first page from `first` on that is not on flash, or that `ends` a run.
    ///
    /// # Errors
    /// A node could not be read.
    pub fn run_end(&self, flash: &Flash, ino: Ino, first: u32, ends: impl Fn(u32) -> bool) -> Result<u64> {
        let mut end = u64::from(first);
        self.visit_pages(flash, ino, first, &mut |page| {
            if u64::from(page) != end || ends(page) {
                return ControlFlow::Break(());
            }
            end += 1;
            ControlFlow::Continue(())
        })?;
        Ok(end)
    }

    /// How many of the pages `first..=last` of a file are on flash, of those that `counts`.
    ///
    /// # Errors
    /// A node could not be read.
    pub fn count(
        &self,
        flash: &Flash,
        ino: Ino,
        first: u32,
        last: u32,
        counts: impl Fn(u32) -> bool,
    ) -> Result<u64> {
        let mut count = 0;
        self.visit_pages(flash, ino, first, &mut |page| {
            if page > last {
                return ControlFlow::Break(());
            }
            count += u64::from(counts(page));
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// Visits the pages from `first` on that are on flash. Where a node has nothing below a word, all of that is passed over.
    fn visit_pages(&self, flash: &Flash, ino: Ino, first: u32, visit: Visit<'_>) -> Result<()> {
        let root = self.root(flash, ino)?;
        if u64::from(first) >= root.pages() {
            return Ok(());
        }
        if root.height > 0 {
            let top = PageKey::new(ino, root.height, 0);
            // Whether it ended early, the visitor knows.
            let _ = self.visit_pages_below(flash, top, root, first, &mut Entered::default(), visit)?;
        } else if root.word != Word::ZERO {
            // It is the only one, whatever the visitor says.
            let _ = visit(0);
        }
        Ok(())
    }

    fn visit_pages_below(
        &self,
        flash: &Flash,
        key: PageKey,
        root: Root,
        first: u32,
        entered: &mut Entered,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        let Some(node) = self.node(flash, key, root)? else { return Ok(ControlFlow::Continue(())) };
        entered.count(self, flash)?;
        let shift = 9 * (key.level() - 1);
        let start = u64::from(key.index()) << (shift + 9);
        let first_slot = (u64::from(first).saturating_sub(start) >> shift) as usize;
        for slot in first_slot..NODE_WORDS {
            let word = node.word(slot);
            if word == Word::ZERO && key.level() == 1 {
                continue;
            }
            let child = key.child(slot);
            let went_on = if key.level() == 1 {
                visit(child.index())
            } else if word != Word::ZERO || self.nodes.get(child).is_some() {
                self.visit_pages_below(flash, child, root, first, entered, visit)?
            } else {
                ControlFlow::Continue(())
            };
            if went_on.is_break() {
                return Ok(went_on);
            }
        }
        self.nodes.shrink();
        Ok(ControlFlow::Continue(()))
    }
}
