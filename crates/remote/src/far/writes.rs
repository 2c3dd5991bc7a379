//! Writing: pages and their parity to slabs at once, and to flash behind while slabs are too few.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use aquifer_device::{DeviceError, Operation};
use arrayvec::ArrayVec;

use super::Code;
use super::PAGE_BYTES;
use super::Parts;
use super::cells;
use super::columns::{Columns, Group};
use super::gather::Missing;
use super::geometry::{Piece, ROW_PAGES_MAX, Row, UNIT_PAGES_MAX_OF_COPIES};
use super::home::Home;
use super::workplace::Workplace;

/// Rows that are written at once: 1 MiB.
const RUN_ROWS_MAX: usize = 8;

/// What goes to slabs at once: to one of each column, and to the one that takes its place.
const ERRANDS_MAX: usize = 2 * Code::SLABS_MAX;

/// Pages of a column's unit that go to a slab; of the units of a run.
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

    /// Rows that [`Parts::write_run`] may be given: they are written at once where slabs have what the caller has.
    pub(super) fn run_rows_max(&self) -> usize {
        if self.code().is_of_copies() && self.seals.is_none() { RUN_ROWS_MAX } else { 1 }
    }

    /// Writes pages of rows that follow each other in a group.
    ///
    /// # Errors
    /// Flash fails.
    pub(super) fn write_run(&self, piece: &Piece, buf: &[u8]) -> Result<(), DeviceError> {
        let last = self.geometry.row_of(piece.pages.end - 1);
        if last == piece.row {
            return self.write_row(piece, buf);
        }
        let rows = || (piece.row.nth..=last.nth).map(|nth| Row { nth, ..last });
        let locks = self.locks.write_all::<RUN_ROWS_MAX>(rows());
        let columns = self.groups[last.group].columns();
        if columns.are_settled()
            && rows().all(|row| self.is_coded(row) && self.is_anybody_there(&columns, row))
        {
            return self.write_copies(piece, buf, &columns);
        }
        drop(locks);
        let mut each = self.geometry.cut(piece.pages.clone());
        each.try_for_each(|piece| self.write_row(&piece, &buf[piece.bytes.clone()]))
    }

    fn is_anybody_there(&self, columns: &Columns, row: Row) -> bool {
        (0..self.code().slabs()).any(|column| columns.reading(column, row.nth).is_some())
    }

    /// Writes pages of one row.
    fn write_row(&self, piece: &Piece, buf: &[u8]) -> Result<(), DeviceError> {
        let row = piece.row;
        let _row = self.locks.write(row);
        let group = &self.groups[row.group];
        let columns = group.columns();
        if !self.is_coded(row) || !self.is_anybody_there(&columns, row) {
            self.put_behind(piece.pages.clone(), buf)?;
            piece.pages.clone().for_each(|page| self.cell(page).is_local_alone());
            return Ok(());
        }
        if self.code().is_of_copies() {
            return self.write_copies(piece, buf, &columns);
        }
        let touched = self.touched(piece);
        let mut work = self.workplaces.take();
        self.complete(piece, &columns, touched.clone(), &mut work)?;
        self.overlay(piece, buf, &mut work);
        self.codec.encode(touched.clone(), &mut work);
        let pages =
            |column| if column < self.code().data { self.written(piece, column) } else { touched.clone() };
        let errands = self.errands(|column| columns.writing(column, row.nth), pages);
        self.send(row, &errands, |errand| work.of(errand.column, errand.pages.clone()), || ());
        let is_short = group.columns().staying(row.nth) < self.code().slabs();
        let outcome = if is_short { self.put_behind(piece.pages.clone(), buf) } else { Ok(()) };
        let is_local = is_short && outcome.is_ok();
        self.note_alone(group, is_local);
        self.note(row, &work, touched, |column| self.written(piece, column), is_local);
        outcome
    }

    /// Writes pages to slabs that all have the same bytes: nothing is brought together or computed. Meanwhile the buffer before flash gets them, if flash
    /// has everything, and their checksums are computed.
    fn write_copies(&self, piece: &Piece, buf: &[u8], columns: &Columns) -> Result<(), DeviceError> {
        let (row, group) = (piece.row, &self.groups[piece.row.group]);
        let (_, start) = self.geometry.place_of(piece.pages.start);
        let within = start..start + piece.pages.len();
        let work = self.seals.as_ref().map(|_| {
            let mut work = self.workplaces.take();
            self.overlay(piece, buf, &mut work);
            work
        });
        let sent = work.as_ref().map_or(buf, |work| work.of(0, within.clone()));
        let is_for_flash = self.code().has_all_on_flash();
        let (mut taken, mut sums) = (Ok(0), [0; RUN_ROWS_MAX * UNIT_PAGES_MAX_OF_COPIES]);
        let errands = self.errands(|column| columns.writing(column, row.nth), |_| within.clone());
        self.send(
            row,
            &errands,
            |_| sent,
            || {
                // Waits for nobody: donors have a deadline.
                if is_for_flash {
                    taken = self.behind.try_put(piece.pages.start, buf);
                }
                for (sum, bytes) in sums.iter_mut().zip(sent.chunks_exact(PAGE_BYTES)) {
                    *sum = cells::sum(bytes);
                }
            },
        );
        let is_short = is_for_flash || group.columns().staying(row.nth) < self.code().slabs();
        let outcome = match taken {
            Ok(taken) if is_short => {
                self.put_behind(piece.pages.start + taken..piece.pages.end, &buf[taken * PAGE_BYTES..])
            }
            taken => taken.map(drop),
        };
        // Flash that fails has what it had, or the buffer has the new bytes: a donor alone never has a page that flash should have.
        let is_local = is_for_flash || (is_short && outcome.is_ok());
        self.note_alone(group, is_local);
        for (page, sum) in piece.pages.clone().zip(sums) {
            let cell = self.cell(page);
            cell.is_in_slab_as(sum, is_local);
            if is_for_flash && outcome.is_err() {
                cell.is_local_alone();
            }
        }
        outcome
    }

    /// Before cells say that pages are in slabs.
    fn note_alone(&self, group: &Group, is_local: bool) {
        if !is_local {
            group.note_remote_alone();
        }
    }

    fn code(&self) -> Code {
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

    /// Which pages go to which slabs, in the order of their links, everywhere the same: else two callers could wait for each other.
    fn errands<'a, H: Iterator<Item = &'a Arc<Home>>>(
        &self,
        homes: impl Fn(usize) -> H,
        pages: impl Fn(usize) -> Range<usize>,
    ) -> ArrayVec<Errand<'a>, ERRANDS_MAX> {
        let of_column = |column: usize| {
            let pages = pages(column);
            homes(column).map(move |home| Errand { home, column, pages: pages.clone() })
        };
        let all = (0..self.code().slabs()).flat_map(of_column);
        let mut errands: ArrayVec<_, _> = all.filter(|errand| !errand.pages.is_empty()).collect();
        errands.sort_unstable_by_key(|errand| Arc::as_ptr(errand.home.link()).addr());
        errands
    }

    /// Writes pages to slabs, to all at once, and does what is beside. A slab that fails to take them is lost.
    ///
    /// Each errand begins, and ends behind those after it: what is under way is on the stack, as deep as there are slabs.
    fn send<'a>(
        &self,
        row: Row,
        errands: &[Errand<'_>],
        bytes: impl Fn(&Errand<'_>) -> &'a [u8],
        beside: impl FnOnce(),
    ) {
        let Some((errand, others)) = errands.split_first() else { return beside() };
        let within = self.geometry.within_slab(row, errand.pages.start);
        let writing = errand.home.begin_write(bytes(errand), within);
        self.send(row, others, bytes, beside);
        if writing.finish().is_ok() {
            self.counts.remote_writes.fetch_add(errand.pages.len() as u64, Relaxed);
        } else {
            self.lose(row.group, errand.home);
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
        let is_done = self.renew(row, &columns, saves);
        if is_done {
            columns.note_joined(row.nth);
        }
        is_done
    }

    /// As [`Parts::rebuild`], by a thread that has locked the row; slabs that join may have it already.
    fn renew(&self, row: Row, columns: &Columns, saves: bool) -> bool {
        let (code, whole) = (self.code(), 0..self.geometry.unit_pages());
        let is_coded = self.is_coded(row);
        let is_joined = (0..code.slabs()).any(|column| columns.joining(column).is_some());
        if !(is_joined || (is_coded && saves)) {
            return true;
        }
        let mut work = self.workplaces.take();
        let missing = if is_coded {
            self.recover(row, columns, whole.clone(), &mut work).err().map(|Missing(missing)| missing)
        } else {
            Some((0..code.data as u8).collect())
        };
        if let Some(missing) = &missing
            && self.salvage(row, missing, whole.clone(), &mut work).is_err()
        {
            return false;
        }
        self.codec.encode(whole.clone(), &mut work);
        // What was made anew changes the parity, and slabs that are there already have nothing of a row that was not coded.
        let (is_new, is_changed) = (!is_coded, missing.is_some());
        let homes = |column| columns.writing(column, row.nth).chain(columns.joining_only(column, row.nth));
        let errands = self.errands(homes, |column| {
            let is_for_all = is_new || (is_changed && column >= code.data);
            if is_for_all || columns.joining(column).is_some() { whole.clone() } else { 0..0 }
        });
        self.send(row, &errands, |errand| work.of(errand.column, errand.pages.clone()), || ());
        if !code.is_of_copies() {
            for column in code.data..code.slabs() {
                for (within, bytes) in
                    whole.clone().zip(work.of(column, whole.clone()).chunks_exact(PAGE_BYTES))
                {
                    self.cells.get(self.geometry.cell(row, column, within)).is_in_slab(bytes, false);
                }
            }
        }
        !saves || self.save(row, &mut work)
    }

    /// Brings to the buffer before flash what donors alone have.
    ///
    /// # Errors
    /// Flash fails, or nobody has a page any more; later calls speak of other pages then.
    pub(super) fn save_all(&self) -> Result<(), DeviceError> {
        let mut outcome = Ok(());
        for (nth, group) in self.groups.iter().enumerate() {
            if group.take_remote_alone() {
                let rows = (0..self.geometry.rows()).map(|row| self.save_row(Row { group: nth, nth: row }));
                let saved = rows.fold(Ok(()), Result::and);
                if saved.is_err() {
                    group.note_remote_alone();
                }
                outcome = outcome.and(saved);
            }
        }
        outcome
    }

    fn save_row(&self, row: Row) -> Result<(), DeviceError> {
        let _row = self.locks.write(row);
        let pages = self.geometry.pages_of(row);
        let all = pages.start..pages.end.min(self.geometry.pages());
        let is_alone = |page: &usize| self.cell(*page).is_remote_alone();
        let alone: ArrayVec<_, ROW_PAGES_MAX> = all.filter(is_alone).collect();
        let Some(first) = alone.first() else { return Ok(()) };
        let columns = self.groups[row.group].columns();
        if !self.renew(row, &columns, true) {
            let (operation, offset) = (Operation::Sync, (first * PAGE_BYTES) as u64);
            return Err(DeviceError::Io { operation, offset, len_bytes: PAGE_BYTES, errno: libc::EIO });
        }
        let lost = alone.into_iter().filter(|page| !self.cell(*page).is_local());
        let errors = lost.map(|page| self.lost_page(Operation::Sync, page));
        // All are counted.
        errors.reduce(|first, _| first).map_or(Ok(()), Err)
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
