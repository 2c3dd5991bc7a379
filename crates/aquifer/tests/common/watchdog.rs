//! Ends a test that hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PATIENCE_S: u32 = 60;

/// Aborts the process when [`Watchdog::step`] was not called for a minute, until this is dropped.
pub struct Watchdog {
    steps: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// `what` is said if it hangs.
    pub fn new(what: impl Into<String>) -> Self {
        let (steps, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (stepped, stopping, what) = (steps.clone(), stop.clone(), what.into());
        let thread = std::thread::spawn(move || watch(&what, &stepped, &stopping));
        Self { steps, stop, thread: Some(thread) }
    }

    /// Something was done.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
}

fn watch(what: &str, steps: &AtomicU64, stop: &AtomicBool) {
    let (mut before, mut still_s) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_secs(1));
        let now = steps.load(Ordering::Relaxed);
        still_s = if now == before { still_s + 1 } else { 0 };
        before = now;
        if still_s >= PATIENCE_S {
            eprintln!("{what}: nothing happened for {PATIENCE_S} seconds after {now} steps: a hang");
            std::process::abort();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
