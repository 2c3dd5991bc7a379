//! The one table: from a page of a file to where its bytes are.
//!
//! A file's table is a tree of nodes of 512 words; its leaves are the words of its pages. The root's word and its height stand in the
//! table of roots, file 0, whose own root stands in the anchor. A file of one page has no node at all: its root is the page's word.
//!
//! Nodes are in RAM while they are used, and on flash otherwise. A node that changed stays in RAM until a checkpoint has written it. A lookup
//! finds the leaf in RAM by one hash; what lies above is only needed when it is not there.
//!
//! Anybody may look a word up; only the writer, of whom there is one at a time, changes words.

mod bounds;
mod damage;
mod nodes;
mod pages;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::Neighbour;
use crate::error::{Result, VolumeError};
use crate::flash::Flash;
use crate::key::{Ino, PageKey};
use crate::node::Node;
use crate::word::{PAGE_BYTES, PageBytes, Word};

use bounds::{Entered, refuse_impossible};
use nodes::Nodes;

/// Roots on one page of the table of roots: each is a word and a height.
pub(crate) const ROOTS_PER_PAGE: u32 = 256;

/// Where a file's tree begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Root {
    /// Word of the topmost node, or of page 0 at height 0.
    pub word: Word,
    /// Levels of nodes.
    pub height: u32,
}

impl Root {
    /// Pages that a tree of this height can have.
    fn pages(self) -> u64 {
        1 << (9 * self.height)
    }

    /// Whether a tree of this height has a node.
    fn has(self, node: PageKey) -> bool {
        let levels_above = self.height.checked_sub(node.level());
        levels_above.is_some_and(|levels| u64::from(node.index()) < 1 << (9 * levels))
    }
}

/// What a change of a word frees, and what it takes.
pub trait Books {
    /// Nobody needs this any more.
    ///
    /// # Errors
    /// It was not counted.
    fn freed(&mut self, word: Word) -> Result<()>;
}

impl<F: FnMut(Word) -> Result<()>> Books for F {
    fn freed(&mut self, word: Word) -> Result<()> {
        self(word)
    }
}

/// The table of a volume.
pub struct Table {
    nodes: Arc<Nodes>,
    /// Of the table of roots.
    top: Mutex<Root>,
}

impl Table {
    /// The table below `top`, which keeps about `nodes_max` nodes in RAM.
    #[must_use]
    pub fn new(top: Root, nodes_max: usize) -> Self {
        Table { nodes: Arc::new(Nodes::new(nodes_max)), top: Mutex::new(top) }
    }

    /// The nodes in RAM, to be dropped where pages are needed more.
    pub fn nodes_in_ram(&self) -> Arc<dyn Neighbour> {
        Arc::clone(&self.nodes) as _
    }

    /// Where the table of roots begins.
    pub fn top(&self) -> Root {
        *self.lock_top()
    }

    fn lock_top(&self) -> MutexGuard<'_, Root> {
        self.top.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nodes in RAM, and how many of them flash has an older version of.
    pub fn counts(&self) -> (usize, usize) {
        (self.nodes.len(), self.nodes.dirty())
    }

    /// Nodes of a file's tree in RAM.
    pub fn nodes_of(&self, ino: Ino) -> Vec<Arc<Node>> {
        self.nodes.of(ino)
    }

    /// Where page `index` of a file is. The caller holds [`Flash::reading`] if it is going to read it.
    ///
    /// # Errors
    /// A node could not be read.
    pub fn get(&self, flash: &Flash, ino: Ino, index: u32) -> Result<Word> {
        let (leaf, slot) = PageKey::data(ino, index).parent();
        if let Some(node) = self.nodes.get(leaf) {
            return Ok(node.word(slot));
        }
        let root = self.root(flash, ino)?;
        if u64::from(index) >= root.pages() {
            return Ok(Word::ZERO);
        }
        if root.height == 0 {
            return Ok(root.word);
        }
        Ok(self.node(flash, leaf, root)?.map_or(Word::ZERO, |node| node.word(slot)))
    }

