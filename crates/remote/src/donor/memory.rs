//! Lends what programs of this machine do not need.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::deed::What;
use super::headroom::{ADDED_MAX, MemoryNow};
use super::lending::{BorrowerId, any_of, least_active};
use super::state::State;
use crate::control::{Notice, Reply, SlabId};
use crate::random;

/// How often memory is looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Looks at memory until the donor ends.
pub fn keep_headroom(state: &Arc<State>) {
    while !state.is_ending() {
        // Where the kernel says nothing, nothing changes.
        let change = MemoryNow::ask()
            .map_or(0, |now| now.change(state.options.headroom_bytes, state.options.slab_bytes));
        let wanted = state.take_wanted_back() as i64;
        state.lending().expire(state.moment());
        if change > 0 && wanted == 0 {
            grow(state, change.min(ADDED_MAX));
        } else {
            shrink(state, wanted - change.min(0));
        }
        redress(state);
        force(state);
        thread::sleep(INTERVAL);
    }
}

fn grow(state: &State, slabs: i64) {
    for _ in 0..slabs {
        let has_enough = state.lending().len() as u64 >= state.options.slabs_max();
        // No memory is no reason to end: there will be some, or not.
        if has_enough || state.add_slab().is_err() {
            return;
        }
    }
}

/// Frees slabs: first those that nobody has, then the least active of some that were asked about.
fn shrink(state: &Arc<State>, slabs: i64) {
    let (freed, mut left) = state.lending().shrink(usize::try_from(slabs).unwrap_or(0));
    freed.iter().for_each(|slab| state.free(*slab));
    while left > 0 {
        let evicted = left.min(state.options.evicted.max(1));
        let candidates = state.lending().candidates();
        let chosen = choose(state, candidates, evicted);
        if chosen.is_empty() {
            return;
        }
        left -= chosen.len();
        for (slab, borrower) in chosen {
            state.lending().ask_back(slab, state.moment() + state.options.leave_within);
            tell_to_leave(state, slab, borrower);
        }
    }
}

/// Asks a slab back for a borrower that has less than is its by right.
fn redress(state: &State) {
    let candidates = state.lending().unfair(state.moment());
    for (slab, borrower) in choose(state, candidates, 1) {
        state.lending().ask_back_for_others(slab, state.moment() + state.options.leave_within);
        tell_to_leave(state, slab, borrower);
    }
}

/// Chooses the `evicted` least active of `evicted + asked_more` random slabs, by what their borrowers say.
/// Slabs of a borrower that does not answer count as idle.
fn choose(state: &State, candidates: Vec<(SlabId, BorrowerId)>, evicted: usize) -> Vec<(SlabId, BorrowerId)> {
    let mut candidates = any_of(candidates, evicted + state.options.asked_more, || {
        u64::from_le_bytes(random::bytes().unwrap_or_default())
    });
    let mut of_borrower: BTreeMap<BorrowerId, Vec<SlabId>> = BTreeMap::new();
    candidates.iter().for_each(|(slab, borrower)| of_borrower.entry(*borrower).or_default().push(*slab));
    let mut activity = Vec::new();
    for (borrower, slabs) in of_borrower {
        let reply = state
            .session(borrower)
            .and_then(|session| session.notify(&Notice::Activity(slabs.clone()), None).ok());
        let uses = match reply {
            Some(Reply::Uses(uses)) if uses.len() == slabs.len() => uses,
            _ => vec![0; slabs.len()],
        };
        activity.extend(slabs.into_iter().zip(uses));
    }
    let chosen = least_active(activity, evicted);
    candidates.retain(|(slab, _)| chosen.contains(slab));
    candidates
}

/// Tells the borrower to leave. It gives the slab back itself when it has moved what is in it.
fn tell_to_leave(state: &State, slab: SlabId, borrower: BorrowerId) {
    let within = state.options.leave_within;
    let Some(session) = state.session(borrower) else { return };
    state.note(What::AskedBack, &session, Some(slab));
    let notice = Notice::Leave { slab, within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX) };
    // A borrower that does not get the notice finds out when its session ends.
    let _ = session.notify(&notice, None);
}

/// Ends the sessions of borrowers that did not leave in time.
fn force(state: &State) {
    let overdue = state.lending().overdue(state.moment());
    for (slab, borrower) in overdue {
        if let Some(session) = state.session(borrower) {
            state.forced.fetch_add(1, Ordering::Relaxed);
            state.note(What::Forced, &session, Some(slab));
            session.end();
        }
    }
}
