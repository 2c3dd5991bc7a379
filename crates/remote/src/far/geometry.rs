//! Where pages are: in which group, row and column, and where in its slab.

use std::ops::Range;

use super::Code;
use super::PAGE_BYTES;

/// Pages of one column of a row, at the most. Rows are then 128 KiB for four columns of data.
const UNIT_PAGES_MAX: usize = 8;
/// The same of one column alone: as many as a transfer carries.
pub const UNIT_PAGES_MAX_OF_COPIES: usize = 32;
/// Pages of data of a row, at the most; more than a column alone has.
pub const ROW_PAGES_MAX: usize = Code::DATA_MAX * UNIT_PAGES_MAX;

/// A row of a group: a unit of each of its slabs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Row {
    pub group: usize,
    /// Counted from 0 in the group.
    pub nth: usize,
}

/// A part of a request that lies in one row, or in rows that follow each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    pub row: Row,
    /// Pages of the device.
    pub pages: Range<usize>,
    /// Where it is in the request.
    pub bytes: Range<usize>,
}

/// Sizes of a device and its parts, in pages.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    code: Code,
    pages: usize,
    slab_pages: usize,
    unit_pages: usize,
}

impl Geometry {
    /// The layout of a device of `pages` pages in slabs of `slab_pages`.
    pub fn new(code: Code, pages: usize, slab_pages: usize) -> Geometry {
        let most = if code.is_of_copies() { UNIT_PAGES_MAX_OF_COPIES } else { UNIT_PAGES_MAX };
        let unit_pages = (1..=most).rev().find(|unit| slab_pages.is_multiple_of(*unit));
        Geometry { code, pages, slab_pages, unit_pages: unit_pages.expect("1 is one") }
    }

    /// Pages of the device.
    pub fn pages(&self) -> usize {
        self.pages
    }

    pub fn code(&self) -> Code {
        self.code
    }

    /// Groups of slabs.
    pub fn groups(&self) -> usize {
        self.pages.div_ceil(self.group_pages())
    }

    /// Rows of a group.
    pub fn rows(&self) -> usize {
        self.slab_pages / self.unit_pages
    }

    /// Pages of one column of a row.
    pub fn unit_pages(&self) -> usize {
        self.unit_pages
    }

    /// Cells of all groups: one for each page of each slab, or of all that have the same bytes.
    pub fn cells(&self) -> usize {
        self.groups() * self.columns_of_cells() * self.slab_pages
    }

    fn columns_of_cells(&self) -> usize {
        if self.code.is_of_copies() { 1 } else { self.code.slabs() }
    }

    fn group_pages(&self) -> usize {
        self.code.data * self.slab_pages
    }

    fn row_pages(&self) -> usize {
        self.code.data * self.unit_pages
    }

    /// Cuts pages of the device at the ends of rows.
    pub fn cut(&self, pages: Range<usize>) -> impl Iterator<Item = Piece> + use<> {
        self.cut_runs(pages, 1)
    }

    /// Cuts pages of the device into runs of at most `rows_max` rows of one group. A run is said to be in its first row.
    pub fn cut_runs(&self, pages: Range<usize>, rows_max: usize) -> impl Iterator<Item = Piece> + use<> {
        let (geometry, first) = (*self, pages.start);
        let mut next = pages.start;
        std::iter::from_fn(move || {
            let row = geometry.row_of(next);
            let last = Row { nth: (row.nth + rows_max).min(geometry.rows()) - 1, ..row };
            let end = pages.end.min(geometry.pages_of(last).end);
            let piece = Piece {
                row,
                pages: next..end,
                bytes: (next - first) * PAGE_BYTES..(end.max(next) - first) * PAGE_BYTES,
            };
            next = end.max(next);
            (!piece.pages.is_empty()).then_some(piece)
        })
    }

    pub fn row_of(&self, page: usize) -> Row {
        let group = page / self.group_pages();
        Row { group, nth: page % self.group_pages() / self.row_pages() }
    }

    /// Pages of the device in a row, those behind its end included.
    pub fn pages_of(&self, row: Row) -> Range<usize> {
        let first = row.group * self.group_pages() + row.nth * self.row_pages();
        first..first + self.row_pages()
    }

    /// The first page of a column of data in a row.
    pub fn first_of(&self, row: Row, column: usize) -> usize {
        self.pages_of(row).start + column * self.unit_pages
    }

    /// Which column has a page, and where in its unit.
    pub fn place_of(&self, page: usize) -> (usize, usize) {
        let within = page % self.row_pages();
        (within / self.unit_pages, within % self.unit_pages)
    }

    /// Where a page of a column's unit is in its slab, in bytes.
    pub fn within_slab(&self, row: Row, within_unit: usize) -> u64 {
        ((row.nth * self.unit_pages + within_unit) * PAGE_BYTES) as u64
    }

    /// The cell of a page of any column.
    pub fn cell(&self, row: Row, column: usize, within_unit: usize) -> usize {
        let columns = self.columns_of_cells();
        let slab = row.group * columns + column.min(columns - 1);
        slab * self.slab_pages + row.nth * self.unit_pages + within_unit
    }

    pub fn cell_of_page(&self, page: usize) -> usize {
        let (column, within) = self.place_of(page);
        self.cell(self.row_of(page), column, within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_a_cell_of_its_own() {
        let code = Code::new(3, 2).expect("a code");
        for (slab_pages, unit) in [(32, 8), (12, 6), (7, 7), (11, 1)] {
            let geometry = Geometry::new(code, 100, slab_pages);
            assert_eq!(geometry.unit_pages(), unit);
            let mut cells: Vec<_> = (0..100).map(|page| geometry.cell_of_page(page)).collect();
            cells.sort_unstable();
            cells.dedup();
            assert_eq!(cells.len(), 100);
            assert!(cells.iter().all(|cell| *cell < geometry.cells()));
        }
    }

    #[test]
    fn requests_are_cut_at_rows() {
        let geometry = Geometry::new(Code::new(2, 1).expect("a code"), 100, 16);
        let cut: Vec<_> =
            geometry.cut(10..40).map(|piece| (piece.row, piece.pages, piece.bytes.start)).collect();
        let row = |group, nth| Row { group, nth };
        assert_eq!(
            cut,
            [
                (row(0, 0), 10..16, 0),
                (row(0, 1), 16..32, 6 * PAGE_BYTES),
                (row(1, 0), 32..40, 22 * PAGE_BYTES)
            ]
        );
        assert_eq!(geometry.cut(5..5).count(), 0);
        let runs: Vec<_> = geometry.cut_runs(10..100, 3).map(|piece| (piece.row, piece.pages)).collect();
        assert_eq!(
            runs,
            [(row(0, 0), 10..32), (row(1, 0), 32..64), (row(2, 0), 64..96), (row(3, 0), 96..100)]
        );
        assert_eq!(geometry.place_of(33), (0, 1));
        assert_eq!(geometry.place_of(41), (1, 1));
    }
}
