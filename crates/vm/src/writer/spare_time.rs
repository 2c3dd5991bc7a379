//! Whether processors have time left for work that can be done without.
//!
//! A thread that waits for a processor as long as it runs takes the time from others. What waits with it is not ours alone: other processes of the machine
//! and limits of a control group show as well.

use std::time::Duration;

use aquifer_sys::kept_file::KeptFile;

use super::gain::Rests;

/// Time on a processor from one decision to the next.
const WINDOW: Duration = Duration::from_millis(20);
/// Longest rest, in shortest ones.
const RESTS_MOST: u64 = 32;

/// What the kernel says of a thread: nanoseconds on a processor and in wait for one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Times {
    ran: u64,
    waited: u64,
}

impl Times {
    fn of(text: &[u8]) -> Option<Self> {
        let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace().map(str::parse);
        Some(Self { ran: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
    }
}

/// Looks at the thread that makes it.
pub(super) struct SpareTime {
    /// None if the kernel does not say it: then there always is time.
    file: Option<KeptFile>,
    /// At the beginning of the window.
    began: Times,
    rests: Rests,
}

impl SpareTime {
    pub(super) fn new() -> Self {
        let file = KeptFile::open(c"/proc/thread-self/schedstat");
        let mut spare_time = Self { file, began: Times::default(), rests: Rests::new(RESTS_MOST) };
        spare_time.begin();
        spare_time
    }

    fn times(&self) -> Option<Times> {
        Times::of(self.file.as_ref()?.read(&mut [0; 128]))
    }

    /// A window begins now.
    pub(super) fn begin(&mut self) {
        self.began = self.times().unwrap_or_default();
    }

    /// How long to rest, in shortest rests, if a window has ended and time is short.
    pub(super) fn rest(&mut self) -> Option<u64> {
        let now = self.times()?;
        let (ran, waited) = (now.ran - self.began.ran, now.waited - self.began.waited);
        if Duration::from_nanos(ran) < WINDOW {
            return None;
        }
        self.began = now;
        self.rests.after(waited < ran)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_understood() {
        assert_eq!(Times::of(b"123 45 6\n"), Some(Times { ran: 123, waited: 45 }));
        assert_eq!((Times::of(b""), Times::of(b"1"), Times::of(b"x y")), (None, None, None));
    }

    #[test]
    fn a_thread_that_runs_is_seen() {
        let spare_time = SpareTime::new();
        let Some(before) = spare_time.times() else { return };
        // Bounded by processor time: 20 ms of it, however long that takes.
        let runs = || spare_time.times().is_some_and(|now| now.ran - before.ran < 20_000_000);
        while runs() {
            std::hint::spin_loop();
        }
        assert_ne!(spare_time.times(), Some(before));
    }
}
