//! The threads of a heap: one cleans before a transaction has to, writes checkpoints, and verifies what a checkpoint has spared recovery; one makes
//! commits durable that did not wait for it, whatever the other is busy with.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::core::Core;
use crate::error::{Error, Result};

/// The chunk of an idle session is ended when this number of others were sealed since it was opened.
const IDLE_AGE: u32 = 64;
/// Chunks that it verifies before it looks whether there is something else to do.
const VERIFIED_AT_A_TIME: usize = 16;

/// Where a thread waits for something to do.
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

/// What the thread does.
#[derive(Clone, Copy)]
pub(crate) struct Tasks {
    /// Whether it cleans when there is little room.
    pub(crate) cleans: bool,
    /// How often it makes commits durable that did not wait for it, if there are any.
    pub(crate) sync_interval: Option<Duration>,
    /// After how many chunks it writes a checkpoint; 0 for never.
    pub(crate) checkpoint_chunks: u32,
}

impl Tasks {
    /// Whether there is something to do.
    pub(crate) fn are_any(&self) -> bool {
        self.cleans || self.sync_interval.is_some() || self.checkpoint_chunks > 0
    }
}

/// The threads, which end with the value.
pub(crate) struct Background {
    core: Arc<Core>,
    syncs: Arc<Pulse>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Threads with these tasks.
    pub(crate) fn begin(core: &Arc<Core>, tasks: Tasks) -> Result<Self> {
        let mut begun = Self { core: Arc::clone(core), syncs: Arc::default(), threads: Vec::new() };
        if let Some(interval) = tasks.sync_interval {
            let (core, syncs) = (Arc::clone(core), Arc::clone(&begun.syncs));
            begun.spawn("aq-sync", move || sync(&core, &syncs, interval))?;
        }
        if tasks.cleans || tasks.checkpoint_chunks > 0 {
            let core = Arc::clone(core);
            begun.spawn("aq-durable", move || work(&core, tasks))?;
        }
        Ok(begun)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = thread::Builder::new().name(name.into()).spawn(work);
        self.threads.push(thread.map_err(Error::io("starting the heap's threads"))?);
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.core.pulse.end();
        self.syncs.end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Makes commits durable at intervals. What goes wrong a commit meets too.
fn sync(core: &Core, syncs: &Pulse, interval: Duration) {
    while syncs.wait(Some(interval)) {
        let _ = core.sync();
    }
}

fn work(core: &Core, tasks: Tasks) {
    core.checkpoints.set_interval(tasks.checkpoint_chunks);
    let mut unread = core.log.unread.all().into_iter();
    loop {
        let interval = (unread.len() > 0).then_some(Duration::ZERO);
        if !core.pulse.wait(interval) {
            return;
        }
        // What goes wrong here a transaction meets too, when it needs room or loads, and reports.
        if tasks.cleans {
            core.end_chunks(IDLE_AGE);
        }
        let is_cleaning = || tasks.cleans && core.log.is_low() && !core.pulse.has_ended();
        while is_cleaning() && matches!(core.clean(), Ok(true)) {}
        if core.checkpoints.is_due(core.log.seals()) {
            let _ = core.checkpoint();
        }
        for id in unread.by_ref().take(VERIFIED_AT_A_TIME) {
            core.log.verify(id);
        }
        core.checkpoints.abandon_unwanted(&core.log);
    }
}
