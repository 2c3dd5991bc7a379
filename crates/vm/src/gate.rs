//! A door that a fork closes behind those who are inside, so that a child finds everything between two steps.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use aquifer_sys::stripe::{STRIPES, stripe};
use aquifer_sys::{Backoff, futex, process};

const OPEN: u32 = 0;
const CLOSED: u32 = 1;

/// How many are inside, in a cache line of its own.
#[repr(align(64))]
struct Inside(AtomicUsize);

/// Threads pass it while it is open. Whoever closes it waits until nobody is inside, and may go on passing itself.
pub(crate) struct Gate {
    inside: [Inside; STRIPES],
    state: AtomicU32,
    /// The thread that closed it.
    owner: AtomicU32,
}

/// Somebody who is inside until this is dropped.
pub(crate) struct Pass<'a>(&'a Inside);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            inside: [const { Inside(AtomicUsize::new(0)) }; STRIPES],
            state: AtomicU32::new(OPEN),
            owner: AtomicU32::new(0),
        }
    }

    /// Passes, as soon as the gate is open. Passes of one thread must not nest.
    pub(crate) fn pass_in_fault(&self) -> Pass<'_> {
        let inside = &self.inside[stripe()];
        loop {
            inside.0.fetch_add(1, Ordering::SeqCst);
            let pass = Pass(inside);
            if self.state.load(Ordering::SeqCst) == OPEN
                || self.owner.load(Ordering::Relaxed) == process::thread_id()
            {
                return pass;
            }
            drop(pass);
            // Interrupted or open meanwhile: the loop looks again.
            let _ = futex::wait(&self.state, CLOSED, None);
        }
    }

    /// Closes the gate and waits until nobody is inside. Only one thread may do this at a time.
    pub(crate) fn close(&self) {
        self.owner.store(process::thread_id(), Ordering::Relaxed);
        self.state.store(CLOSED, Ordering::SeqCst);
        let mut backoff = Backoff::new();
        for inside in &self.inside {
            while inside.0.load(Ordering::SeqCst) != 0 {
                backoff.wait();
            }
        }
    }

    /// Opens it again.
    pub(crate) fn open(&self) {
        self.owner.store(0, Ordering::Relaxed);
        self.state.store(OPEN, Ordering::SeqCst);
        futex::wake(&self.state, u32::MAX);
    }

    /// Opens it in a child, which has none of the threads that were at it.
    pub(crate) fn open_in_child(&self) {
        for inside in &self.inside {
            inside.0.store(0, Ordering::Relaxed);
        }
        self.open();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn nobody_else_is_inside_while_it_is_closed() {
        let (gate, stop, inside) = (Gate::new(), AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let _pass = gate.pass_in_fault();
                        inside.fetch_add(1, Ordering::SeqCst);
                        std::hint::spin_loop();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..500 {
                gate.close();
                assert_eq!(inside.load(Ordering::SeqCst), 0);
                drop(gate.pass_in_fault());
                gate.open();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
