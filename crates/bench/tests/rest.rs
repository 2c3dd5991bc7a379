//! Waiting for threads, in a process that has no others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use aquifer_bench::process::thread_cpu_ns;
use aquifer_bench::rest;

/// Processor time, not time: the thread may wait for a processor in between.
const BURNT_NS: u64 = 50_000_000;

#[test]
fn a_thread_that_works_is_waited_for() {
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let begin = thread_cpu_ns();
            begun.store(true, Ordering::Relaxed);
            while thread_cpu_ns() - begin < BURNT_NS {}
            done.store(true, Ordering::Relaxed);
            // Sleeping is no work.
            thread::park();
        });
        while !begun.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        rest::wait().expect("it ends");
        assert!(done.load(Ordering::Relaxed));
        assert!(!rest::others_run().expect("the kernel tells"));
        worker.thread().unpark();
    });
}
