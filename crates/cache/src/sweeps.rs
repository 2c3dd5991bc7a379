//! Counts the sweeps that are under way over the slots of each class.
//!
//! A sweep finds a slot by its position and then looks at its header or changes the mark there, without
//! holding anything. Had the slab gone to another class in between, the header would be bytes of an
//! object. So a slab gets another class only when every sweep that may have found it has ended.

use std::sync::atomic::{AtomicU32, Ordering};

use aquifer_sys::Backoff;

/// Counts sweeps in two generations, so that waiting for the earlier ones ends while new ones begin.
pub(crate) struct Sweeps {
    generation: AtomicU32,
    under_way: [AtomicU32; 2],
}

/// A sweep, until it is dropped.
pub(crate) struct Sweep<'a>(&'a AtomicU32);

impl Sweeps {
    pub(crate) const fn new() -> Self {
        Self { generation: AtomicU32::new(0), under_way: [const { AtomicU32::new(0) }; 2] }
    }

    fn present(&self) -> usize {
        (self.generation.load(Ordering::SeqCst) & 1) as usize
    }

    /// Begins a sweep. It takes no lock and waits for nothing until it is dropped.
    pub(crate) fn begin(&self) -> Sweep<'_> {
        loop {
            let present = self.present();
            let sweep = Sweep(&self.under_way[present]);
            sweep.0.fetch_add(1, Ordering::SeqCst);
            if self.present() == present {
                return sweep;
            }
        }
    }

    /// Waits for the sweeps that began before the call. One thread at a time, outside of sweeps.
    pub(crate) fn wait_for_earlier(&self) {
        let earlier = self.generation.fetch_add(1, Ordering::SeqCst) & 1;
        let mut backoff = Backoff::new();
        while self.under_way[earlier as usize].load(Ordering::SeqCst) != 0 {
            backoff.wait();
        }
    }
}

impl Drop for Sweep<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_earlier_sweeps_and_not_for_later_ones() {
        let sweeps = Sweeps::new();
        sweeps.wait_for_earlier();
        let ended = AtomicU32::new(0);
        let earlier = sweeps.begin();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                sweeps.wait_for_earlier();
                ended.load(Ordering::SeqCst)
            });
            while sweeps.present() == 1 {
                std::thread::yield_now();
            }
            let _later = sweeps.begin();
            ended.store(1, Ordering::SeqCst);
            drop(earlier);
            assert_eq!(waiter.join().unwrap(), 1);
        });
    }
}
