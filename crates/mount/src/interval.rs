//! Syncs that nobody asked for.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, mpsc::Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use aquifer_volume::Volume;

/// A thread that makes a volume durable again and again, until this is dropped.
pub struct Interval {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Interval {
    /// Syncs every `interval`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(volume: Arc<Volume>, interval: Duration) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name("aquifer-sync".into()).spawn(move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = volume.sync() {
                    eprintln!("aquifer: {error}");
                    // The volume takes no more changes: there is nothing to sync any more.
                    return;
                }
            }
        })?;
        Ok(Interval { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Interval {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been reported; there is nothing to clean up after it.
            let _ = thread.join();
        }
    }
}
