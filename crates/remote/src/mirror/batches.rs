//! Reading many at once: all that the slabs of one donor have is on its way together.

use std::sync::Arc;

use aquifer_device::ReadRequest;

use super::family::{Family, Holders};
use super::home::Home;
use super::{Parts, page_of, pages};
use crate::transport::Read;

/// A request that one slab can answer.
struct Planned {
    nth: usize,
    family: Arc<Family>,
    held_by: Holders,
    home: Arc<Home>,
}

impl Parts {
    /// Reads many; each has its own outcome.
    pub(super) fn read_batch(&self, requests: &mut [&mut ReadRequest<'_>]) {
        let mut planned: Vec<Planned> =
            requests.iter().enumerate().filter_map(|(nth, request)| self.plan(nth, request)).collect();
        // Neighbours in a slab are one transfer.
        planned.sort_unstable_by_key(|plan| {
            (Arc::as_ptr(plan.home.link()).addr(), plan.home.place().key, requests[plan.nth].offset)
        });
        let mut is_done = vec![false; requests.len()];
        for same in planned.chunk_by(|before, after| Arc::ptr_eq(before.home.link(), after.home.link())) {
            self.read_of_link(same, requests, &mut is_done);
        }
        for (request, _) in requests.iter_mut().zip(is_done).filter(|(_, is_done)| !is_done) {
            request.result = self.read_pieces(request.offset, request.buf);
        }
    }

    /// The slab that answers a request; none if it takes several, or none has all of it.
    fn plan(&self, nth: usize, request: &ReadRequest<'_>) -> Option<Planned> {
        let mut cut = self.homes.cut(request.offset, request.buf.len());
        cut.next().filter(|_| cut.next().is_none())?;
        let family = self.homes.of(request.offset)?;
        let held_by = family.holders(self.tags.get(page_of(request.offset)));
        let holds = |page: usize| family.holders(self.tags.get(page)) == held_by;
        if !pages(request.offset, request.buf.len()).all(holds) {
            return None;
        }
        let home = Parts::in_turn(&family, held_by, request.offset).next().map(Arc::clone)?;
        Some(Planned { nth, family, held_by, home })
    }

    /// Reads what slabs behind one link have. What is not as it was written there is left for a second look.
    fn read_of_link(&self, planned: &[Planned], requests: &mut [&mut ReadRequest<'_>], is_done: &mut [bool]) {
        let Some(first) = planned.first() else { return };
        let mut buffers: Vec<_> =
            requests.iter_mut().map(|request| Some((request.offset, &mut *request.buf))).collect();
        let mut reads: Vec<Read<'_>> = planned
            .iter()
            .filter_map(|plan| buffers[plan.nth].take().map(|buffer| (plan, buffer)))
            .map(|(plan, (offset, to))| plan.home.to_read(self.homes.within(offset), to))
            .collect();
        if first.home.link().read_many(&mut reads).is_err() {
            planned.iter().for_each(|plan| self.lose(&plan.home));
            return;
        }
        drop(reads);
        for plan in planned {
            let request = &mut requests[plan.nth];
            if self.is_right(&plan.family, plan.held_by, request.offset, request.buf) {
                request.result = Ok(());
                is_done[plan.nth] = true;
            }
        }
    }
}
