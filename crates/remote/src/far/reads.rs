//! Reading: from a page's slab, else from buffer or flash, else from what the other slabs say of it.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use aquifer_device::{DeviceError, Operation};

use super::PAGE_BYTES;
use super::columns::Columns;
use super::geometry::{Piece, Row};
use super::{Parts, pages};

impl Parts {
    /// Reads pages, those of each row for themselves.
    pub(super) fn read_rows(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.geometry
            .cut(pages(offset, buf.len()))
            .try_for_each(|piece| self.read_row(&piece, &mut buf[piece.bytes.clone()]))
    }

    /// Reads pages of one row.
    fn read_row(&self, piece: &Piece, buf: &mut [u8]) -> Result<(), DeviceError> {
        let _row = self.locks.read(piece.row);
        let columns = self.groups[piece.row.group].columns();
        let kind = |page: usize| (self.geometry.place_of(page).0, self.cell(page).is_newest());
        let mut next = piece.pages.start;
        while next < piece.pages.end {
            let (column, is_newest) = kind(next);
            let run = (next..piece.pages.end).take_while(|page| kind(*page) == (column, is_newest)).count();
            let start = (next - piece.pages.start) * PAGE_BYTES;
            let bytes = &mut buf[start..start + run * PAGE_BYTES];
            if is_newest {
                self.read_coded(piece.row, &columns, next..next + run, bytes)?;
            } else {
                self.read_local(next..next + run, bytes)?;
            }
            next += run;
        }
        Ok(())
    }

    /// Reads pages of one column whose newest bytes donors have.
    fn read_coded(
        &self,
        row: Row,
        columns: &Columns,
        pages: Range<usize>,
        bytes: &mut [u8],
    ) -> Result<(), DeviceError> {
        let (column, first) = self.geometry.place_of(pages.start);
        let within = first..first + pages.len();
        // Of copies any has the column.
        let asked = if self.geometry.code().is_of_copies() { columns.in_turn(row.nth) } else { column };
        if self.load(row, columns, asked, within.clone(), bytes) {
            if self.open(pages.clone(), bytes) {
                self.counts.remote_reads.fetch_add(pages.len() as u64, Relaxed);
                return Ok(());
            }
            // The donor has found other bytes of the same checksum.
            self.counts.wrong_pages.fetch_add(pages.len() as u64, Relaxed);
            columns.reading(asked, row.nth).into_iter().for_each(|home| self.lose(row.group, home));
        }
        if pages.clone().all(|page| self.cell(page).is_local()) {
            return self.read_local(pages, bytes);
        }
        let mut work = self.workplaces.take();
        let columns = self.groups[row.group].columns();
        if self.recover(row, &columns, within.clone(), &mut work).is_ok() {
            bytes.copy_from_slice(work.of(column, within));
            if self.open(pages.clone(), bytes) {
                let counts = &self.counts;
                let of_copies = self.geometry.code().is_of_copies();
                let count = if of_copies { &counts.remote_reads } else { &counts.decoded_reads };
                count.fetch_add(pages.len() as u64, Relaxed);
                return Ok(());
            }
        }
        drop(work);
        for (page, bytes) in pages.zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            if !self.cell(page).is_local() {
                return Err(self.lost_page(Operation::Read, page));
            }
            self.read_local(page..page + 1, bytes)?;
        }
        Ok(())
    }

    /// Reads pages that buffer or flash have, or nobody.
    fn read_local(&self, pages: Range<usize>, bytes: &mut [u8]) -> Result<(), DeviceError> {
        match pages.clone().find(|page| !self.cell(*page).is_local()) {
            Some(page) => Err(self.lost_page(Operation::Read, page)),
            None => self.behind.read((pages.start * PAGE_BYTES) as u64, bytes, &self.counts),
        }
    }

    /// Opens what was sealed, in place; `false` if it is something else.
    pub(super) fn open(&self, pages: Range<usize>, bytes: &mut [u8]) -> bool {
        let Some(seals) = &self.seals else { return true };
        pages.zip(bytes.chunks_exact_mut(PAGE_BYTES)).all(|(page, bytes)| seals.open(page, bytes))
    }

    pub(super) fn read_in_child(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let is_on_flash = |page: usize| self.cell(page).is_local();
        if self.is_flash_whole.load(Relaxed) && pages(offset, buf.len()).all(is_on_flash) {
            return self.local.read_at(offset, buf);
        }
        Err(DeviceError::Io { operation: Operation::Read, offset, len_bytes: buf.len(), errno: libc::EIO })
    }
}
