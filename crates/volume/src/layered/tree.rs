//! The extent tree: from a page of the file to a block.
//!
//! The root lies in the inode. An entry above leaves separates: what comes before its page is to the left of it.

use super::extent::{self, Entry, ROOT_BYTES};
use crate::error::Result;

/// The nodes below the root.
pub trait Nodes {
    /// What `look` makes of a node.
    ///
    /// # Errors
    /// It could not be read.
    fn look<T>(&self, number: u32, look: impl FnMut(&[u8]) -> T) -> Result<T>;

    /// Changes a node.
    ///
    /// # Errors
    /// It could not be read.
    fn change<T>(&self, number: u32, change: impl FnMut(&mut [u8]) -> T) -> Result<T>;

    /// A node that holds nothing.
    ///
    /// # Errors
    /// [`crate::VolumeError::NoSpace`].
    fn make(&self, level: u32) -> Result<u32>;
}

/// The root of a tree.
#[derive(Clone)]
pub struct Tree {
    root: [u8; ROOT_BYTES],
}

impl Tree {
    /// A tree without extents.
    pub fn new() -> Self {
        let mut root = [0; ROOT_BYTES];
        extent::clear(&mut root, 0);
        Tree { root }
    }

    /// The block of a page, if it has one.
    ///
    /// # Errors
    /// A node could not be read.
    pub fn get(&self, nodes: &impl Nodes, page: u32) -> Result<Option<u32>> {
        let (mut level, mut found) = (extent::level(&self.root), step(&self.root, page));
        while level > 0 {
            let Some(child) = found else { return Ok(None) };
            found = nodes.look(child.at, |node| step(node, page))?;
            level -= 1;
        }
        Ok(found.and_then(|extent| extent.place(page)))
    }

    /// Says where a page is now; returns where it was.
    ///
    /// # Errors
    /// A node could not be read, or made; the page is then where it was, or nowhere.
    pub fn set(&mut self, nodes: &impl Nodes, page: u32, at: u32) -> Result<Option<u32>> {
        let old = self.get(nodes, page)?;
        if old == Some(at) {
            return Ok(old);
        }
        if old.is_some()
            && let Some(right) = self.change_leaf(nodes, page, |leaf| cut(leaf, page))?
        {
            self.insert(nodes, right)?;
        }
        self.insert(nodes, Entry { first: page, len: 1, at })?;
        Ok(old)
    }

    /// How many extents there are, and how many nodes below the root.
    ///
    /// # Errors
    /// A node could not be read.
    pub fn counts(&self, nodes: &impl Nodes) -> Result<(u64, u64)> {
        let (mut extents, mut count) = (0, 0);
        let mut todo = vec![(extent::level(&self.root), self.root.to_vec())];
        while let Some((level, node)) = todo.pop() {
            if level == 0 {
                extents += extent::count(&node) as u64;
                continue;
            }
            for position in 0..extent::count(&node) {
                count += 1;
                let child = extent::entry(&node, position).at;
                todo.push((level - 1, nodes.look(child, <[u8]>::to_vec)?));
            }
        }
        Ok((extents, count))
    }

    /// Adds an extent of pages that have none. Where its leaf is full, all full nodes on the way to it are split, so that there is room above.
    fn insert(&mut self, nodes: &impl Nodes, new: Entry) -> Result<()> {
        if self.change_leaf(nodes, new.first, |leaf| add(leaf, new))? {
            return Ok(());
        }
        if extent::count(&self.root) == extent::capacity(&self.root) {
            self.grow(nodes)?;
        }
        let mut parent = None;
        for _ in 0..extent::level(&self.root) {
            let child =
                self.look(nodes, parent, |node| step(node, new.first))?.expect("a node has entries").at;
            if nodes.look(child, |node| extent::count(node) == extent::capacity(node))? {
                let (first, sibling) = split(nodes, child, new.first)?;
                self.change(nodes, parent, |node| {
                    let position = extent::find(node, first).map_or(0, |position| position + 1);
                    extent::insert(node, position, Entry { first, len: 0, at: sibling });
                })?;
                parent = Some(if new.first < first { child } else { sibling });
            } else {
                parent = Some(child);
            }
        }
        let is_added = self.change(nodes, parent, |leaf| add(leaf, new))?;
        debug_assert!(is_added, "the leaf was split if it was full");
        Ok(())
    }

    fn grow(&mut self, nodes: &impl Nodes) -> Result<()> {
        let level = extent::level(&self.root);
        let child = nodes.make(level)?;
        let root = &mut self.root;
        nodes.change(child, |node| extent::move_tail(root, 0, node))?;
        extent::clear(root, level + 1);
        extent::insert(root, 0, Entry { first: 0, len: 0, at: child });
        Ok(())
    }

    fn look<T>(
        &self,
        nodes: &impl Nodes,
        number: Option<u32>,
        mut look: impl FnMut(&[u8]) -> T,
    ) -> Result<T> {
        match number {
            Some(number) => nodes.look(number, look),
            None => Ok(look(&self.root)),
        }
    }

    fn change<T>(
        &mut self,
        nodes: &impl Nodes,
        number: Option<u32>,
        mut change: impl FnMut(&mut [u8]) -> T,
    ) -> Result<T> {
        match number {
            Some(number) => nodes.change(number, change),
            None => Ok(change(&mut self.root)),
        }
    }

