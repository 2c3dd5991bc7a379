//! Which pages are mapped, in order of arrival.

use aquifer_base::PageId;
use aquifer_sys::SpinLock;

struct Ring {
    pages: Box<[u64]>,
    first: usize,
    len: usize,
}

/// A FIFO of mapped pages. It may name pages that have left already; who pops them looks at the entry.
pub(crate) struct PageBuffer {
    ring: SpinLock<Ring>,
}

impl PageBuffer {
    /// Room for `pages`; pushing more is a broken invariant.
    pub(crate) fn new(pages: usize) -> Self {
        Self { ring: SpinLock::new(Ring { pages: vec![0; pages].into(), first: 0, len: 0 }) }
    }

    /// RAM that it takes.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.ring.lock().pages.len() * 8
    }

    /// How many pages it names.
    pub(crate) fn len(&self) -> usize {
        self.ring.lock().len
    }

    /// Adds a page at the end; false if there is no room.
    pub(crate) fn push_in_fault(&self, page: PageId) -> bool {
        let mut ring = self.ring.lock();
        if ring.len == ring.pages.len() {
            return false;
        }
        let mut at = ring.first + ring.len;
        if at >= ring.pages.len() {
            at -= ring.pages.len();
        }
        ring.pages[at] = page.0;
        ring.len += 1;
        true
    }

    /// Takes up to `out.len()` of the oldest pages; returns how many.
    pub(crate) fn pop_in_fault(&self, out: &mut [PageId]) -> usize {
        let mut ring = self.ring.lock();
        let count = ring.len.min(out.len());
        for page in &mut out[..count] {
            *page = PageId(ring.pages[ring.first]);
            ring.first = if ring.first + 1 == ring.pages.len() { 0 } else { ring.first + 1 };
        }
        ring.len -= count;
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
            for n in 0..4 {
                assert!(buffer.push_in_fault(PageId(round * 10 + n)));
            }
            assert!(!buffer.push_in_fault(PageId(99)));
            assert_eq!(buffer.pop_in_fault(&mut out), 3);
            assert_eq!(out, [0, 1, 2].map(|n| PageId(round * 10 + n)));
            assert_eq!(buffer.pop_in_fault(&mut out), 1);
            assert_eq!(buffer.len(), 0);
        }
    }
}
