//! Sees that every group that is used has all its slabs, or else that flash has what they have.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aquifer_sys::helper;

use super::PAGE_BYTES;
use super::Parts;
use super::geometry::Row;
use super::home::{DonorId, Slabs};

/// How often donors' wishes are looked at, and slabs that there were none of asked for again.
const INTERVAL: Duration = Duration::from_millis(100);

/// The thread that finds slabs, and gives them what those before them had.
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
        let thread = std::thread::Builder::new().name("aq-far-slabs".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                helper::serve(|| {
                    while shared.wait() {
                        shared.place();
                    }
                })
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

    /// Waits until there is something to do, or some time has passed; `false` when it is over.
    fn wait(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |state: &mut State| !state.is_woken && !state.is_closing;
        let waited = self.wake.wait_timeout_while(state, INTERVAL, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_woken = false;
        !state.is_closing
    }

    fn place(&self) {
        let mut refusals = Refusals::default();
        for nth in 0..self.parts.groups.len() {
            if self.is_closing() {
                return;
            }
            if self.parts.groups[nth].is_wanted() {
                self.tend(nth, &mut refusals);
            }
        }
    }

    /// Gives a group the slabs that it lacks, as far as there are any; if there are too few, what it has goes to flash too.
    fn tend(&self, nth: usize, refusals: &mut Refusals) {
        let (group, parts) = (&self.parts.groups[nth], &self.parts);
        let columns = group.columns();
        let missing: Vec<_> = columns.missing().collect();
        if missing.is_empty() {
            return;
        }
        let slab_bytes = (parts.geometry.rows() * parts.geometry.unit_pages() * PAGE_BYTES) as u64;
        let mut avoid = columns.donors();
        let mut found = Vec::new();
        for column in &missing {
            let home = (!refusals.include(&avoid)).then(|| self.slabs.find(slab_bytes, &avoid)).flatten();
            let Some(home) = home else {
                refusals.note(&avoid);
                break;
            };
            avoid.push(home.donor());
            home.begin(&parts.events, nth);
            found.push((*column, home));
        }
        let is_short = found.len() < missing.len();
        let is_on_flash = parts.geometry.code().has_all_on_flash() || group.is_on_flash();
        if found.is_empty() && is_on_flash {
            // Flash has everything that the slabs have, so slabs that were asked back meanwhile can go.
            group.finish(true);
            return;
        }
        let saves = is_short && !is_on_flash;
        if !is_short {
            // What is written from now on need not go there.
            group.note_on_flash(false);
        }
        group.join(found);
        let rows = 0..parts.geometry.rows();
        let is_done = rows
            .map(|row| Row { group: nth, nth: row })
            .all(|row| !self.is_closing() && parts.rebuild(row, saves));
        if is_done {
            group.finish(is_short);
            group.note_on_flash(is_short);
        } else {
            group.join(Vec::new());
        }
    }
}

/// Donors that were to be avoided when there was no slab at any other.
#[derive(Default)]
pub struct Refusals(Vec<Vec<DonorId>>);

impl Refusals {
    /// There was none.
    pub fn note(&mut self, avoided: &[DonorId]) {
        self.0.push(avoided.to_vec());
    }

    /// Whether it would be asked in vain for a slab of none of these donors: it was, with no more of them.
    pub fn include(&self, avoid: &[DonorId]) -> bool {
        self.0.iter().any(|avoided| avoided.iter().all(|donor| avoid.contains(donor)))
    }
}