    fn change_leaf<T>(
        &mut self,
        nodes: &impl Nodes,
        page: u32,
        change: impl FnMut(&mut [u8]) -> T,
    ) -> Result<T> {
        let mut leaf = None;
        for _ in 0..extent::level(&self.root) {
            leaf = Some(self.look(nodes, leaf, |node| step(node, page))?.expect("a node has entries").at);
        }
        self.change(nodes, leaf, change)
    }
}

/// The entry that leads to a page, or may hold it.
fn step(node: &[u8], page: u32) -> Option<Entry> {
    (extent::count(node) > 0).then(|| extent::entry(node, extent::find(node, page).unwrap_or(0)))
}

/// Moves a part of a full node to a new one; returns the first page of that, and its number. A node that is filled in order stays full.
fn split(nodes: &impl Nodes, number: u32, page: u32) -> Result<(u32, u32)> {
    let (level, mut node) = nodes.look(number, |node| (extent::level(node), node.to_vec()))?;
    let count = extent::count(&node);
    let is_appended = page > extent::entry(&node, count - 1).first;
    let kept = if is_appended { count - 1 } else { count / 2 };
    let first = extent::entry(&node, kept).first;
    let sibling = nodes.make(level)?;
    nodes.change(sibling, |sibling| extent::move_tail(&mut node, kept, sibling))?;
    nodes.change(number, |old| old.copy_from_slice(&node))?;
    Ok((first, sibling))
}

/// Takes a page out of the extent that has it; returns what of the extent comes after it.
fn cut(leaf: &mut [u8], page: u32) -> Option<Entry> {
    let position = extent::find(leaf, page).expect("the page has an extent");
    let old = extent::entry(leaf, position);
    let before = page - old.first;
    if before == 0 {
        extent::remove(leaf, position);
    } else {
        extent::set(leaf, position, Entry { len: before, ..old });
    }
    let after = old.len - before - 1;
    (after > 0).then(|| Entry { first: page + 1, len: after, at: old.at + before + 1 })
}

/// Makes an extent part of its neighbours in a leaf, or adds it; says whether there was room.
fn add(leaf: &mut [u8], new: Entry) -> bool {
    let next = extent::find(leaf, new.first).map_or(0, |position| position + 1);
    let left = next.checked_sub(1).map(|position| (position, extent::entry(leaf, position)));
    let right = (next < extent::count(leaf)).then(|| extent::entry(leaf, next));
    let mut joined = new;
    let goes_right = right.filter(|&right| joined.goes_on_as(right));
    if let Some(right) = goes_right {
        joined.len += right.len;
    }
    match (left.filter(|(_, left)| left.goes_on_as(joined)), goes_right) {
        (Some((position, left)), goes_right) => {
            extent::set(leaf, position, Entry { len: left.len + joined.len, ..left });
            if goes_right.is_some() {
                extent::remove(leaf, next);
            }
        }
        (None, Some(_)) => extent::set(leaf, next, joined),
        (None, None) if extent::count(leaf) == extent::capacity(leaf) => return false,
        (None, None) => extent::insert(leaf, next, joined),
    }
    true
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Nodes of eight entries, so that trees are high.
    #[derive(Default)]
    struct Small(RefCell<Vec<[u8; 9 * 12]>>);

    impl Nodes for Small {
        fn look<T>(&self, number: u32, mut look: impl FnMut(&[u8]) -> T) -> Result<T> {
            Ok(look(&self.0.borrow()[number as usize]))
        }

        fn change<T>(&self, number: u32, mut change: impl FnMut(&mut [u8]) -> T) -> Result<T> {
            Ok(change(&mut self.0.borrow_mut()[number as usize]))
        }

        fn make(&self, level: u32) -> Result<u32> {
            let mut node = [0; 9 * 12];
            extent::clear(&mut node, level);
            self.0.borrow_mut().push(node);
            Ok(self.0.borrow().len() as u32 - 1)
        }
    }

    proptest! {
        #[test]
        fn places_are_found_again(
            steps in prop::collection::vec((0u32..300, 0u32..40, 1u32..60), 1..200)
        ) {
            let (nodes, mut tree, mut model) = (Small::default(), Tree::new(), BTreeMap::new());
            for (page, start, len) in steps {
                for step in 0..len {
                    // Runs that lie one behind the other here and there, and over each other.
                    let (page, at) = (page + step, start * 1000 + page + step);
                    prop_assert_eq!(tree.set(&nodes, page, at).expect("set"), model.insert(page, at));
                }
            }
            for page in 0..400 {
                prop_assert_eq!(tree.get(&nodes, page).expect("get"), model.get(&page).copied());
            }
        }
    }

    #[test]
    fn what_is_written_in_order_is_few_extents_and_what_is_scattered_is_one_for_each_page() {
        let (nodes, mut tree) = (Small::default(), Tree::new());
        for page in 0..100_000 {
            tree.set(&nodes, page, 7 + page).expect("set");
        }
        assert_eq!(tree.counts(&nodes).expect("counts"), (4, 0));
        let (nodes, mut tree) = (Small::default(), Tree::new());
        for page in 0..1000 {
            tree.set(&nodes, page, 2 * page).expect("set");
        }
        let (extents, count) = tree.counts(&nodes).expect("counts");
        assert_eq!(extents, 1000);
        assert!((1000 / 7..1000 / 5).contains(&count), "nodes that are filled in order are full: {count}");
        // Every second page moves beside the one before it.
        for page in (1..1000).step_by(2) {
            tree.set(&nodes, page, 2 * (page - 1) + 1).expect("set");
        }
        let joined = tree.counts(&nodes).expect("counts").0;
        assert!((500..700).contains(&joined), "but for those that lie in two leaves: {joined}");
    }
}
