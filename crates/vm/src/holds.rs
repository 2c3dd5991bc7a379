//! Who holds pages where they are: two books.
//!
//! - **Pins** are of mapped pages, which stay at their addresses.
//! - **Uses** are of cached pages, which stay in their slots. One use stands in the entry alone, so that taking and ending it is one
//!   exchange of a word; the book has the pages that are used more than once at a time.
//!
//! The page's state says which book it is in, and does not change while it is in one. Both are changed with the entry held only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_base::PageId;
use aquifer_map::Locked;

/// How often pages are held.
pub(crate) struct Book(Mutex<HashMap<u64, u32>>);

/// The books of one heap.
pub(crate) struct Holds {
    pub(crate) pins: Book,
    pub(crate) uses: Book,
}

impl Holds {
    pub(crate) fn new() -> Self {
        Self { pins: Book::new(), uses: Book::new() }
    }
}

impl Book {
    fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a page once more, if it is held or no more than `limit` pages are then; else returns how many are. A page that is not in
    /// the book is held `before` times already.
    pub(crate) fn add(
        &self,
        _held: &Locked<'_>,
        page: PageId,
        before: u32,
        limit: usize,
    ) -> Result<(), usize> {
        let mut counts = self.counts();
        let pages = counts.len();
        match counts.get_mut(&page.0) {
            Some(count) => *count += 1,
            None if pages >= limit => return Err(pages),
            None => {
                counts.insert(page.0, before + 1);
            }
        }
        Ok(())
    }

    /// Holds a page once less; returns how often it is held still, `None` if it was not. With `left` it leaves the book.
    pub(crate) fn end(&self, _held: &Locked<'_>, page: PageId, left: u32) -> Option<u32> {
        let mut counts = self.counts();
        let count = counts.get_mut(&page.0)?;
        *count -= 1;
        let now = *count;
        if now <= left {
            counts.remove(&page.0);
        }
        Some(now)
    }

    /// Whether any of the pages is in the book.
    pub(crate) fn has_any(&self, first: PageId, count: u64) -> bool {
        let counts = self.counts();
        !counts.is_empty() && (first.0..first.0 + count).any(|page| counts.contains_key(&page))
    }

    /// Pages in the book.
    pub(crate) fn len(&self) -> usize {
        self.counts().len()
    }

    /// Those for which `is_wrong` holds: the first.
    pub(crate) fn find(&self, mut is_wrong: impl FnMut(PageId) -> bool) -> Option<PageId> {
        self.counts().keys().map(|&page| PageId(page)).find(|&page| is_wrong(page))
    }
}
