//! The thread that cleans before a transaction has to.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

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

    /// Waits; false at the end.
    fn wait(&self) -> bool {
        let mut state = self.state();
        while !state.is_wanted && !state.has_ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
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
    pub(crate) fn begin(core: &Arc<Core>) -> Result<Self> {
        let cleaned = Arc::clone(core);
        let thread = thread::Builder::new().name("aq-cleaner".into()).spawn(move || clean(&cleaned));
        let thread = thread.map_err(Error::io("starting the cleaner's thread"))?;
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

fn clean(core: &Core) {
    while core.pulse.wait() {
        // What goes wrong here a transaction meets too, when it needs room, and reports.
        while core.log.is_low() && !core.pulse.has_ended() && matches!(core.clean(), Ok(true)) {}
    }
}
