//! Where in a heap rows lie, as they become more and fewer.

use aquifer::{Error, Heap};
use aquifer_base::limits::OS_PAGE_BYTES;

/// Blocks of fewer bytes are made this long: longer ones than [`aquifer_base`]'s small blocks read as zeros when they are new.
const BLOCK_BYTES_MIN: usize = 4 * OS_PAGE_BYTES;
/// A store that grows becomes longer by at least this part of what it has, so that growing row by row makes few extents.
const GROWTH_PART: usize = 8;

/// Rows that lie one after another.
struct Extent {
    base: usize,
    /// Number of its first row.
    first: usize,
    rows: usize,
}

/// Rows of equal length. They keep their places when there are more of them.
pub(crate) struct Extents {
    row_bytes: usize,
    /// Bytes from one row to the next.
    stride: usize,
    extents: Vec<Extent>,
    rows: usize,
    /// Rows from here on were never written.
    fresh: usize,
}

/// Some bytes of a heap, and how far into the program's memory they are copied to or from.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) address: usize,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl Extents {
    /// No rows yet. Of `apart` rows each is an object of its own, and no longer than a page; others follow each other without gaps.
    pub(crate) fn new(row_bytes: usize, apart: bool) -> Self {
        let stride = if apart { OS_PAGE_BYTES } else { row_bytes };
        Self { row_bytes, stride, extents: Vec::new(), rows: 0, fresh: 0 }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn is_apart(&self) -> bool {
        self.stride != self.row_bytes
    }

    fn capacity(&self) -> usize {
        self.extents.last().map_or(0, |last| last.first + last.rows)
    }

    /// Makes room for `rows`. New ones read as zeros, but for those from [`Extents::recycled`].
    ///
    /// # Errors
    /// The heap's; there are as many rows as before.
    pub(crate) fn grow(&mut self, heap: &Heap, rows: usize) -> Result<(), Error> {
        let capacity = self.capacity();
        if rows > capacity {
            let more =
                if self.extents.is_empty() { rows } else { (rows - capacity).max(capacity / GROWTH_PART) };
            let base = if self.is_apart() {
                heap.array(more, self.row_bytes)?.base()
            } else {
                let too_large =
                    || Error::Invalid(format!("{more} rows of {} bytes are too many", self.row_bytes));
                let bytes = more.checked_mul(self.row_bytes).ok_or_else(too_large)?;
                let bytes = bytes.max(BLOCK_BYTES_MIN);
                debug_assert!(!heap.block_is_recycled(bytes), "new rows read as zeros");
                heap.allocate_block(bytes, OS_PAGE_BYTES)?
            };
            self.extents.push(Extent { base: base.expose_provenance(), first: capacity, rows: more });
        }
        self.rows = rows;
        Ok(())
    }

    /// Rows that there are but that may hold bytes of earlier ones: they are written with zeros before anyone reads them.
    pub(crate) fn recycled(&mut self, before: usize) -> std::ops::Range<usize> {
        let end = self.rows.min(self.fresh).max(before);
        self.fresh = self.fresh.max(self.rows);
        before..end
    }

    /// Gives rows from `rows` on back.
    ///
    /// # Errors
    /// The heap's.
    pub(crate) fn shrink(&mut self, heap: &Heap, rows: usize) -> Result<(), Error> {
        while let Some(last) = self.extents.last().filter(|last| last.first >= rows) {
            heap.free(std::ptr::with_exposed_provenance_mut(last.base))?;
            self.extents.pop();
        }
        self.rows = rows;
        self.fresh = self.fresh.min(self.capacity());
        Ok(())
    }

    fn extent_of(&self, row: usize) -> &Extent {
        let after = self.extents.partition_point(|extent| extent.first <= row);
        &self.extents[after - 1]
    }

    /// Address of `row`, which is one of those that there are.
    pub(crate) fn address(&self, row: usize) -> usize {
        let extent = self.extent_of(row);
        extent.base + (row - extent.first) * self.stride
    }

    /// Calls `each` with the pieces that `count` rows from `first` consist of, in order.
    pub(crate) fn pieces(&self, first: usize, count: usize, mut each: impl FnMut(Piece)) {
        let mut row = first;
        while row < first + count {
            let extent = self.extent_of(row);
            let run = if self.is_apart() { 1 } else { (first + count).min(extent.first + extent.rows) - row };
            let address = extent.base + (row - extent.first) * self.stride;
            each(Piece { address, offset: (row - first) * self.row_bytes, bytes: run * self.row_bytes });
            row += run;
        }
    }
}
