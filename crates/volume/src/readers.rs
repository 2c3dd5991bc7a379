//! Threads that read what will be needed.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::core::Core;

/// Threads of a volume.
pub const READERS: usize = 4;
/// Reads that may wait; further ones are dropped, and the pages are read when they are needed.
const WAITING_MAX: usize = 32;

type Job = Box<dyn FnOnce(&Core) + Send>;

/// Reads that wait for a thread.
#[derive(Default)]
pub struct Readers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    are_there: bool,
}

impl Readers {
    /// Has something read soon, if there are threads.
    pub fn ask(&self, job: impl FnOnce(&Core) + Send + 'static) {
        let mut state = self.lock();
        if state.are_there && state.jobs.len() < WAITING_MAX {
            state.jobs.push_back(Box::new(job));
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Says whether there are threads from now on. If not, they end.
    pub fn set(&self, are_there: bool) {
        let mut state = self.lock();
        state.are_there = are_there;
        let left = if are_there { VecDeque::new() } else { std::mem::take(&mut state.jobs) };
        drop(state);
        self.changed.notify_all();
        drop(left);
    }

    /// What a thread does.
    pub fn run(&self, core: &Core) {
        loop {
            let state = self.lock();
            let idle = |state: &mut State| state.are_there && state.jobs.is_empty();
            let mut state = self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
            let Some(job) = state.jobs.pop_front() else { return };
            drop(state);
            job(core);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
