//! Reading from many slabs: all that those behind one link have is on its way together.

use std::sync::Arc;

use aquifer_device::ReadRequest;

use super::home::Home;
use crate::transport::Read;

/// A request that one slab can answer.
pub struct Planned<T> {
    /// Which of the requests.
    pub nth: usize,
    pub home: Arc<Home>,
    /// Where its bytes are in the slab.
    pub within: u64,
    /// What else is known of it.
    pub more: T,
}

/// Reads what slabs have. Slabs behind a link that fails are told to `lost`; what they had, and what `is_right` does not accept, is left for a second look.
pub fn read_together<T>(
    requests: &mut [&mut ReadRequest<'_>],
    mut planned: Vec<Planned<T>>,
    lost: impl Fn(&Planned<T>),
    is_right: impl Fn(&Planned<T>, &mut ReadRequest<'_>) -> bool,
    second_look: impl Fn(&mut ReadRequest<'_>),
) {
    // Neighbours in a slab are one transfer.
    planned.sort_unstable_by_key(|plan| {
        let place = plan.home.place().at(plan.within);
        (Arc::as_ptr(plan.home.link()).addr(), place.key, place.address)
    });
    let mut is_done = vec![false; requests.len()];
    for same in planned.chunk_by(|before, after| Arc::ptr_eq(before.home.link(), after.home.link())) {
        if !transfer(same, requests) {
            same.iter().for_each(&lost);
            continue;
        }
        for plan in same.iter().filter(|plan| is_right(plan, requests[plan.nth])) {
            is_done[plan.nth] = true;
        }
    }
    for (request, is_done) in requests.iter_mut().zip(is_done) {
        if is_done {
            request.result = Ok(());
        } else {
            second_look(request);
        }
    }
}

/// Whether one link gave all of these.
fn transfer<T>(planned: &[Planned<T>], requests: &mut [&mut ReadRequest<'_>]) -> bool {
    let Some(first) = planned.first() else { return true };
    let mut buffers: Vec<_> = requests.iter_mut().map(|request| Some(&mut *request.buf)).collect();
    let mut reads: Vec<Read<'_>> = planned
        .iter()
        .filter_map(|plan| buffers[plan.nth].take().map(|to| plan.home.to_read(plan.within, to)))
        .collect();
    first.home.link().read_many(&mut reads).is_ok()
}
