//! SIGINT and SIGTERM, as a wish to end.
//!
//! One wish may come as several signals. `timeout` of coreutils sends SIGTERM to its child and at once to the process group that the
//! child is in; a terminal and a parent may both send SIGINT. Signals in quick succession count as one, so that a second signal,
//! which waits for nobody, is a second wish.

use std::time::{Duration, Instant};

use crate::error::Error;

/// Signals that come within this time of an earlier one belong to the same wish.
const TOGETHER: Duration = Duration::from_secs(1);

/// Calls `on_wish` on a thread of its own for each wish that the process ends.
///
/// # Errors
/// [`Error::Signal`].
pub fn on_wish(mut on_wish: impl FnMut() + Send + 'static) -> Result<(), Error> {
    let mut wishes = Wishes::default();
    let on_signal = move || {
        if wishes.is_new(Instant::now()) {
            on_wish();
            wishes.is_heard(Instant::now());
        }
    };
    ctrlc::set_handler(on_signal).map_err(|error| Error::Signal(error.to_string()))
}

/// Tells wishes from signals that repeat one.
#[derive(Default)]
struct Wishes {
    /// When the last wish had been heard: signals that came meanwhile are looked at afterwards.
    heard: Option<Instant>,
}

impl Wishes {
    fn is_new(&self, now: Instant) -> bool {
        self.heard.is_none_or(|heard| now.saturating_duration_since(heard) >= TOGETHER)
    }

    fn is_heard(&mut self, now: Instant) {
        self.heard = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_in_quick_succession_are_one_wish() {
        let began = Instant::now();
        let mut wishes = Wishes::default();
        assert!(wishes.is_new(began));
        // The wish may take long, as unmounting does.
        let heard = began + Duration::from_secs(9);
        wishes.is_heard(heard);
        assert!(!wishes.is_new(heard) && !wishes.is_new(heard + TOGETHER / 2));
        assert!(wishes.is_new(heard + TOGETHER));
    }
}
