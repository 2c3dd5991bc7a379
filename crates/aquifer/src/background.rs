//! The thread that runs batches in the background, one after another: each keeps the device busy by itself.

use std::sync::{Mutex, OnceLock, PoisonError, mpsc};

use aquifer_vm::fork;

use crate::error::Error;

type Job = Box<dyn FnOnce() + Send>;

/// Runs `job` after those that were given before.
///
/// # Errors
/// [`Error::System`] if there can be no thread, [`Error::Forked`] in a child, whose parent has it.
pub fn run(job: Job) -> Result<(), Error> {
    if fork::is_forked() {
        return Err(Error::Forked);
    }
    static WORKER: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();
    if WORKER.get().is_none() {
        let (sender, jobs) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("aquifer-batch".into())
            .spawn(move || jobs.iter().for_each(|job| job()))
            .map_err(|error| Error::System { what: "no thread for batches".into(), error })?;
        // Of two that were first, one thread ends at once.
        let _ = WORKER.set(Mutex::new(sender));
    }
    let worker = WORKER.get().expect("set above").lock().unwrap_or_else(PoisonError::into_inner);
    worker.send(job).map_err(|_| Error::Invalid("the thread for batches has ended".into()))
}
