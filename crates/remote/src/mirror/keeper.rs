//! Sees that every part of the device that is used has a slab.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aquifer_device::AlignedBuffer;
use aquifer_sys::SignalsBlocked;

use super::family::{Family, Holders};
use super::home::{Home, Slabs};
use super::tags::{Locked, Tag};
use super::{PAGE_BYTES, Parts};
use crate::transport::Write;

/// How often donors' wishes are looked at, and slabs that there were none of asked for again.
const INTERVAL: Duration = Duration::from_millis(100);
/// Pages copied to a new slab at once.
const COPY_PAGES: usize = 32;

/// The thread that finds slabs, and brings there what flash has: of parts that were written before they had one, or whose donor is gone.
pub struct Keeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    parts: Arc<Parts>,
    slabs: Arc<dyn Slabs>,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    is_woken: bool,
    is_closing: bool,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread.
    pub fn start(parts: Arc<Parts>, slabs: Arc<dyn Slabs>) -> io::Result<Keeper> {
        let shared = Shared { parts, slabs, state: Mutex::default(), wake: Condvar::new() };
        let shared = Arc::new(shared);
        let thread = std::thread::Builder::new().name("aq-mirror-slabs".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                let _signals = SignalsBlocked::new();
                shared.keep();
            }
        })?;
        Ok(Keeper { shared, thread: Some(thread) })
    }

    /// There is something to do.
    pub fn wake(&self) {
        self.shared.change(|state| state.is_woken = true);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.change(|state| state.is_closing = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }

    fn is_closing(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_closing
    }

    fn keep(&self) {
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            while !state.is_woken && !state.is_closing {
                let (now, wait) =
                    self.wake.wait_timeout(state, INTERVAL).unwrap_or_else(PoisonError::into_inner);
                state = now;
                state.is_woken |= wait.timed_out();
            }
            if state.is_closing {
                return;
            }
            state.is_woken = false;
            drop(state);
            self.place();
        }
    }

    /// Gives every part the slabs that it should have, as far as there are any.
    fn place(&self) {
        for (nth, before) in self.parts.homes.unsettled() {
            let outcome = self.settle(nth, before);
            if outcome == Settled::NoSlabs || self.is_closing() {
                // Others would ask in vain as well.
                return;
            }
        }
    }

    fn settle(&self, nth: usize, before: Option<Arc<Family>>) -> Settled {
        let homes = &self.parts.homes;
        let known = || before.iter().flat_map(|family| family.homes());
        let survivor = known().find(|home| home.is_good()).cloned();
        let leaving = known().find(|home| !home.is_good() && home.is_alive()).cloned();
        let kept = known().filter(|home| home.is_good()).count();
        let mut avoid: Vec<_> = known().map(|home| home.donor()).collect();
        let mut found = Vec::new();
        while kept + found.len() < homes.replicas() {
            let Some(home) = self.slabs.find(homes.slab_bytes(), &avoid) else { break };
            avoid.push(home.donor());
            found.push(home);
        }
        let nothing_changes = found.is_empty() && leaving.is_none() && known().all(|home| home.is_alive());
        if nothing_changes {
            return Settled::NoSlabs;
        }
        let after = match (&before, &survivor) {
            (Some(before), Some(_)) if found.is_empty() => {
                let rest = known()
                    .filter(|home| !home.is_good())
                    .fold(Family::clone(before), |rest, home| rest.without(home));
                homes.replace(nth, Some(before), Some(Arc::new(rest)));
                return Settled::NoSlabs;
            }
            (Some(before), Some(survivor)) => Family::heir(before, survivor, found),
            _ if found.is_empty() => return self.leave(nth, before.as_ref()),
            _ => Family::new(found),
        };
        let after = Arc::new(after);
        if homes.replace(nth, before.as_ref(), Some(Arc::clone(&after))) {
            self.fill(nth, &after, before.as_deref());
        }
        Settled::Done
    }

    /// There is no other slab for a part whose only one is to be left: what only slabs have goes to flash first.
    fn leave(&self, nth: usize, before: Option<&Arc<Family>>) -> Settled {
        let Some(before) = before else { return Settled::NoSlabs };
        let parts = &self.parts;
        let mut buffer = AlignedBuffer::new(PAGE_BYTES);
        for page in parts.pages_of(nth) {
            if parts.tags.get(page).is_local() {
                continue;
            }
            // No family has epoch 0.
            let Some(held) = parts.tags.lock_unless_in(page, 0) else { continue };
            if before
                .homes()
                .iter()
                .any(|home| Self::copy_of(home, before, held.before(), parts, page, &mut buffer))
                && parts.behind.put(page, &buffer).is_ok()
            {
                held.are_local();
            }
        }
        parts.homes.replace(nth, Some(before), None);
        Settled::NoSlabs
    }

    /// Whether a slab of a family gave a page as its tag says.
    fn copy_of(home: &Home, family: &Family, tag: Tag, parts: &Parts, page: usize, bytes: &mut [u8]) -> bool {
        let is_first = family.homes().first().is_some_and(|first| std::ptr::eq(&**first, home));
        let has_it = match family.holders(tag) {
            Holders::All => true,
            Holders::First => is_first,
            Holders::Nobody => false,
        };
        has_it
            && home.is_alive()
            && home.read(parts.homes.within((page * PAGE_BYTES) as u64), bytes).is_ok()
            && tag.is_of(bytes)
    }

    /// Brings all pages of a part to all of its slabs: from the slabs that it had before, or else from flash. What cannot be read or written stays where it
    /// is; then the part is not settled, and another attempt follows.
    fn fill(&self, nth: usize, after: &Arc<Family>, before: Option<&Family>) {
        let parts = &self.parts;
        let mut buffer = AlignedBuffer::new(COPY_PAGES * PAGE_BYTES);
        let all = parts.pages_of(nth);
        let first = all.start;
        for start in all.clone().step_by(COPY_PAGES) {
            let is_of_use = after.homes().iter().all(|home| home.is_good());
            if !is_of_use || self.is_closing() {
                return;
            }
            let mut held: Vec<_> = (start..all.end.min(start + COPY_PAGES))
                .filter_map(|page| Some((page, parts.tags.lock_unless_in(page, after.epoch())?)))
                .collect();
            held.retain(|(page, held)| {
                let bytes = &mut buffer[(*page - start) * PAGE_BYTES..][..PAGE_BYTES];
                let tag = held.before();
                let from = |family: &Family, bytes: &mut [u8]| {
                    family.homes().iter().any(|home| Self::copy_of(home, family, tag, parts, *page, bytes))
                };
                from(after, bytes)
                    || before.is_some_and(|before| from(before, bytes))
                    || (tag.is_local()
                        && parts.read_known_locally((*page * PAGE_BYTES) as u64, bytes).is_ok())
            });
            let bytes_of =
                |page: usize, pages: usize| &buffer[(page - start) * PAGE_BYTES..][..pages * PAGE_BYTES];
            for (nth, home) in after.homes().iter().enumerate() {
                // The first one may have it already.
                let lacks = |held: &Locked<'_>| nth > 0 || after.holders(held.before()) != Holders::First;
                let lacking: Vec<_> =
                    held.iter().filter(|(_, held)| lacks(held)).map(|(page, _)| *page).collect();
                let writes: Vec<_> = lacking
                    .chunk_by(|before, after| before + 1 == *after)
                    .map(|run| Write {
                        from: bytes_of(run[0], run.len()),
                        to: home.place().at(((run[0] - first) * PAGE_BYTES) as u64),
                    })
                    .collect();
                if home.link().write_many(&writes).is_err() {
                    return;
                }
            }
            for (page, held) in held {
                let is_local = held.before().is_local();
                held.are_in(after.epoch(), bytes_of(page, 1), is_local);
            }
        }
        // Every page has been seen since the family began: none is left that the first slab alone has, but for those that nobody has.
        parts.homes.replace(nth, Some(after), Some(Arc::new(after.settled())));
    }
}

/// What became of an attempt to find slabs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// The part has other slabs.
    Done,
    /// No donor has one.
    NoSlabs,
}
