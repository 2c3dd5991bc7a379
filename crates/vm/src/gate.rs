//! A door that a fork closes behind those who are inside, so that a child finds everything between two steps.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use aquifer_sys::counter::{STRIPES, stripe};
use aquifer_sys::{Backoff, Errno, futex, process};

use crate::recess;

const OPEN: u32 = 0;
const CLOSED: u32 = 1;

/// How many are inside, in a cache line of its own.
#[repr(align(64))]
struct Inside(AtomicUsize);

/// A thread that waits for the gate looks after so long whether who closed it waits itself.
const LOOK_NS: u64 = 50_000_000;
/// As many such looks in a row are no coincidence.
const LOOKS: u32 = 4;

/// Threads pass it while it is open. The thread that closes it waits until no thread is inside, and may go on
/// passing itself.
///
/// A thread that forks waits for locks of the C library after it has closed the gate. A holder of these locks
/// may wait for the gate. So a thread that waits long asks the owner of the gate for a
/// [recess](crate::recess).
struct Gate {
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
    fn new() -> Self {
        Self {
            inside: [const { Inside(AtomicUsize::new(0)) }; STRIPES],
            state: AtomicU32::new(OPEN),
            owner: AtomicU32::new(0),
        }
    }

    /// Passes, as soon as the gate is open. Passes of one thread must not nest.
    fn pass_in_fault(&self) -> Pass<'_> {
        let inside = &self.inside[stripe()];
        let mut looks = 0;
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
            let is_late = futex::wait(&self.state, CLOSED, Some(LOOK_NS)) == Err(Errno::ETIMEDOUT);
            let owner = self.owner.load(Ordering::Relaxed);
            looks = if is_late && process::waits_for_a_word(owner) { looks + 1 } else { 0 };
            if looks == LOOKS {
                recess::ask_in_fault(owner);
                looks = 0;
            }
        }
    }

    /// Closes the gate and waits until nobody is inside. Only one thread may do this at a time.
    fn close(&self) {
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
    fn open(&self) {
        self.owner.store(0, Ordering::Relaxed);
        self.state.store(OPEN, Ordering::SeqCst);
        futex::wake(&self.state, u32::MAX);
    }

    /// Opens it in a child, which has none of the threads that were at it.
    fn open_in_child(&self) {
        for inside in &self.inside {
            inside.0.store(0, Ordering::Relaxed);
        }
        self.open();
    }
}

/// The gates of one heap, and whether it is closing.
pub(crate) struct Gates {
    /// Passed by who uses the heap, by the writer for a pass, and by the cleaner for a segment.
    users: Gate,
    writer: Gate,
    cleaner: Gate,
    closing: AtomicBool,
}

impl Gates {
    pub(crate) fn new() -> Self {
        let closing = AtomicBool::new(false);
        Self { users: Gate::new(), writer: Gate::new(), cleaner: Gate::new(), closing }
    }

    /// Passes as somebody who uses the heap.
    pub(crate) fn pass_in_fault(&self) -> Pass<'_> {
        self.users.pass_in_fault()
    }

    /// Passes as the writer.
    pub(crate) fn pass_as_writer(&self) -> Pass<'_> {
        self.writer.pass_in_fault()
    }

    /// Passes as the cleaner.
    pub(crate) fn pass_as_cleaner(&self) -> Pass<'_> {
        self.cleaner.pass_in_fault()
    }

    /// Brings everybody between two steps: first those who use the heap, then the writer, on whom they wait, then the
    /// cleaner, on whom the writer waits.
    pub(crate) fn pause(&self) {
        [&self.users, &self.writer, &self.cleaner].into_iter().for_each(Gate::close);
    }

    /// Lets everybody go on.
    pub(crate) fn go_on(&self) {
        [&self.cleaner, &self.writer, &self.users].into_iter().for_each(Gate::open);
    }

    /// In a child: lets everybody go on.
    pub(crate) fn go_on_in_child(&self) {
        [&self.cleaner, &self.writer, &self.users].into_iter().for_each(Gate::open_in_child);
    }

    /// The threads of the heap are to end.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Whether they are.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