    /// Where a node is on flash; [`Word::ZERO`] if it is only in RAM, or nowhere.
    ///
    /// # Errors
    /// A node could not be read.
    pub fn node_word(&self, flash: &Flash, key: PageKey) -> Result<Word> {
        if key.ino() == Ino::ROOTS && key.level() == 0 {
            return self.get(flash, Ino::ROOTS, key.index());
        }
        let root = self.root(flash, key.ino())?;
        self.word_of(flash, key, root)
    }

    /// The root of a file.
    ///
    /// # Errors
    /// A node could not be read.
    pub fn root(&self, flash: &Flash, ino: Ino) -> Result<Root> {
        if ino == Ino::ROOTS {
            return Ok(self.top());
        }
        Ok(self.roots(flash, ino)?.map_or(Root::default(), |page| root_in(&page, ino)))
    }

    /// The page of roots that has the root of a file.
    fn roots(&self, flash: &Flash, ino: Ino) -> Result<Option<Arc<Node>>> {
        let key = PageKey::data(Ino::ROOTS, ino.0 / ROOTS_PER_PAGE);
        self.find(flash, key, |table| table.get(flash, Ino::ROOTS, key.index()))
    }

    /// The node `key` of a file whose root is `root`; `None` if all below it is zeros.
    fn node(&self, flash: &Flash, key: PageKey, root: Root) -> Result<Option<Arc<Node>>> {
        self.find(flash, key, |table| table.word_of(flash, key, root))
    }

    fn word_of(&self, flash: &Flash, key: PageKey, root: Root) -> Result<Word> {
        if key.level() > root.height {
            return Ok(Word::ZERO);
        }
        if key.level() == root.height {
            return Ok(if key.index() == 0 { root.word } else { Word::ZERO });
        }
        let (parent, slot) = key.parent();
        Ok(self.node(flash, parent, root)?.map_or(Word::ZERO, |node| node.word(slot)))
    }

    /// A node in RAM, after it was read if need be. `word` says where it is, and must be true when the node is kept, because it may have been
    /// changed, written and dropped meanwhile.
    fn find(
        &self,
        flash: &Flash,
        key: PageKey,
        word: impl Fn(&Self) -> Result<Word>,
    ) -> Result<Option<Arc<Node>>> {
        /// Each further attempt means that the node was written in the time of one read.
        const ATTEMPTS: u32 = 1000;
        for _ in 0..ATTEMPTS {
            if let Some(node) = self.nodes.get(key) {
                return Ok(Some(node));
            }
            let before = {
                let _reading = flash.reading();
                let before = word(self)?;
                if before == Word::ZERO {
                    None
                } else {
                    let mut bytes = aligned_page();
                    let page: &mut PageBytes = (&mut bytes[..]).try_into().expect("a page");
                    let found = flash.read(key, before, page)?;
                    refuse_impossible(key, page)?;
                    let node = Node::from_page(key, page, found.patched.as_ref(), self.nodes.counter());
                    Some((before, Arc::new(node)))
                }
            };
            let Some((before, node)) = before else {
                // It may have been made since the first look; then it is in RAM.
                return Ok(self.nodes.get(key));
            };
            if let Some(node) = self.nodes.insert_if(key, node, || Ok(word(self)? == before))? {
                return Ok(Some(node));
            }
        }
        Err(VolumeError::Corrupt(format!("{key} changes faster than it can be read")))
    }

    /// Changes where page `index` of a file is; returns where it was. The caller is the writer.
    ///
    /// # Errors
    /// A node could not be read; nothing was changed then.
    pub fn set(&self, flash: &Flash, ino: Ino, index: u32, word: Word) -> Result<Word> {
        let root = self.grow(flash, ino, index)?;
        if root.height == 0 {
            return self.set_root(flash, ino, Root { word, height: 0 }).map(|old| old.word);
        }
        let (leaf, slot) = PageKey::data(ino, index).parent();
        Ok(self.node_or_new(flash, leaf, root)?.set(slot, word))
    }

