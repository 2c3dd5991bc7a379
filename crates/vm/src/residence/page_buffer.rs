//! Which pages are mapped, and which of them leaves next.
//!
//! The kernel does not say which mapped pages are used, but a page that faults again soon after it left was
//! worth keeping. Pages arrive in a short queue; those that come back while their ghost is remembered
//! go to a long one (the idea of 2Q and S3-FIFO: Johnson and Shasha, VLDB 1994; Yang et al., SOSP 2023).

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use aquifer_base::PageId;
use aquifer_sys::SpinLock;

/// Share of the pages that the queue of newcomers keeps: one in this many.
const NEWCOMERS: usize = 5;

struct Ring {
    pages: Box<[u64]>,
    first: usize,
    len: usize,
}

impl Ring {
    fn new(pages: usize) -> Self {
        Self { pages: vec![0; pages].into(), first: 0, len: 0 }
    }

    fn push(&mut self, page: PageId) -> bool {
        if self.len == self.pages.len() {
            return false;
        }
        let mut at = self.first + self.len;
        if at >= self.pages.len() {
            at -= self.pages.len();
        }
        self.pages[at] = page.0;
        self.len += 1;
        true
    }

    fn pop(&mut self) -> Option<PageId> {
        if self.len == 0 {
            return None;
        }
        let page = PageId(self.pages[self.first]);
        self.first = if self.first + 1 == self.pages.len() { 0 } else { self.first + 1 };
        self.len -= 1;
        Some(page)
    }
}

struct Queues {
    newcomers: Ring,
    returned: Ring,
}

/// Queues of mapped pages. They may name pages that have left already; who pops them looks at the entry.
pub(super) struct PageBuffer {
    queues: SpinLock<Queues>,
    /// Pages in both queues; changed under their lock.
    len: AtomicUsize,
    /// Pages that left the queue of newcomers not long ago, by hash.
    ghosts: Box<[AtomicU32]>,
}

fn hash(page: PageId) -> u64 {
    page.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl PageBuffer {
    /// Room for `pages` in either queue.
    pub(super) fn new(pages: usize) -> Self {
        Self {
            queues: SpinLock::new(Queues { newcomers: Ring::new(pages), returned: Ring::new(pages) }),
            len: AtomicUsize::new(0),
            ghosts: (0..pages.next_power_of_two()).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// RAM that it takes.
    pub(super) fn ram_bytes(&self) -> usize {
        let queues = self.queues.lock();
        (queues.newcomers.pages.len() + queues.returned.pages.len()) * 8 + self.ghosts.len() * 4
    }

    /// How many pages it names.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn ghost(&self, page: PageId) -> (&AtomicU32, u32) {
        let hash = hash(page);
        (&self.ghosts[(hash >> 40) as usize & (self.ghosts.len() - 1)], hash as u32 | 1)
    }

    /// Adds a page at the end of its queue; false if there is no room.
    pub(super) fn push_in_fault(&self, page: PageId) -> bool {
        let (ghost, mark) = self.ghost(page);
        let returned = ghost.load(Ordering::Relaxed) == mark;
        let mut queues = self.queues.lock();
        let queue = if returned { &mut queues.returned } else { &mut queues.newcomers };
        let pushed = queue.push(page);
        self.len.store(queues.newcomers.len + queues.returned.len, Ordering::Relaxed);
        pushed
    }

    /// Takes up to `out.len()` of the pages that should leave next; returns how many.
    pub(super) fn pop_in_fault(&self, out: &mut [PageId]) -> usize {
        let mut queues = self.queues.lock();
        let mut count = 0;
        while count < out.len() {
            let newcomers = queues.newcomers.len;
            let is_newcomer =
                newcomers * NEWCOMERS > newcomers + queues.returned.len || queues.returned.len == 0;
            let queue = if is_newcomer { &mut queues.newcomers } else { &mut queues.returned };
            let Some(page) = queue.pop() else { break };
            if is_newcomer {
                let (ghost, mark) = self.ghost(page);
                ghost.store(mark, Ordering::Relaxed);
            }
            out[count] = page;
            count += 1;
        }
        self.len.store(queues.newcomers.len + queues.returned.len, Ordering::Relaxed);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_around_the_end() {
        let buffer = PageBuffer::new(4);
        let mut out = [PageId(0); 3];
        for round in 0..5u64 {
            let pages = [0, 1, 2, 3].map(|n| PageId(round * 10 + n));
            for page in pages {
                assert!(buffer.push_in_fault(page));
            }
            assert_eq!(buffer.pop_in_fault(&mut out), 3);
            assert_eq!(out, pages[..3]);
            assert_eq!(buffer.pop_in_fault(&mut out), 1);
            assert_eq!(buffer.len(), 0);
        }
    }

    #[test]
    fn a_page_that_comes_back_outlives_newcomers() {
        let buffer = PageBuffer::new(64);
        let mut out = [PageId(0); 1];
        buffer.push_in_fault(PageId(7));
        assert_eq!(buffer.pop_in_fault(&mut out), 1);
        buffer.push_in_fault(PageId(7));
        for page in 100..140 {
            buffer.push_in_fault(PageId(page));
        }
        for _ in 0..32 {
            assert_eq!(buffer.pop_in_fault(&mut out), 1);
            assert_ne!(out[0], PageId(7));
        }
    }
}
