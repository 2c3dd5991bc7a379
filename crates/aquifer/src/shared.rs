//! A heap that belongs to the values in it.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::heap::Heap;
use crate::options::Options;
use crate::stats::Stats;

/// A heap for typed objects and collections, shared by them: it is closed when this, its copies and all that is in it are gone.
///
/// A [`Heap`] by itself gives addresses and takes any of them back. Here nobody can free or move what a value is made of, so that the
/// values are safe to use.
#[derive(Clone)]
pub struct SharedHeap(Arc<Heap>);

impl SharedHeap {
    /// Opens a heap.
    ///
    /// # Errors
    /// As [`Heap::open`].
    pub fn open(options: Options) -> Result<Self, Error> {
        Heap::open(options).map(|heap| Self(Arc::new(heap)))
    }

    /// What it uses and has done.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Proves that entries, slots, pages and log agree. No other thread may use the heap meanwhile.
    ///
    /// # Errors
    /// As [`Heap::check`].
    pub fn check(&self) -> Result<(), Error> {
        self.0.check()
    }

    pub(crate) fn heap(&self) -> &Heap {
        &self.0
    }
}

impl fmt::Debug for SharedHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        f.debug_struct("SharedHeap")
            .field("ram_bytes", &stats.ram_budget_bytes)
            .field("ram_used_bytes", &stats.ram_used_bytes)
            .finish()
    }
}
