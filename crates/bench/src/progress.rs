//! What the person at the terminal sees of a long run. On standard error; without a terminal only
//! the finished lines are printed.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const REDRAW: Duration = Duration::from_millis(250);

/// A bar over a known number of steps.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for `steps` steps.
    pub fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        let template = "{elapsed_precise} [{bar:30}] {pos}/{len}, {eta} left: {msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
        bar.enable_steady_tick(REDRAW);
        Self(bar)
    }

    /// Says what is being done.
    pub fn doing(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// Adds `steps` to the length of the bar.
    pub fn expect(&self, steps: u64) {
        self.0.inc_length(steps);
    }

    /// Counts a step.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// Prints a line that stays.
    pub fn note(&self, line: &str) {
        self.0.suspend(|| eprintln!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
