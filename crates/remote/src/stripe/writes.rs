//! Writing: pages and their parity to slabs at once, and to flash behind while slabs are too few.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use aquifer_device::DeviceError;

use super::Parts;
use super::columns::Columns;
use super::gather::Missing;
use super::geometry::{Piece, Row};
use super::workplace::Workplace;
use crate::mirror::{Home, PAGE_BYTES};

/// Pages of a column's unit that go to a slab.
struct Errand<'a> {
    home: &'a Arc<Home>,
    column: usize,
    pages: Range<usize>,
}

impl Parts {
    /// Whether slabs have the row, as far as they are alive.
    pub(super) fn is_coded(&self, row: Row) -> bool {
        self.cells.get(self.geometry.cell(row, 0, 0)).is_coded()
    }

    /// Writes pages of one row.
    pub(super) fn write_row(&self, piece: &Piece, buf: &[u8]) -> Result<(), DeviceError> {
        let row = piece.row;
        let _row = self.locks.write(row);
        let group = &self.groups[row.group];
        let columns = group.columns();
        let is_anybody_there =
            (0..self.code().slabs()).any(|column| columns.reading(column, row.nth).is_some());
        if !self.is_coded(row) || !is_anybody_there {
            self.put_behind(piece.pages.clone(), buf)?;
            piece.pages.clone().for_each(|page| self.cell(page).is_local_alone());
            return Ok(());
        }
        let touched = self.touched(piece);
        let mut work = self.workplaces.take();
        self.complete(piece, &columns, touched.clone(), &mut work)?;
        self.overlay(piece, buf, &mut work);
        self.encode(touched.clone(), &mut work);
        let homes = |column| columns.writing(column, row.nth);
        self.send(row, homes, &work, |column| {
            if column < self.code().data { self.written(piece, column) } else { touched.clone() }
        });
        let is_short = group.columns().staying(row.nth) < self.code().slabs();
        let outcome = if is_short { self.put_behind(piece.pages.clone(), buf) } else { Ok(()) };
        self.note(row, &work, touched, |column| self.written(piece, column), is_short && outcome.is_ok());
        outcome
    }

    fn code(&self) -> super::Code {
        self.geometry.code()
    }

    /// Pages of a column's unit that a request writes.
    fn written(&self, piece: &Piece, column: usize) -> Range<usize> {
        let first = self.geometry.first_of(piece.row, column);
        let within = |page: usize| page.clamp(first, first + self.geometry.unit_pages()) - first;
        within(piece.pages.start)..within(piece.pages.end)
    }

    /// Pages of a unit that some column has among those that a request writes.
    fn touched(&self, piece: &Piece) -> Range<usize> {
        let ((first, start), (last, end)) =
            (self.geometry.place_of(piece.pages.start), self.geometry.place_of(piece.pages.end - 1));
        if first == last { start..end + 1 } else { 0..self.geometry.unit_pages() }
    }

    /// Brings together what the parity needs beside what is written.
    fn complete(
        &self,
        piece: &Piece,
        columns: &Columns,
        touched: Range<usize>,
        work: &mut Workplace<'_>,
    ) -> Result<(), DeviceError> {
        let row = piece.row;
        let mut others = (0..self.code().data).filter(|column| self.written(piece, *column) != touched);
        let is_loaded = others.all(|column| {
            self.load(row, columns, column, touched.clone(), work.of_mut(column, touched.clone()))
        });
        if is_loaded {
            return Ok(());
        }
        // What was lost just now is not asked again.
        let columns = self.groups[row.group].columns();
        match self.recover(row, &columns, touched.clone(), work) {
            Ok(()) => Ok(()),
            Err(Missing(missing)) => self.salvage(row, &missing, touched, work),
        }
    }

    /// What is written takes the place of what was there.
    fn overlay(&self, piece: &Piece, buf: &[u8], work: &mut Workplace<'_>) {
        for (page, bytes) in piece.pages.clone().zip(buf.chunks_exact(PAGE_BYTES)) {
            let (column, within) = self.geometry.place_of(page);
            let place = work.of_mut(column, within..within + 1);
            place.copy_from_slice(bytes);
            if let Some(seals) = &self.seals {
                seals.seal(page, place);
            }
        }
    }

