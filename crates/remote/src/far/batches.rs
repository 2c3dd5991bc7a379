//! Reading many requests at once.

use std::sync::atomic::Ordering::Relaxed;

use aquifer_device::ReadRequest;

use super::PAGE_BYTES;
use super::geometry::Row;
use super::together::{Planned, read_together};
use super::{Parts, pages};

impl Parts {
    /// Reads many; each has its own outcome. No row is locked for a first look: what has the checksum of a page's newest bytes are these bytes.
    pub(super) fn read_batch(&self, requests: &mut [&mut ReadRequest<'_>]) {
        let planned =
            requests.iter().enumerate().filter_map(|(nth, request)| self.plan(nth, request)).collect();
        read_together(
            requests,
            planned,
            |plan| self.lose(plan.more.group, &plan.home),
            |_, request| self.is_right(request),
            |request| request.result = self.read_rows(request.offset, request.buf),
        );
    }

    /// The slab that answers a request; none if it takes several, or has not all of it.
    fn plan(&self, nth: usize, request: &ReadRequest<'_>) -> Option<Planned<Row>> {
        let mut cut = self.geometry.cut(pages(request.offset, request.buf.len()));
        let piece = cut.next().filter(|_| cut.next().is_none())?;
        let (column, within) = self.geometry.place_of(piece.pages.start);
        let mut pages = piece.pages;
        if !pages.all(|page| self.geometry.place_of(page).0 == column && self.cell(page).is_newest()) {
            return None;
        }
        let columns = self.groups[piece.row.group].columns();
        let is_of_copies = self.geometry.code().is_of_copies();
        let column = if is_of_copies { columns.in_turn(piece.row.nth) } else { column };
        let home = columns.reading(column, piece.row.nth)?.clone();
        Some(Planned { nth, home, within: self.geometry.within_slab(piece.row, within), more: piece.row })
    }

    /// Whether these are the newest bytes of a request. Opens what was sealed.
    fn is_right(&self, request: &mut ReadRequest<'_>) -> bool {
        let all = pages(request.offset, request.buf.len());
        let is_newest = |(page, bytes): (usize, &[u8])| {
            let cell = self.cell(page);
            cell.is_newest() && cell.is_of(bytes)
        };
        if !all.clone().zip(request.buf.chunks_exact(PAGE_BYTES)).all(is_newest)
            || !self.open(all.clone(), request.buf)
        {
            return false;
        }
        self.counts.remote_reads.fetch_add(all.len() as u64, Relaxed);
        true
    }
}
