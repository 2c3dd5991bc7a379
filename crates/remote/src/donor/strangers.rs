//! Connections whose peer has not said yet who it is.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::control::Ender;

/// Strangers at once.
const STRANGERS_MAX: usize = 64;

/// Connections of strangers. If there are too many, the one that waits longest is ended: who knows what to say does so at once.
#[derive(Default)]
pub struct Strangers {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// The oldest first.
    enders: BTreeMap<u64, Ender>,
    came: u64,
}

impl Strangers {
    /// A new one.
    pub fn come(&self, ender: Ender) -> Stranger<'_> {
        let mut waiting = self.lock();
        if waiting.enders.len() >= STRANGERS_MAX
            && let Some((_, oldest)) = waiting.enders.pop_first()
        {
            oldest.end();
        }
        waiting.came += 1;
        let nth = waiting.came;
        waiting.enders.insert(nth, ender);
        Stranger { strangers: self, nth }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them, until it is dropped.
pub struct Stranger<'a> {
    strangers: &'a Strangers,
    nth: u64,
}

impl Drop for Stranger<'_> {
    fn drop(&mut self) {
        self.strangers.lock().enders.remove(&self.nth);
    }
}
