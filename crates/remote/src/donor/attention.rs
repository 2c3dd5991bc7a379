//! How long the thread of a link looks for transfers before it sleeps.

use std::time::Duration;

use super::options::Looks;
use crate::transport::ServeLink;

/// How long it sleeps when nothing comes: so long a command waits at the most.
const SLEEP: Duration = Duration::from_millis(2);
/// How long it looks after the first busy sleep, and at the most.
const LOOK_MIN: Duration = Duration::from_micros(500);
const LOOK_MAX: Duration = Duration::from_millis(8);
/// Wake-ups in one sleep from which it is busy. The end of the sleep itself is one.
const BUSY: i64 = 4;

/// Being woken costs a transfer some 40 us; looking costs a processor. So a thread that is woken often looks instead, and tries sleep again in between.
pub struct Attention {
    look: Duration,
    looks: Looks,
}

impl Attention {
    /// Looks when it is told to.
    pub fn new(looks: Looks) -> Attention {
        Attention { look: Duration::ZERO, looks }
    }

    /// Moves transfers on for some milliseconds; says whether the borrower is still there.
    pub fn serve(&mut self, served: &mut dyn ServeLink) -> bool {
        match self.looks {
            Looks::Always => return served.look(LOOK_MAX),
            Looks::Never => return served.serve(SLEEP),
            Looks::Busy => {}
        }
        if !self.look.is_zero() && !served.look(self.look) {
            return false;
        }
        let before = wake_ups();
        let is_there = served.serve(SLEEP);
        self.look = if wake_ups() - before < BUSY {
            Duration::ZERO
        } else {
            (2 * self.look).clamp(LOOK_MIN, LOOK_MAX)
        };
        is_there
    }
}

/// How often this thread has been woken.
fn wake_ups() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills it; zeros, if it would not, are a value too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_nvcsw
}
