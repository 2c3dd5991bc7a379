//! Reading many requests at once: all that slabs behind one link have is on its way together.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use aquifer_device::ReadRequest;
use arrayvec::ArrayVec;

use super::PAGE_BYTES;
use super::geometry::Row;
use super::home::Home;
use super::{Parts, pages};
use crate::transport::Read;

/// Requests that are looked at together.
pub const BATCH: usize = 64;

/// Requests of a batch.
pub type Requests<'a, 'b> = ArrayVec<&'a mut ReadRequest<'b>, BATCH>;

/// A request that one slab can answer.
struct Planned {
    /// Which of the requests.
    nth: usize,
    home: Arc<Home>,
    /// Where its bytes are in the slab.
    within: u64,
    row: Row,
}

impl Parts {
    /// Reads many; each has its own outcome. No row is locked for a first look: what has the checksum of a page's newest bytes are these bytes. What slabs behind a
    /// link that fails had, and what is not right, is left for a second look.
    pub(super) fn read_batch(&self, requests: &mut Requests<'_, '_>) {
        let planned = requests.iter().enumerate().filter_map(|(nth, request)| self.plan(nth, request));
        let mut planned: ArrayVec<Planned, BATCH> = planned.collect();
        // Neighbours in a slab are one transfer.
        planned.sort_unstable_by_key(|plan| {
            let place = plan.home.place().at(plan.within);
            (Arc::as_ptr(plan.home.link()).addr(), place.key, place.address)
        });
        let mut is_done = [false; BATCH];
        for same in planned.chunk_by(|before, after| Arc::ptr_eq(before.home.link(), after.home.link())) {
            if !transfer(same, requests) {
                same.iter().for_each(|plan| self.lose(plan.row.group, &plan.home));
                continue;
            }
            for plan in same {
                is_done[plan.nth] = self.is_right(requests[plan.nth]);
            }
        }
        for (request, is_done) in requests.iter_mut().zip(is_done) {
            request.result = if is_done { Ok(()) } else { self.read_rows(request.offset, request.buf) };
        }
    }

    /// The slab that answers a request; none if it takes several, or has not all of it.
    fn plan(&self, nth: usize, request: &ReadRequest<'_>) -> Option<Planned> {
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
        Some(Planned { nth, home, within: self.geometry.within_slab(piece.row, within), row: piece.row })
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

/// Whether one link gave all of these.
fn transfer(planned: &[Planned], requests: &mut Requests<'_, '_>) -> bool {
    let Some(first) = planned.first() else { return true };
    let mut buffers: ArrayVec<_, BATCH> =
        requests.iter_mut().map(|request| Some(&mut *request.buf)).collect();
    let to_read = |plan: &Planned| buffers[plan.nth].take().map(|to| plan.home.to_read(plan.within, to));
    let mut reads: ArrayVec<Read<'_>, BATCH> = planned.iter().filter_map(to_read).collect();
    first.home.link().read_many(&mut reads).is_ok()
}
