//! Pages that are freed.

use aquifer_base::{LeafId, PageId};
use aquifer_sys::SignalsBlocked;

use super::Engine;
use crate::error::FaultError;
use crate::leaf_pages::LeafPages;
use crate::release;

impl Engine {
    /// Frees `count` pages from `first`: they read as zeros when they are given out again.
    ///
    /// # Errors
    /// A leaf could not be read or changed; pages of earlier leaves are freed, those of that leaf and later
    /// ones are as before.
    ///
    /// # Context
    /// Blocks. Nobody may use the pages meanwhile; a program that does gets zeros or its old bytes.
    pub fn release(&self, first: PageId, count: u64) -> Result<(), FaultError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.gates.pass_in_fault();
        release::release(&self.pages, first, count)
    }

    /// As [`Engine::release`], for some pages of a leaf, which is changed once.
    ///
    /// # Errors
    /// The leaf could not be read or changed; the pages are as before.
    ///
    /// # Context
    /// As [`Engine::release`].
    pub fn release_in_leaf(&self, leaf: LeafId, indices: &LeafPages) -> Result<(), FaultError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.gates.pass_in_fault();
        release::release_in_leaf(&self.pages, leaf, indices)
    }

    /// Whether any of the pages may be in RAM.
    #[must_use]
    pub fn may_be_in_ram(&self, first: PageId, count: u64) -> bool {
        self.pages.natives.any()
            || (first.0..first.0 + count).any(|page| self.pages.residence.find(PageId(page)).is_some())
    }

    /// Has pages that will be released leave RAM, without keeping their bytes there.
    ///
    /// # Errors
    /// The kernel does not take them; they are as before.
    ///
    /// # Context
    /// Blocks, not for the device. Nobody may use the pages until they are released.
    pub fn forget_in_ram(&self, first: PageId, count: u64) -> Result<(), FaultError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.gates.pass_in_fault();
        release::forget_in_ram(&self.pages, first, count)
    }
}
