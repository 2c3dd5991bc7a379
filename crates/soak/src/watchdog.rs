//! Ends a run that hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// No operation of any thread ended in this time: far longer than any disk takes.
const PATIENCE_S: u32 = 120;

/// Aborts the process when nothing is counted for two minutes, until this is dropped.
pub struct Watchdog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches `progress`.
    pub fn new(progress: Arc<AtomicU64>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = std::thread::spawn(move || watch(&progress, &stopping));
        Self { stop, thread: Some(thread) }
    }
}

fn watch(progress: &AtomicU64, stop: &AtomicBool) {
    let (mut before, mut still_s) = (progress.load(Ordering::Relaxed), 0);
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_secs(1));
        let now = progress.load(Ordering::Relaxed);
        still_s = if now == before { still_s + 1 } else { 0 };
        before = now;
        if still_s >= PATIENCE_S {
            eprintln!("soak: nothing happened for {PATIENCE_S} seconds after {now} operations: a hang");
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
