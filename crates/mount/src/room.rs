//! Room of files that the kernel has not let go of.
//!
//! A removed file keeps its bytes until the kernel forgets it. The kernel says so a moment after the program that removed it went on, and may bring that
//! program's next request earlier. So a request that finds no room waits for that moment, once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aquifer_volume::{Result, Volume, VolumeError};

/// A request waits for room at most for this long.
const PATIENCE: Duration = Duration::from_secs(1);

/// As [`PATIENCE`], once a request waited in vain for the same files: a program has them open, and may have closed them since.
const PATIENCE_AGAIN: Duration = Duration::from_millis(10);

/// What is known of room that will come.
pub struct Room {
    /// Names that were taken away.
    removed: AtomicU64,
    /// How many it were when a request waited in vain: programs have open what was removed until then.
    given_up: AtomicU64,
    /// Files that were let go of.
    let_go: Mutex<u64>,
    changed: Condvar,
    /// Threads that wait, and how many may: one must be free to hear what the kernel forgets.
    waiting: AtomicUsize,
    waiting_max: usize,
}

impl Room {
    /// For a server of `threads` threads.
    pub fn new(threads: usize) -> Self {
        Room {
            removed: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            let_go: Mutex::new(0),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            waiting_max: threads.saturating_sub(1),
        }
    }

    /// Says that a name was taken away.
    pub fn note_removed(&self) {
        self.removed.fetch_add(1, Ordering::Relaxed);
    }

    /// Says that a file was let go of.
    pub fn note_let_go(&self) {
        *self.let_go.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Does `work`, again if it found no room and room came.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn with<T>(&self, volume: &Volume, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let until = Instant::now() + PATIENCE;
        loop {
            let let_go = *self.let_go.lock().unwrap_or_else(PoisonError::into_inner);
            match work() {
                Err(VolumeError::NoSpace) if self.has_come(volume, let_go, until)? => {}
                outcome => return outcome,
            }
        }
    }

    /// Waits until no file is without a name, or those that are will stay.
    ///
    /// # Errors
    /// The volume's.
    pub fn settle(&self, volume: &Volume) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let let_go = *self.let_go.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.has_left(volume, let_go, until)? {
                return Ok(());
            }
        }
    }

    /// Whether there is more room than when `let_go` files had been let go of; waits for it.
    fn has_come(&self, volume: &Volume, let_go: u64, until: Instant) -> Result<bool> {
        // In this order: what leaves meanwhile is reclaimed.
        let has_left = self.has_left(volume, let_go, until)?;
        Ok(Instant::now() < until && (volume.reclaim()? || has_left))
    }

    /// Whether one more file was let go of; waits for it.
    fn has_left(&self, volume: &Volume, let_go: u64, until: Instant) -> Result<bool> {
        let removed = self.removed.load(Ordering::Relaxed);
        if Instant::now() >= until {
            return Ok(false);
        }
        if !volume.has_nameless()? {
            return Ok(false);
        }
        let is_again = self.given_up.load(Ordering::Relaxed) == removed;
        let has_left =
            self.wait(let_go, if is_again { until.min(Instant::now() + PATIENCE_AGAIN) } else { until });
        if !has_left {
            self.given_up.store(removed, Ordering::Relaxed);
        }
        Ok(has_left)
    }

    fn wait(&self, let_go: u64, until: Instant) -> bool {
        let is_allowed = self.waiting.fetch_add(1, Ordering::Relaxed) < self.waiting_max;
        let known = self.let_go.lock().unwrap_or_else(PoisonError::into_inner);
        let left = if is_allowed { until.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
        let (known, _) = self
            .changed
            .wait_timeout_while(known, left, |known| *known == let_go)
            .unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        *known != let_go
    }
}
