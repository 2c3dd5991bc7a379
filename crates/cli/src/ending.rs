//! SIGINT and SIGTERM, as a wish to end.
//!
//! One wish may come as several signals. `timeout` of coreutils sends SIGTERM to its child and at once to the process group that the
//! child is in; a terminal and a parent may both send SIGINT. Signals in quick succession count as one, so that a second signal,
//! which waits for nobody, is a second wish.

use std::time::{Duration, Instant};

use crate::error::Error;

/// Signals that come within this time of an earlier one belong to the same wish.
const TOGETHER: Duration = Duration::from_secs(1);

/// A signal, beside those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// The first one, or one after a while.
    New,
    /// It repeats the wish before it: who has refused that looks again, as what was in the way may be gone.
    Repeated,
}

/// Calls `on_wish` on a thread of its own for each wish that the process ends.
///
/// # Errors
/// [`Error::Signal`].
pub fn on_wish(mut on_wish: impl FnMut() + Send + 'static) -> Result<(), Error> {
    on_each_wish(move |wish| {
        if wish == Wish::New {
            on_wish();
        }
    })
}

/// As [`on_wish`], for those who may refuse one: they are told of signals that repeat it, too.
///
/// # Errors
/// [`Error::Signal`].
pub fn on_each_wish(mut on_wish: impl FnMut(Wish) + Send + 'static) -> Result<(), Error> {
    let mut wishes = Wishes::default();
    let on_signal = move || {
        let wish = wishes.of_signal(Instant::now());
        on_wish(wish);
        if wish == Wish::New {
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
    fn of_signal(&self, now: Instant) -> Wish {
        match self.heard {
            Some(heard) if now.saturating_duration_since(heard) < TOGETHER => Wish::Repeated,
            _ => Wish::New,
        }
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
        assert_eq!(wishes.of_signal(began), Wish::New);
        // The wish may take long, as unmounting does.
        let heard = began + Duration::from_secs(9);
        wishes.is_heard(heard);
        let signals = [heard, heard + TOGETHER / 2, heard + TOGETHER];
        let expected = [Wish::Repeated, Wish::Repeated, Wish::New];
        assert_eq!(signals.map(|at| wishes.of_signal(at)), expected);
    }
}
