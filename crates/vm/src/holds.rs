//! Holds that keep pages where they are, in two books.
//!
//! - **Pins** are of mapped pages, which stay at their addresses.
//! - **Uses** are of cached pages, which stay in their slots. One use stands in the entry alone, so that taking and ending it is one
//!   exchange of a word; the book has the pages that are used more than once at a time.
//!
//! The page's state says which book it is in, and does not change while it is in one. Both are changed with the entry held only.

use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_base::PageId;
use aquifer_map::Locked;
use aquifer_sys::own;
use foldhash::HashMap;

/// How often a page is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold {
    pub(crate) count: u32,
    /// The thread that was the last to hold it.
    pub(crate) thread: u32,
}

/// The pages that are held.
pub(crate) struct Book(Mutex<HashMap<u64, Hold>>);

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
        Self(Mutex::new(HashMap::default()))
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<u64, Hold>> {
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
            Some(hold) => *hold = Hold { count: hold.count + 1, thread: own::thread_id() },
            None if pages >= limit => return Err(pages),
            None => {
                counts.insert(page.0, Hold { count: before + 1, thread: own::thread_id() });
            }
        }
        Ok(())
    }

    /// Holds a page once less; returns how often it is held still, `None` if it was not. With `left` it leaves the book.
    pub(crate) fn end(&self, _held: &Locked<'_>, page: PageId, left: u32) -> Option<u32> {
        let mut counts = self.counts();
        let hold = counts.get_mut(&page.0)?;
        hold.count -= 1;
        let now = hold.count;
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

    /// How a page is held, if it is in the book. A thread that has the book locked blocks its signals and
    /// does not fault, so handlers may lock it.
    pub(crate) fn find_in_fault(&self, page: PageId) -> Option<Hold> {
        self.counts().get(&page.0).copied()
    }

    /// Pages in the book.
    pub(crate) fn len(&self) -> usize {
        self.counts().len()
    }

    /// Those for which `is_wrong` holds: the first.
    pub(crate) fn find_page(&self, mut is_wrong: impl FnMut(PageId) -> bool) -> Option<PageId> {
        self.counts().keys().map(|&page| PageId(page)).find(|&page| is_wrong(page))
    }
}