    /// Writes pages of columns to their slabs, to all slabs at once. A slab that fails to take them is lost.
    fn send<'a, H: Iterator<Item = &'a Arc<Home>>>(
        &self,
        row: Row,
        homes: impl Fn(usize) -> H,
        work: &Workplace<'_>,
        pages: impl Fn(usize) -> Range<usize>,
    ) {
        let of_column = |column: usize| {
            let pages = pages(column);
            homes(column).map(move |home| Errand { home, column, pages: pages.clone() })
        };
        let mut errands: Vec<_> = (0..self.code().slabs()).flat_map(of_column).collect();
        errands.retain(|errand| !errand.pages.is_empty());
        // The order of their links, everywhere the same: else two callers could wait for each other.
        errands.sort_by_key(|errand| Arc::as_ptr(errand.home.link()).addr());
        let mut begun = Vec::with_capacity(errands.len());
        for Errand { home, column, pages } in &errands {
            let bytes = work.of(*column, pages.clone());
            begun.push(home.begin_write(bytes, self.geometry.within_slab(row, pages.start)));
        }
        for (errand, writing) in errands.iter().zip(begun) {
            if writing.finish().is_ok() {
                self.counts.remote_writes.fetch_add(errand.pages.len() as u64, Relaxed);
            } else {
                self.lose(row.group, errand.home);
            }
        }
    }

    /// Notes what slabs have now.
    fn note(
        &self,
        row: Row,
        work: &Workplace<'_>,
        touched: Range<usize>,
        written: impl Fn(usize) -> Range<usize>,
        is_local: bool,
    ) {
        let code = self.code();
        for column in 0..code.slabs() {
            let pages = if column < code.data { written(column) } else { touched.clone() };
            for (within, bytes) in pages.clone().zip(work.of(column, pages).chunks_exact(PAGE_BYTES)) {
                self.cells.get(self.geometry.cell(row, column, within)).is_in_slab(bytes, is_local);
            }
        }
    }

    fn put_behind(&self, pages: Range<usize>, buf: &[u8]) -> Result<(), DeviceError> {
        self.behind.put(pages.start, &buf[..pages.len() * PAGE_BYTES])
    }

    /// Gives the slabs that join a group a row of it. With `saves`, flash gets what donors alone have of it. `false` if that, or flash itself, failed.
    pub(super) fn rebuild(&self, row: Row, saves: bool) -> bool {
        let _row = self.locks.write(row);
        let columns = self.groups[row.group].columns();
        let (code, whole) = (self.code(), 0..self.geometry.unit_pages());
        let is_coded = self.is_coded(row);
        let is_joined = (0..code.slabs()).any(|column| columns.joining(column).is_some());
        if is_joined || (is_coded && saves) {
            let mut work = self.workplaces.take();
            let missing = if is_coded {
                self.recover(row, &columns, whole.clone(), &mut work).err().map(|Missing(missing)| missing)
            } else {
                Some((0..code.data).collect())
            };
            if let Some(missing) = &missing
                && self.salvage(row, missing, whole.clone(), &mut work).is_err()
            {
                return false;
            }
            self.encode(whole.clone(), &mut work);
            // What was made anew changes the parity, and slabs that are there already have nothing of a row that was not coded.
            let (is_new, is_changed) = (!is_coded, missing.is_some());
            let homes =
                |column| columns.writing(column, row.nth).chain(columns.joining_only(column, row.nth));
            self.send(row, homes, &work, |column| {
                let is_for_all = is_new || (is_changed && column >= code.data);
                if is_for_all || columns.joining(column).is_some() { whole.clone() } else { 0..0 }
            });
            for column in code.data..code.slabs() {
                for (within, bytes) in
                    whole.clone().zip(work.of(column, whole.clone()).chunks_exact(PAGE_BYTES))
                {
                    self.cells.get(self.geometry.cell(row, column, within)).is_in_slab(bytes, false);
                }
            }
            if saves && !self.save(row, &mut work) {
                return false;
            }
        }
        columns.note_joined(row.nth);
        true
    }

    /// Brings to flash what donors alone have of a row; `false` if flash does not take it.
    fn save(&self, row: Row, work: &mut Workplace<'_>) -> bool {
        let pages = self.geometry.pages_of(row);
        for page in pages.start..pages.end.min(self.geometry.pages()) {
            let (column, within) = self.geometry.place_of(page);
            let bytes = work.of_mut(column, within..within + 1);
            if self.cell(page).is_remote_alone() && self.open(page..page + 1, bytes) {
                if self.behind.put(page, bytes).is_err() {
                    return false;
                }
                self.cell(page).is_local_too();
            }
        }
        true
    }
}
