//! The thread that cleans before a transaction has to, and makes commits durable that did not wait for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::core::Core;
use crate::error::{Error, Result};

/// Where the thread waits for something to do.
#[derive(Default)]
pub(crate) struct Pulse {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_wanted: bool,
    has_ended: bool,
}

impl Pulse {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to clean.
    pub(crate) fn wake(&self) {
        self.state().is_wanted = true;
        self.changed.notify_one();
    }

    fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_one();
    }

    /// Waits until there is something to clean, or for an interval; false at the end.
    fn wait(&self, interval: Option<Duration>) -> bool {
        let state = self.state();
        let is_idle = |state: &mut State| !state.is_wanted && !state.has_ended;
        let mut state = match interval {
            None => self.changed.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner),
            Some(interval) => {
                let waited = self.changed.wait_timeout_while(state, interval, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.is_wanted = false;
        !state.has_ended
    }

    fn has_ended(&self) -> bool {
        self.state().has_ended
    }
}

/// The thread, which ends with the value.
pub(crate) struct Background {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// A thread that cleans, if it is to, and makes commits durable at intervals, if there is one.
    pub(crate) fn begin(core: &Arc<Core>, cleans: bool, interval: Option<Duration>) -> Result<Self> {
        let worked_on = Arc::clone(core);
        let work = move || work(&worked_on, cleans, interval);
        let thread = thread::Builder::new().name("aq-durable".into()).spawn(work);
        let thread = thread.map_err(Error::io("starting the heap's thread"))?;
        Ok(Self { core: Arc::clone(core), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.core.pulse.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(core: &Core, cleans: bool, interval: Option<Duration>) {
    while core.pulse.wait(interval) {
        // What goes wrong here a transaction meets too, when it needs room or syncs, and reports.
        if interval.is_some() {
            let _ = core.sync();
        }
        while cleans && core.log.is_low() && !core.pulse.has_ended() && matches!(core.clean(), Ok(true)) {}
    }
}
