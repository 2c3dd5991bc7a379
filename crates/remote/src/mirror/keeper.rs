//! Sees that every part of the device that is used has a slab.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aquifer_device::AlignedBuffer;

use super::home::{Home, Slabs};
use super::tags::Tag;
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
            move || shared.keep()
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

    fn place(&self) {
        for (nth, before) in self.parts.homes.unsettled() {
            let found = self.slabs.find(self.parts.homes.slab_bytes());
            if found.is_none() && before.is_none() {
                // Others ask in vain as well.
                return;
            }
            self.parts.homes.settle(nth, found.clone());
            if let Some(home) = found {
                self.fill(nth, &home, before.as_deref());
            }
            if self.is_closing() {
                return;
            }
        }
    }

    /// Brings all pages of a part to its slab that are not there yet: from the slab that it had before, or else from flash. What cannot be read or
    /// written stays where it is.
    fn fill(&self, nth: usize, home: &Home, before: Option<&Home>) {
        let parts = &self.parts;
        let slab_pages = (parts.homes.slab_bytes() / PAGE_BYTES as u64) as usize;
        let first = nth * slab_pages;
        let last = (first + slab_pages).min(parts.tags.len());
        let mut buffer = AlignedBuffer::new(COPY_PAGES * PAGE_BYTES);
        for start in (first..last).step_by(COPY_PAGES) {
            if home.link().end().is_some() || home.is_leaving() || self.is_closing() {
                return;
            }
            let mut held: Vec<_> = (start..last.min(start + COPY_PAGES))
                .filter_map(|page| Some((page, parts.tags.lock_unknown(page, home.epoch())?)))
                .collect();
            held.retain(|(page, held)| {
                let bytes = &mut buffer[(*page - start) * PAGE_BYTES..][..PAGE_BYTES];
                let is_from_before = before.is_some_and(|before| {
                    let from = before.place_of(((page - first) * PAGE_BYTES) as u64);
                    held.was_in(before.epoch())
                        && before.link().read(from, bytes).is_ok()
                        && held.was(Tag::of(bytes, before.epoch()))
                });
                is_from_before || parts.read_locally((*page * PAGE_BYTES) as u64, bytes).is_ok()
            });
            let bytes_of =
                |page: usize, pages: usize| &buffer[(page - start) * PAGE_BYTES..][..pages * PAGE_BYTES];
            let writes: Vec<_> = held
                .chunk_by(|(before, _), (after, _)| before + 1 == *after)
                .map(|run| Write {
                    from: bytes_of(run[0].0, run.len()),
                    to: home.place_of(((run[0].0 - first) * PAGE_BYTES) as u64),
                })
                .collect();
            if home.link().write_many(&writes).is_err() {
                return;
            }
            held.into_iter().for_each(|(page, held)| held.are_in(home.epoch(), bytes_of(page, 1)));
        }
    }
}