    /// Changes where a node is on flash, as [`Table::set`] does for a page of data.
    ///
    /// # Errors
    /// As [`Table::set`].
    pub fn set_node_word(&self, flash: &Flash, key: PageKey, word: Word) -> Result<Word> {
        if key.level() == 0 {
            return self.set(flash, key.ino(), key.index(), word);
        }
        let root = self.root(flash, key.ino())?;
        if !root.has(key) {
            return Err(VolumeError::Damaged { key, what: "the file's table has no such node".into() });
        }
        if key.level() == root.height {
            return self.set_root(flash, key.ino(), Root { word, ..root }).map(|old| old.word);
        }
        let (parent, slot) = key.parent();
        Ok(self.node_or_new(flash, parent, root)?.set(slot, word))
    }

    fn set_root(&self, flash: &Flash, ino: Ino, root: Root) -> Result<Root> {
        if ino == Ino::ROOTS {
            return Ok(std::mem::replace(&mut *self.lock_top(), root));
        }
        let page = match self.roots(flash, ino)? {
            Some(page) => page,
            None => {
                let index = ino.0 / ROOTS_PER_PAGE;
                self.grow(flash, Ino::ROOTS, index)?;
                self.nodes.make(PageKey::data(Ino::ROOTS, index))
            }
        };
        let slot = root_slot(ino);
        let word = page.set(slot, root.word);
        let height = page.set(slot + 1, Word::from_bits(root.height.into()));
        Ok(Root { word, height: height.bits() as u32 })
    }

    /// Makes a tree high enough for page `index`.
    fn grow(&self, flash: &Flash, ino: Ino, index: u32) -> Result<Root> {
        let mut root = self.root(flash, ino)?;
        while u64::from(index) >= root.pages() {
            let above = PageKey::new(ino, root.height + 1, 0);
            let is_in_ram = root.height > 0 && self.nodes.get(PageKey::new(ino, root.height, 0)).is_some();
            if root.word != Word::ZERO || is_in_ram {
                self.nodes.make(above).set(0, root.word);
            }
            root = Root { word: Word::ZERO, height: root.height + 1 };
            self.set_root(flash, ino, root)?;
        }
        Ok(root)
    }

    /// A node, and all nodes above it that are missing: what has a node below it is never taken for zeros.
    fn node_or_new(&self, flash: &Flash, key: PageKey, root: Root) -> Result<Arc<Node>> {
        if let Some(node) = self.node(flash, key, root)? {
            return Ok(node);
        }
        let (made, mut key) = (self.nodes.make(key), key);
        while key.level() < root.height {
            key = key.parent().0;
            if self.node(flash, key, root)?.is_some() {
                break;
            }
            self.nodes.make(key);
        }
        Ok(made)
    }

    /// Makes pages `first..=last` of a file zeros. The caller is the writer.
    ///
    /// # Errors
    /// The first node that could not be read: the pages that the others translate are freed then. Of `books`: what was freed before stays so.
    pub fn trim(&self, flash: &Flash, ino: Ino, first: u32, last: u32, books: &mut dyn Books) -> Result<()> {
        let root = self.root(flash, ino)?;
        let last = u32::try_from(u64::from(last).min(root.pages() - 1)).unwrap_or(u32::MAX);
        if first > last {
            return Ok(());
        }
        if root.height == 0 {
            if root.word != Word::ZERO {
                books.freed(root.word)?;
                self.set_root(flash, ino, Root::default())?;
            }
            return Ok(());
        }
        let top = PageKey::new(ino, root.height, 0);
        let mut damage = Ok(());
        if self.trim_below(flash, top, root, first, last, books, &mut damage)? {
            if root.word != Word::ZERO {
                books.freed(root.word)?;
            }
            self.nodes.forget(top);
            self.set_root(flash, ino, Root::default())?;
        }
        damage
    }

