//! Threads that do what need not be waited for: one drops pages before room is needed, and commits what has been dirty for a while; others read what will
//! be needed (`readers.rs`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aquifer_sys::signal::SignalsBlocked;

use crate::core::Core;
use crate::error::{Result, VolumeError};
use crate::readers::READERS;
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
            // The thread reads `is_rung` under this lock: it sleeps already, or reads it afterwards.
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

/// The threads of a volume. They end when this is dropped.
pub struct Background {
    core: Weak<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            core.bell.set_over(true);
            core.readers.set(false);
        }
        for thread in self.threads.drain(..) {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

impl Volume {
    /// Starts threads that commit changes at least every `interval`, so that a crash loses little without a
    /// sync. They also drop pages before room is needed, and read ahead of programs that walk a mapped file.
    /// Once for each volume.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start_background(&self, interval: Duration) -> Result<Background> {
        let core = self.core_arc();
        core.bell.set_over(false);
        core.readers.set(true);
        // The program's signals are for the program's threads.
        let _blocked = SignalsBlocked::new();
        // On an error those that were started end.
        let mut background = Background { core: Arc::downgrade(&core), threads: Vec::new() };
        background.start("aquifer-volume", &core, move |core| run(core, interval))?;
        for _ in 0..READERS {
            background.start("aq-volume-ahead", &core, |core| core.readers.run(core))?;
        }
        Ok(background)
    }
}

impl Background {
    fn start(
        &mut self,
        name: &str,
        core: &Arc<Core>,
        run: impl FnOnce(&Core) + Send + 'static,
    ) -> Result<()> {
        let core = Arc::clone(core);
        let thread =
            std::thread::Builder::new().name(name.into()).spawn(move || run(&core)).map_err(|error| {
                VolumeError::System {
                    step: "starting a thread",
                    errno: error.raw_os_error().unwrap_or(libc::EAGAIN),
                }
            })?;
        self.threads.push(thread);
        Ok(())
    }
}

/// How long no block must be written until one is that says up to where the log is durable.
const REST: Duration = Duration::from_millis(100);

/// Since when the log has ended where it does.
struct Rest {
    sequence: u64,
    since: Instant,
}

impl Core {
    /// Has the log say that its last block is durable, if no other block came for a while. Until then a crash takes damage of that block for a torn write.
    fn note_durable_at_rest(&self, rest: &mut Rest) {
        if !self.is_durable_unsaid() {
            return;
        }
        let Some(mut writer) = self.try_lock_writer() else { return };
        if writer.sequence() != rest.sequence {
            *rest = Rest { sequence: writer.sequence(), since: Instant::now() };
        } else if rest.since.elapsed() >= REST {
            // Without room for it the next commit says it, or the next checkpoint.
            let _ = self.note_durable(&mut writer);
        }
    }
}

fn run(core: &Core, interval: Duration) {
    let mut committed_at = Instant::now();
    let mut rest = Rest { sequence: 0, since: committed_at };
    loop {
        let until_due = interval.saturating_sub(committed_at.elapsed());
        if !core.bell.wait(if core.is_durable_unsaid() { until_due.min(REST) } else { until_due }) {
            return;
        }
        core.note_durable_at_rest(&mut rest);
        // A thread that needs the room meets the error again.
        let _ = core.cache.drop_ahead();
        let is_due = committed_at.elapsed() >= interval || core.is_commit_wanted();
        if is_due {
            if !core.is_read_only() {
                // A volume that stops reports that to the next change.
                let _ = core.commit();
            }
            committed_at = Instant::now();
        }
    }
}
