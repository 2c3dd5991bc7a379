//! What must be undone even if the program is interrupted: swap areas, cgroups, processes.
//!
//! Release builds abort on panic, so destructors alone are not enough. Each thing to undo is
//! registered here; its guard undoes it in the ordinary case, [`install`] arranges that Ctrl-C,
//! SIGTERM and a panic undo all of them, the youngest first.

use std::panic;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

type Undo = Box<dyn FnOnce() + Send>;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static REGISTERED: Mutex<Vec<(u64, Undo)>> = Mutex::new(Vec::new());

/// Exit status after an interrupt, as shells expect it.
const EXIT_INTERRUPTED: i32 = 130;

/// Runs its closure when dropped, unless the interrupt was faster.
#[must_use = "dropping the guard undoes at once"]
#[derive(Debug)]
pub struct Guard(u64);

/// Registers `undo`, which must neither panic nor register anything.
pub fn register(undo: impl FnOnce() + Send + 'static) -> Guard {
    let mut registered = lock();
    let id = registered.last().map_or(0, |(id, _)| id + 1);
    registered.push((id, Box::new(undo)));
    Guard(id)
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The closure runs under the lock, so that an interrupt waits for it instead of ending the
        // process in the middle.
        let mut registered = lock();
        if let Some(position) = registered.iter().position(|(id, _)| *id == self.0) {
            let (_, undo) = registered.remove(position);
            undo();
        }
    }
}

/// Undoes everything that is still registered, the youngest first.
pub fn run_all() {
    let mut registered = lock();
    while let Some((_, undo)) = registered.pop() {
        undo();
    }
}

/// Makes interrupts and panics call [`run_all`]. Called once, by the orchestrating process.
pub fn install() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        print(info);
        run_all();
    }));
    let handler = || {
        INTERRUPTED.store(true, Ordering::SeqCst);
        eprintln!("\ninterrupted; cleaning up");
        run_all();
        process::exit(EXIT_INTERRUPTED);
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        eprintln!("Ctrl-C will not clean up: {error}");
    }
}

/// Does not return once the program is being interrupted: what looks like a failing peer then is our
/// own cleaning up, and must not be recorded as a result.
pub fn stop_if_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        thread::park();
    }
}

fn lock() -> MutexGuard<'static, Vec<(u64, Undo)>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    // One test, because the registry is shared by the whole process.
    #[test]
    fn undoes_on_drop_and_the_rest_in_reverse() {
        let undone = Arc::new(Mutex::new(Vec::new()));
        let undo = |number| {
            let undone = undone.clone();
            register(move || undone.lock().expect("not poisoned").push(number))
        };
        let (first, second, third) = (undo(1), undo(2), undo(3));
        drop(second);
        assert_eq!(*undone.lock().expect("not poisoned"), [2]);
        run_all();
        assert_eq!(*undone.lock().expect("not poisoned"), [2, 3, 1]);
        drop((first, third));
        assert_eq!(undone.lock().expect("not poisoned").len(), 3);
    }
}
