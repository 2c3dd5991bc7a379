//! A thread that does what need not be waited for: drops pages before room is needed, and commits what has been dirty for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aquifer_sys::signal::SignalsBlocked;

use crate::core::Core;
use crate::error::{Result, VolumeError};
use crate::volume::Volume;

/// How somebody wakes the thread.
#[derive(Default)]
pub struct Bell {
    /// Looked at without the lock, because it is rung often.
    is_rung: AtomicBool,
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Wakes the thread, if there is one.
    pub fn ring(&self) {
        if !self.is_rung.load(Ordering::Relaxed) && !self.is_rung.swap(true, Ordering::AcqRel) {
            // Whoever holds the lock has looked, or has not waited yet.
            drop(self.is_over.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_one();
        }
    }

    fn set_over(&self, is_over: bool) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = is_over;
        self.changed.notify_one();
    }

    /// Waits until it is rung or the time is over; says whether to go on.
    fn wait(&self, time: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |is_over: &mut bool| !*is_over && !self.is_rung.load(Ordering::Acquire);
        let (is_over, _) =
            self.changed.wait_timeout_while(is_over, time, idle).unwrap_or_else(PoisonError::into_inner);
        self.is_rung.store(false, Ordering::Release);
        !*is_over
    }
}

/// The thread of a volume. It ends when this is dropped.
pub struct Background {
    core: Weak<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            core.bell.set_over(true);
        }
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

impl Volume {
    /// Starts a thread that commits what changed at least every `interval`, so that a crash loses little of what nobody synced, and drops pages before
    /// room is needed. One for each volume.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start_background(&self, interval: Duration) -> Result<Background> {
        let core = self.core_arc();
        let weak = Arc::downgrade(&core);
        core.bell.set_over(false);
        // The program's signals are for the program's threads.
        let _blocked = SignalsBlocked::new();
        let thread = std::thread::Builder::new()
            .name("aquifer-volume".into())
            .spawn(move || run(&core, interval))
            .map_err(|error| VolumeError::System {
                step: "starting a thread",
                errno: error.raw_os_error().unwrap_or(libc::EAGAIN),
            })?;
        Ok(Background { core: weak, thread: Some(thread) })
    }
}

fn run(core: &Core, interval: Duration) {
    let mut committed_at = Instant::now();
    while core.bell.wait(interval.saturating_sub(committed_at.elapsed())) {
        // Whoever needs the room finds the error again.
        let _ = core.cache.drop_ahead();
        let is_due =
            committed_at.elapsed() >= interval || core.cache.dirty() >= core.limits().dirty_pages / 2;
        if is_due {
            if !core.is_read_only() {
                // A volume that stops says so to whoever changes it next.
                let _ = core.commit();
            }
            committed_at = Instant::now();
        }
    }
}
