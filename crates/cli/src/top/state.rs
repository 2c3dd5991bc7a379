//! What the user chose, and the picture to show.

use std::time::{Duration, Instant};

use crate::heap::Measurement;

use super::keys::Wish;
use super::picture::Picture;
use super::view::View;

/// Intervals that the keys choose from.
const INTERVALS: [Duration; 9] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];
/// An answer that is late by this much is called missing.
const SILENCE_MIN: Duration = Duration::from_secs(2);
/// Between two looks at the clock while an answer is missing.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Everything that decides what is on the screen.
pub struct State {
    interval: Duration,
    has_help: bool,
    live: Picture,
    /// What was to be seen when the user paused. Answers go on to come in, so that nothing is missing later.
    held: Option<Picture>,
    /// The last question.
    asked: Instant,
    /// Whether it is still to be answered.
    is_waiting: bool,
}

impl State {
    /// After the first answer.
    pub fn new(live: Picture, interval: Duration) -> Self {
        let asked = live.now.taken;
        Self { interval, has_help: false, live, held: None, asked, is_waiting: false }
    }

    /// Whether it is time for the next question.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.is_waiting && now.saturating_duration_since(self.asked) >= self.interval
    }

    /// The next question is on its way.
    pub fn ask(&mut self, now: Instant) {
        (self.asked, self.is_waiting) = (now, true);
    }

    /// The answer to it.
    pub fn answer(&mut self, measurement: Measurement) {
        self.is_waiting = false;
        self.live.advance(measurement);
    }

    /// No answer came in time; the next question is due.
    pub fn miss(&mut self) {
        self.is_waiting = false;
    }

    /// How long nothing changes by itself.
    pub fn rest(&self, now: Instant) -> Duration {
        if self.is_waiting { LOOK_AGAIN } else { (self.asked + self.interval).saturating_duration_since(now) }
    }

    /// Does what the user wants; whether to go on.
    pub fn obey(&mut self, wish: Wish) -> bool {
        match wish {
            Wish::Quit => return false,
            Wish::Pause if self.held.is_some() => self.held = None,
            Wish::Pause => self.held = Some(self.live.clone()),
            Wish::Longer => self.interval = longer(self.interval),
            Wish::Shorter => self.interval = shorter(self.interval),
            Wish::Help => self.has_help = !self.has_help,
        }
        true
    }

    /// What to draw.
    pub fn view(&self, now: Instant) -> View<'_> {
        let silence = now.saturating_duration_since(self.live.now.taken);
        View {
            picture: self.held.as_ref().unwrap_or(&self.live),
            interval: self.interval,
            is_paused: self.held.is_some(),
            has_help: self.has_help,
            silence: (silence >= self.interval + SILENCE_MIN).then_some(silence),
        }
    }
}

fn longer(interval: Duration) -> Duration {
    INTERVALS.into_iter().find(|&step| step > interval).unwrap_or(interval)
}

fn shorter(interval: Duration) -> Duration {
    INTERVALS.into_iter().rfind(|&step| step < interval).unwrap_or(interval)
}

#[cfg(test)]
mod tests {
    use super::super::picture::tests::measurement;
    use super::*;

    fn state() -> (State, Instant) {
        let start = Instant::now();
        (State::new(Picture::first(measurement(1, 0, start)), Duration::from_secs(1)), start)
    }

    #[test]
    fn one_question_at_a_time() {
        let (mut state, start) = state();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!state.is_due(start) && state.rest(start) == Duration::from_secs(1));
        assert!(state.is_due(at(1)));
        state.ask(at(1));
        assert!(!state.is_due(at(60)) && state.view(at(2)).silence.is_none());
        assert_eq!(state.view(at(11)).silence, Some(Duration::from_secs(11)));
        state.miss();
        assert!(state.is_due(at(11)) && state.view(at(11)).silence.is_some());
        state.ask(at(11));
        state.answer(measurement(1, 12, start));
        assert!(state.is_due(at(12)) && state.view(at(12)).silence.is_none());
    }

    #[test]
    fn a_pause_holds_the_picture_and_loses_nothing() {
        let (mut state, start) = state();
        assert!(state.obey(Wish::Pause));
        state.answer(measurement(1, 1, start));
        assert!(state.view(start).is_paused && state.view(start).picture.rates.is_none());
        assert!(state.obey(Wish::Pause));
        assert!(!state.view(start).is_paused && state.view(start).picture.rates.is_some());
    }

    #[test]
    fn intervals_go_in_steps_and_end() {
        let steps = std::iter::successors(Some(Duration::from_millis(1)), |&step| Some(longer(step)));
        assert_eq!(steps.take(12).last(), Some(Duration::from_secs(60)));
        assert_eq!(longer(Duration::from_secs(3)), Duration::from_secs(5));
        assert_eq!(shorter(Duration::from_secs(3)), Duration::from_secs(2));
        assert_eq!(shorter(Duration::from_millis(100)), Duration::from_millis(100));
    }

    #[test]
    fn help_comes_and_goes() {
        let (mut state, start) = state();
        assert!(state.obey(Wish::Help) && state.view(start).has_help);
        assert!(state.obey(Wish::Help) && !state.view(start).has_help);
        assert!(!state.obey(Wish::Quit));
    }
}
