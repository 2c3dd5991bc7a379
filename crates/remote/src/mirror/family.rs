//! Slabs that hold the same part of a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::home::Home;
use super::tags::Tag;

/// The most slabs that hold the same.
pub const REPLICAS_MAX: usize = 2;

/// Slabs that hold the same part of a device. It never changes; another one takes its place.
///
/// Every page that was written since the family began has its epoch, and is in all of its slabs. The first slab may come from a family before: it also has the pages
/// of these epochs, until they are copied to the others.
#[derive(Clone, Debug)]
pub struct Family {
    epoch: u32,
    homes: Vec<Arc<Home>>,
    /// Epochs of pages that the first slab alone has.
    inherited: Vec<u32>,
}

/// Which slabs of a family have a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holders {
    /// All of them.
    All,
    /// The first one.
    First,
    /// None.
    Nobody,
}

impl Family {
    /// Slabs that hold nothing yet.
    pub fn new(homes: Vec<Arc<Home>>) -> Family {
        Family { epoch: next_epoch(), homes, inherited: Vec::new() }
    }

    /// A slab of a family before, and further ones that hold nothing yet.
    pub fn heir(before: &Family, survivor: &Arc<Home>, others: Vec<Arc<Home>>) -> Family {
        let is_first = before.homes.first().is_some_and(|first| Arc::ptr_eq(first, survivor));
        let mut inherited = if is_first { before.inherited.clone() } else { Vec::new() };
        inherited.push(before.epoch);
        let homes = std::iter::once(Arc::clone(survivor)).chain(others).collect();
        Family { epoch: next_epoch(), homes, inherited }
    }

    /// The same without a slab that is lost.
    pub fn without(&self, lost: &Home) -> Family {
        let is_lost = |home: &Arc<Home>| std::ptr::eq(&**home, lost);
        // What only the first one had is lost with it.
        let inherited =
            if self.homes.first().is_some_and(is_lost) { Vec::new() } else { self.inherited.clone() };
        let homes = self.homes.iter().filter(|home| !is_lost(home)).cloned().collect();
        Family { epoch: self.epoch, homes, inherited }
    }

    /// The same when all pages have been copied to all slabs.
    pub fn settled(&self) -> Family {
        Family { epoch: self.epoch, homes: self.homes.clone(), inherited: Vec::new() }
    }

    /// What pages that are written now are tagged with.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// All slabs.
    pub fn homes(&self) -> &[Arc<Home>] {
        &self.homes
    }

    /// Which slabs have a page with this tag.
    pub fn holders(&self, tag: Tag) -> Holders {
        if self.homes.is_empty() {
            Holders::Nobody
        } else if tag.is_in(self.epoch) {
            Holders::All
        } else if self.inherited.iter().any(|epoch| tag.is_in(*epoch)) {
            Holders::First
        } else {
            Holders::Nobody
        }
    }
}

/// No two families of a process have the same, so no page is taken for one of another family.
fn next_epoch() -> u32 {
    static EPOCHS: AtomicU32 = AtomicU32::new(1);
    EPOCHS.fetch_add(1, Relaxed)
}
