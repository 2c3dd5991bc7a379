//! Reading many requests at once.

use std::sync::Arc;

use aquifer_device::ReadRequest;

use super::family::{Family, Holders};
use super::together::{Planned, read_together};
use super::{Parts, page_of, pages};

/// Slabs that have all of a request.
type Source = (Arc<Family>, Holders);

impl Parts {
    /// Reads many; each has its own outcome.
    pub(super) fn read_batch(&self, requests: &mut [&mut ReadRequest<'_>]) {
        let planned =
            requests.iter().enumerate().filter_map(|(nth, request)| self.plan(nth, request)).collect();
        read_together(
            requests,
            planned,
            |plan| self.lose(&plan.home),
            |Planned { more: (family, held_by), .. }, request| {
                self.is_right(family, *held_by, request.offset, request.buf)
            },
            |request| request.result = self.read_pieces(request.offset, request.buf),
        );
    }

    /// The slab that answers a request; none if it takes several, or none has all of it.
    fn plan(&self, nth: usize, request: &ReadRequest<'_>) -> Option<Planned<Source>> {
        let mut cut = self.homes.cut(request.offset, request.buf.len());
        cut.next().filter(|_| cut.next().is_none())?;
        let family = self.homes.of(request.offset)?;
        let held_by = family.holders(self.tags.get(page_of(request.offset)));
        let holds = |page: usize| family.holders(self.tags.get(page)) == held_by;
        if !pages(request.offset, request.buf.len()).all(holds) {
            return None;
        }
        let home = Parts::in_turn(&family, held_by, request.offset).next().map(Arc::clone)?;
        Some(Planned { nth, home, within: self.homes.within(request.offset), more: (family, held_by) })
    }
}
