//! Pages that are freed: gone from RAM and garbage on flash at once.

use std::sync::atomic::Ordering;

use aquifer_base::limits::LEAF_PAGES;
use aquifer_base::{LeafId, PageId};
use aquifer_cache::SlotId;
use aquifer_device::AlignedBuffer;
use aquifer_map::leaves::{Held, NoRoom, SCRATCH_BYTES};
use aquifer_map::{Locked, Place, State};
use aquifer_sys::{Backoff, SignalsBlocked};

use crate::engine::Engine;
use crate::error::FaultError;
use crate::trouble::WriterWait;

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
        let _pass = self.users_gate.pass_in_fault();
        self.forget_natives(first, count)?;
        let end = first.0 + count;
        let mut page = first;
        while page.0 < end {
            let leaf_end = page.leaf().page(0).0 + LEAF_PAGES as u64;
            let part = leaf_end.min(end) - page.0;
            self.release_in_leaf(page.leaf(), page.index()..page.index() + part as usize)?;
            page = PageId(page.0 + part);
        }
        Ok(())
    }

    /// Takes a leaf back of which no page is in use. Walks map pages along that belong to no object; they
    /// go too, before the leaf is given out for pages of another size. So do records of what a program wrote to
    /// objects after it had freed them: later pages of another size would be looked for there.
    ///
    /// # Errors
    /// There are such records and the leaf cannot be read or changed; then it must not be given out again.
    ///
    /// # Context
    /// Blocks.
    pub fn take_back_leaf(&self, leaf: LeafId) -> Result<(), FaultError> {
        let _signals = SignalsBlocked::new();
        if !self.leaves.is_empty(leaf) {
            self.release_in_leaf(leaf, 0..LEAF_PAGES)?;
        }
        self.leaves.set_page_bytes(leaf, 0);
        // Who has inserted an entry looks at the size again: either it sees the new one or we see the entry.
        std::sync::atomic::fence(Ordering::SeqCst);
        self.forget_pages(leaf, 0..LEAF_PAGES);
        Ok(())
    }

    fn forget_pages(&self, leaf: LeafId, indices: std::ops::Range<usize>) {
        for (page, locked) in self.lock_residents(leaf, indices) {
            self.forget(page, locked);
        }
    }

    /// Takes the entries of those of the pages that are in RAM.
    fn lock_residents(&self, leaf: LeafId, indices: std::ops::Range<usize>) -> Vec<(PageId, Locked<'_>)> {
        let mut resident = Vec::new();
        if indices.len() == 1 {
            resident.push(leaf.page(indices.start));
        } else {
            self.entries.for_each_of_leaf(leaf, &mut |page, _| {
                if indices.contains(&page.index()) {
                    resident.push(page);
                }
            });
        }
        resident.into_iter().filter_map(|page| Some((page, self.entries.lock_resident(page)?))).collect()
    }

    fn release_in_leaf(&self, leaf: LeafId, indices: std::ops::Range<usize>) -> Result<(), FaultError> {
        let resident = self.lock_residents(leaf, indices.clone());
        // The leaf first: if it cannot be read, the newest bytes are still in RAM.
        let released = match self.leaves.is_empty(leaf) {
            true => Ok(()),
            false => {
                let mut scratch = AlignedBuffer::new(SCRATCH_BYTES);
                self.change_leaf(leaf, &mut scratch, &mut |held| {
                    indices.clone().for_each(|index| held.set_place(index, Place::ZERO));
                })
            }
        };
        for (page, locked) in resident {
            match released {
                Ok(()) => self.forget(page, locked),
                Err(_) => locked.restore(),
            }
        }
        if released.is_ok() && self.is_whole(leaf.page(0)) {
            // Who reads ahead may have found a page's place before it was freed, and put its old bytes in RAM since.
            self.forget_pages(leaf, indices);
        }
        released
    }

    /// Ends a page's stay in RAM, whatever its state, without keeping its bytes.
    fn forget(&self, page: PageId, locked: Locked<'_>) {
        let entry = locked.entry();
        if locked.before().is_some_and(|before| before.state() == State::Mapped) {
            self.drop_page(page);
        }
        if let Some(slot) = entry.slot() {
            self.cache.free(SlotId(slot));
        }
        if entry.is_dirty() {
            self.dirty.fetch_sub(1, Ordering::Relaxed);
        }
        locked.remove();
    }

    /// Changes a leaf from a thread that owns no end of the log: waits for the writer if there is no room.
    fn change_leaf(
        &self,
        leaf: LeafId,
        scratch: &mut [u8],
        change: &mut dyn FnMut(&mut Held<'_>),
    ) -> Result<(), FaultError> {
        let page = leaf.page(0);
        let (mut backoff, mut wait) = (Backoff::new(), WriterWait::default());
        loop {
            let mut held = self.leaves.hold(leaf, scratch).map_err(|e| FaultError::from_read(page, e))?;
            change(&mut held);
            match held.store(None) {
                Ok(()) => return Ok(()),
                Err(NoRoom) => {
                    self.wait_for_writer_in_fault(page, &mut wait)?;
                    backoff.wait();
                }
            }
        }
    }
}
