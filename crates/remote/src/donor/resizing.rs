//! The thread that resizes what a donor lends: more while programs of this machine do not need it, less when they do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::deed::What;
use super::headroom::{ADDED_MAX, MemoryNow};
use super::lending::{BorrowerId, any_of, least_active};
use super::state::State;
use crate::control::{Notice, Reply, SlabId};
use crate::random;

/// How often memory is looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// For how long borrowers are asked in one round.
const ASKING_LIMIT: Duration = Duration::from_secs(2);

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
    let asks_until = Instant::now() + ASKING_LIMIT;
    let mut leaving = Vec::new();
    while left > 0 {
        let evicted = left.min(state.options.evicted.max(1));
        let candidates = state.lending().candidates();
        let chosen = choose(state, candidates, evicted, asks_until);
        if chosen.is_empty() {
            break;
        }
        left -= chosen.len();
        for (slab, _) in &chosen {
            state.lending().ask_back(*slab, state.moment() + state.options.leave_within);
        }
        leaving.extend(chosen);
    }
    tell_to_leave(state, leaving);
}

/// Asks a slab back for a borrower that has less than is its by right.
fn redress(state: &State) {
    let candidates = state.lending().unfair(state.moment());
    let chosen = choose(state, candidates, 1, Instant::now() + ASKING_LIMIT);
    for (slab, _) in &chosen {
        state.lending().ask_back_for_others(*slab, state.moment() + state.options.leave_within);
    }
    tell_to_leave(state, chosen);
}

/// Chooses the `evicted` least active of `evicted + asked_more` random slabs, by what their borrowers say. Slabs of a borrower that does not answer, or is not
/// asked because others took too long, count as idle.
fn choose(
    state: &State,
    candidates: Vec<(SlabId, BorrowerId)>,
    evicted: usize,
    asks_until: Instant,
) -> Vec<(SlabId, BorrowerId)> {
    let mut candidates = any_of(candidates, evicted + state.options.asked_more, || {
        u64::from_le_bytes(random::bytes().unwrap_or_default())
    });
    let of_borrower = by_borrower(&candidates);
    let replies: Vec<_> = if Instant::now() < asks_until {
        let question = |(borrower, slabs): (&BorrowerId, &Vec<SlabId>)| {
            (*borrower, vec![Notice::Activity(slabs.clone())])
        };
        notify_all(state, of_borrower.iter().map(question).collect())
    } else {
        of_borrower.iter().map(|_| None).collect()
    };
    let mut activity = Vec::new();
    for (slabs, reply) in of_borrower.into_values().zip(replies) {
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

fn by_borrower(slabs: &[(SlabId, BorrowerId)]) -> BTreeMap<BorrowerId, Vec<SlabId>> {
    let mut of_borrower: BTreeMap<_, Vec<_>> = BTreeMap::new();
    slabs.iter().for_each(|(slab, borrower)| of_borrower.entry(*borrower).or_default().push(*slab));
    of_borrower
}

/// Tells the borrowers to leave. Each gives a slab back itself when it has moved what is in it; one that does not get the notice finds out when its session ends.
fn tell_to_leave(state: &State, slabs: Vec<(SlabId, BorrowerId)>) {
    let within_ms = u64::try_from(state.options.leave_within.as_millis()).unwrap_or(u64::MAX);
    for (slab, borrower) in &slabs {
        if let Some(session) = state.session(*borrower) {
            state.note(What::AskedBack, &session, Some(*slab));
        }
    }
    let notices =
        |slabs: Vec<SlabId>| slabs.into_iter().map(|slab| Notice::Leave { slab, within_ms }).collect();
    notify_all(state, by_borrower(&slabs).into_iter().map(|(who, slabs)| (who, notices(slabs))).collect());
}

/// Tells each borrower what it is to be told, all at once, and returns each one's last answer: a borrower that is slow holds up nobody else, and is told no more
/// after a while.
fn notify_all(state: &State, notices: Vec<(BorrowerId, Vec<Notice>)>) -> Vec<Option<Reply>> {
    let until = Instant::now() + ASKING_LIMIT;
    let notify = |(borrower, notices): (BorrowerId, Vec<Notice>)| {
        let session = state.session(borrower)?;
        let mut told = notices.iter().take_while(|_| Instant::now() < until);
        told.try_fold(None, |_, notice| session.notify(notice).map(Some)).ok().flatten()
    };
    if notices.len() == 1 {
        return notices.into_iter().map(notify).collect();
    }
    thread::scope(|scope| {
        let spawn = |notices| {
            thread::Builder::new().name("aq-donor-asks".into()).spawn_scoped(scope, move || notify(notices))
        };
        // Without a thread a borrower is not asked.
        let asked: Vec<_> = notices.into_iter().map(spawn).collect();
        asked.into_iter().map(|asked| asked.ok()?.join().ok()?).collect()
    })
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
