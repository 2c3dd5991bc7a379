//! Sees that every part of the device that is used has a slab.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aquifer_device::AlignedBuffer;
use aquifer_sys::helper;

use super::copies::COPY_PAGES;
use super::family::{Family, Holders};
use super::home::{Home, Slabs};
use super::refusals::Refusals;
use super::tags::{Locked, Tag};
use super::{Mode, PAGE_BYTES, Parts};
use crate::transport::Write;

/// How often donors' wishes are looked at, and slabs that there were none of asked for again.
const INTERVAL: Duration = Duration::from_millis(100);

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
            move || helper::serve(|| shared.keep())
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
        let mut refusals = Refusals::default();
        for (nth, before) in self.parts.homes.unsettled() {
            if self.is_closing() {
                return;
            }
            let found = self.find(before.as_deref(), &mut refusals);
            found.iter().for_each(|home| home.begin(&self.parts.events, nth));
            self.settle(nth, before.as_ref(), found);
        }
    }

    /// As many slabs as a family lacks.
    fn find(&self, before: Option<&Family>, refusals: &mut Refusals) -> Vec<Arc<Home>> {
        let homes = &self.parts.homes;
        let known = || before.into_iter().flat_map(Family::homes);
        let kept = known().filter(|home| home.is_good()).count();
        let mut avoid: Vec<_> = known().map(|home| home.donor()).collect();
        let mut found = Vec::new();
        while kept + found.len() < homes.replicas() && !refusals.include(&avoid) {
            match self.slabs.find(homes.slab_bytes(), &avoid) {
                Some(home) => {
                    avoid.push(home.donor());
                    found.push(home);
                }
                None => refusals.note(&avoid),
            }
        }
        found
    }

    /// Completes a part with the living slabs of `before` and those in `found`. A slab that its donor asks
    /// back stays until other slabs, or flash, have its pages.
    fn settle(&self, nth: usize, before: Option<&Arc<Family>>, found: Vec<Arc<Home>>) {
        let homes = &self.parts.homes;
        let is_whole = |family: &Arc<Family>| family.is_filled() && family.homes().all(|home| home.is_good());
        if found.is_empty() && before.is_none_or(is_whole) {
            return;
        }
        let after = Arc::new(Family::heir(before.map(|family| &**family), found));
        let has_all_on_flash = self.parts.mode == Mode::Disk;
        let is_of_use = after.homes().any(|home| home.is_good() || !has_all_on_flash);
        if homes.replace(nth, before, is_of_use.then(|| Arc::clone(&after))) {
            let known = before.into_iter().flat_map(|before| before.homes());
            let lost = known.filter(|home| !home.is_alive()).count();
            self.parts.counts.lost_slabs.fetch_add(lost as u64, Relaxed);
            if is_of_use {
                self.fill(nth, &after);
            }
        }
    }

    /// Brings all pages of a part to all of its slabs, from those that have them or from flash; to flash too, if fewer slabs stay than should. Then those that are
    /// to be left are. If a slab is lost meanwhile, the family stays as it is, and another attempt follows.
    fn fill(&self, nth: usize, after: &Arc<Family>) {
        let parts = &self.parts;
        let mut buffer = AlignedBuffer::new(COPY_PAGES * PAGE_BYTES);
        let all = parts.pages_of(nth);
        let first = all.start;
        // A slab that is not among them now never will be: who writes to this family sees no more of them.
        let staying: Vec<_> = after.homes().filter(|home| home.is_good()).cloned().collect();
        let is_short = parts.mode == Mode::Mirror && staying.len() < parts.homes.replicas();
        for start in all.clone().step_by(COPY_PAGES) {
            if self.is_closing() || !after.homes().all(|home| home.is_alive()) {
                return;
            }
            let mut held: Vec<_> = (start..all.end.min(start + COPY_PAGES))
                .filter_map(|page| Some((page, parts.tags.lock_unless_in(page, after.epoch())?)))
                .collect();
            let copied = parts.copy(after, &held, start, &mut buffer);
            held.retain(|(page, _)| copied[*page - start]);
            let within =
                |page: usize, pages: usize| (page - start) * PAGE_BYTES..(page - start + pages) * PAGE_BYTES;
            let sealed = parts.seals.as_ref().map(|seals| {
                let mut sealed = seals.buffer();
                for (page, held) in &held {
                    let bytes = &mut sealed[within(*page, 1)];
                    bytes.copy_from_slice(&buffer[within(*page, 1)]);
                    // Slabs that have it keep what they have.
                    let is_held =
                        after.holders(held.before()) != Holders::NOBODY && held.before().is_of(bytes);
                    if is_held { seals.seal_again(*page, bytes) } else { seals.seal(*page, bytes) }
                }
                sealed
            });
            let sent = sealed.as_deref().unwrap_or(&buffer);
            for (nth, home) in after.homes().enumerate() {
                let lacks = |held: &Locked<'_>| !after.holders(held.before()).has(nth);
                let lacking: Vec<_> =
                    held.iter().filter(|(_, held)| lacks(held)).map(|(page, _)| *page).collect();
                let writes: Vec<_> = lacking
                    .chunk_by(|before, after| before + 1 == *after)
                    .map(|run| Write {
                        from: &sent[within(run[0], run.len())],
                        to: home.place().at(((run[0] - first) * PAGE_BYTES) as u64),
                    })
                    .collect();
                if home.link().write_many(&writes).is_err() {
                    return;
                }
            }
            for (page, held) in held {
                let bytes = &buffer[within(page, 1)];
                let is_local =
                    held.before().is_local() || (is_short && parts.behind.put(page, bytes).is_ok());
                held.are_in(after.epoch(), &[Tag::sum(bytes)], is_local);
            }
        }
        // Every page has been seen since the family began: none is left that some slabs lack, but for those that nobody has.
        let filled = match &staying[..] {
            [] if parts.has_remote_only(nth) => return,
            [] => None,
            staying => Some(Arc::new(after.filled(staying))),
        };
        // `note_filled` comes first: a thread that sees the new family finds it noted.
        staying.iter().for_each(|home| home.note_filled());
        parts.homes.replace(nth, Some(after), filled);
    }
}
