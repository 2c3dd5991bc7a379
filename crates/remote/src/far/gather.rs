//! Bringing the pages of a row together: from their slabs, from what the others say of them, or from flash.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use aquifer_device::DeviceError;
use arrayvec::ArrayVec;

use super::Code;
use super::PAGE_BYTES;
use super::Parts;
use super::columns::Columns;
use super::geometry::Row;
use super::workplace::Workplace;

/// Columns of data whose pages nobody has.
pub struct Missing(pub ArrayVec<u8, { Code::DATA_MAX }>);

impl Parts {
    /// Reads pages of a column from its slab; `false` if there is none, or it has other bytes than it was given. The row has been coded.
    pub(super) fn load(
        &self,
        row: Row,
        columns: &Columns,
        column: usize,
        pages: Range<usize>,
        bytes: &mut [u8],
    ) -> bool {
        let Some(home) = columns.reading(column, row.nth) else { return false };
        if home.read(self.geometry.within_slab(row, pages.start), bytes).is_err() {
            self.lose(row.group, home);
            return false;
        }
        let is_right =
            |within: usize, page: &[u8]| self.cells.get(self.geometry.cell(row, column, within)).is_of(page);
        let wrong =
            pages.zip(bytes.chunks_exact(PAGE_BYTES)).filter(|(within, page)| !is_right(*within, page));
        let wrong = wrong.count();
        if wrong > 0 {
            self.counts.wrong_pages.fetch_add(wrong as u64, Relaxed);
            self.lose(row.group, home);
        }
        wrong == 0
    }

    /// Brings pages of all columns of data together, as slabs have them.
    pub(super) fn recover(
        &self,
        row: Row,
        columns: &Columns,
        pages: Range<usize>,
        work: &mut Workplace<'_>,
    ) -> Result<(), Missing> {
        let code = self.geometry.code();
        let mut loaded = [false; Code::SLABS_MAX];
        let mut count = 0;
        for (column, is_loaded) in loaded[..code.slabs()].iter_mut().enumerate() {
            // As many of any kind are enough, and those of data need no decoding.
            if count == code.data {
                break;
            }
            *is_loaded = self.load(row, columns, column, pages.clone(), work.of_mut(column, pages.clone()));
            count += usize::from(*is_loaded);
        }
        let missing: ArrayVec<_, _> =
            (0..code.data as u8).filter(|column| !loaded[usize::from(*column)]).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if count < code.data {
            return Err(Missing(missing));
        }
        self.codec.decode(pages.clone(), loaded, work);
        let is_right = |column: usize| {
            let mut decoded = pages.clone().zip(work.of(column, pages.clone()).chunks_exact(PAGE_BYTES));
            decoded.all(|(within, page)| self.cells.get(self.geometry.cell(row, column, within)).is_of(page))
        };
        if missing.iter().all(|column| is_right(usize::from(*column))) {
            Ok(())
        } else {
            Err(Missing(missing))
        }
    }

    /// Gives pages that slabs do not have the bytes that flash has of them; if it has none, they are lost, and zeros from now on. Their parity is to be made anew.
    pub(super) fn salvage(
        &self,
        row: Row,
        missing: &[u8],
        pages: Range<usize>,
        work: &mut Workplace<'_>,
    ) -> Result<(), DeviceError> {
        for column in missing.iter().map(|column| usize::from(*column)) {
            if self.salvage_whole(row, column, pages.clone(), work)? {
                continue;
            }
            for within in pages.clone() {
                let bytes = work.of_mut(column, within..within + 1);
                let cell = self.cells.get(self.geometry.cell(row, column, within));
                let page = self.geometry.first_of(row, column) + within;
                if page < self.geometry.pages() && cell.is_local() {
                    self.behind.read((page * PAGE_BYTES) as u64, bytes, &self.counts)?;
                    if let Some(seals) = &self.seals {
                        seals.seal(page, bytes);
                    }
                    cell.is_in_slab(bytes, true);
                } else if page < self.geometry.pages() {
                    bytes.fill(0);
                    cell.is_lost(bytes);
                } else {
                    bytes.fill(0);
                    cell.is_in_slab(bytes, true);
                }
            }
        }
        Ok(())
    }

    /// Gives pages of a column the bytes that flash has, if it has all of them; says whether it has.
    fn salvage_whole(
        &self,
        row: Row,
        column: usize,
        pages: Range<usize>,
        work: &mut Workplace<'_>,
    ) -> Result<bool, DeviceError> {
        let first = self.geometry.first_of(row, column);
        let all = first + pages.start..first + pages.end;
        if all.end > self.geometry.pages() || !all.clone().all(|page| self.cell(page).is_local()) {
            return Ok(false);
        }
        let bytes = work.of_mut(column, pages);
        self.behind.read((all.start * PAGE_BYTES) as u64, bytes, &self.counts)?;
        for (page, bytes) in all.zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            if let Some(seals) = &self.seals {
                seals.seal(page, bytes);
            }
            self.cell(page).is_in_slab(bytes, true);
        }
        Ok(true)
    }
}