    /// Trims what a node translates; says whether nothing is left of it. A node that cannot be read is left, and noted in `damage`.
    #[expect(clippy::too_many_arguments, reason = "what recursion hands on")]
    fn trim_below(
        &self,
        flash: &Flash,
        key: PageKey,
        root: Root,
        first: u32,
        last: u32,
        books: &mut dyn Books,
        damage: &mut Result<()>,
    ) -> Result<bool> {
        let node = match self.node(flash, key, root) {
            Ok(Some(node)) => node,
            Ok(None) => return Ok(true),
            Err(error) => {
                *damage = std::mem::replace(damage, Ok(())).and(Err(error));
                return Ok(false);
            }
        };
        let shift = 9 * (key.level() - 1);
        let start = u64::from(key.index()) << (shift + 9);
        let slot_of = |page: u32| (u64::from(page).saturating_sub(start) >> shift).min(511) as usize;
        for slot in slot_of(first)..=slot_of(last) {
            let word = node.word(slot);
            if key.level() == 1 {
                if word != Word::ZERO {
                    books.freed(word)?;
                    node.set(slot, Word::ZERO);
                }
                continue;
            }
            let child = key.child(slot);
            if word == Word::ZERO && self.nodes.get(child).is_none() {
                continue;
            }
            if self.trim_below(flash, child, root, first, last, books, damage)? {
                self.nodes.forget(child);
                if word != Word::ZERO {
                    books.freed(word)?;
                    node.set(slot, Word::ZERO);
                }
            }
        }
        Ok(node.is_empty() && (key.level() == 1 || !self.nodes.has_child_of(key)))
    }

    /// Nodes that flash has an older version of, those below before those above.
    pub fn dirty_nodes(&self) -> Vec<Arc<Node>> {
        let mut dirty = self.nodes.dirty_nodes();
        // The table of roots is above all others.
        dirty.sort_unstable_by_key(|node| (node.key().ino() == Ino::ROOTS, node.key().level(), node.key()));
        dirty
    }

    /// Drops nodes that were not used for a while, if there are too many.
    pub fn shrink(&self) {
        self.nodes.shrink();
    }

    /// Calls `visit` for every node and every page that is on flash.
    ///
    /// # Errors
    /// Of `visit`, or a node could not be read.
    pub fn walk(
        &self,
        flash: &Flash,
        ino: Ino,
        visit: &mut dyn FnMut(PageKey, Word) -> Result<()>,
    ) -> Result<()> {
        let root = self.root(flash, ino)?;
        if root.height == 0 {
            return if root.word == Word::ZERO { Ok(()) } else { visit(PageKey::data(ino, 0), root.word) };
        }
        let top = PageKey::new(ino, root.height, 0);
        if root.word != Word::ZERO {
            visit(top, root.word)?;
        }
        self.walk_below(flash, top, root, &mut Entered::default(), visit)
    }

    fn walk_below(
        &self,
        flash: &Flash,
        key: PageKey,
        root: Root,
        entered: &mut Entered,
        visit: &mut dyn FnMut(PageKey, Word) -> Result<()>,
    ) -> Result<()> {
        let Some(node) = self.node(flash, key, root)? else { return Ok(()) };
        entered.count(self, flash)?;
        for (slot, word) in node.words().enumerate() {
            let child = key.child(slot);
            if word != Word::ZERO {
                visit(child, word)?;
            }
            if key.level() > 1 && (word != Word::ZERO || self.nodes.get(child).is_some()) {
                self.walk_below(flash, child, root, entered, visit)?;
            }
        }
        self.nodes.shrink();
        Ok(())
    }
}

fn root_slot(ino: Ino) -> usize {
    (ino.0 % ROOTS_PER_PAGE) as usize * 2
}

fn root_in(page: &Node, ino: Ino) -> Root {
    let slot = root_slot(ino);
    let height = page.word(slot + 1).bits().min(PageKey::LEVEL_MAX.into());
    Root { word: page.word(slot), height: height as u32 }
}

fn aligned_page() -> aquifer_device::AlignedBuffer {
    aquifer_device::AlignedBuffer::new(PAGE_BYTES)
}
