//! Work that may take a while: a bar once it has taken two seconds, Ctrl-C, and what was left undone while the rest was done.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::{Error, printable};

/// Until then nobody needs a bar.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// A bar; a terminal shows it, nothing else does.
#[derive(Debug)]
pub struct Work {
    bar: ProgressBar,
    begun: Instant,
    stopped: Arc<AtomicBool>,
}

impl Work {
    /// Work on bytes, which Ctrl-C ends between two of them: what is open is closed then.
    ///
    /// # Errors
    /// The signal cannot be caught.
    pub fn on_bytes() -> Result<Self, Error> {
        let work = Self::new("{elapsed_precise} [{bar:30}] {bytes} of {total_bytes}, {eta} left: {msg}");
        let of_handler = Arc::clone(&work.stopped);
        ctrlc::set_handler(move || of_handler.store(true, Relaxed))
            .map_err(|error| Error::Signal(error.to_string()))?;
        Ok(work)
    }

    /// Work on files that changes nothing, so that Ctrl-C may end the process.
    pub fn on_files() -> Self {
        Self::new("{elapsed_precise} [{bar:30}] {pos} of {len} files, {eta} left")
    }

    /// Work of which shares are known, and that Ctrl-C may end.
    pub fn on_shares() -> Self {
        Self::new("{elapsed_precise} [{bar:30}] {pos} %, {eta} left")
    }

    fn new(template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
        Work { bar, begun: Instant::now(), stopped: Arc::default() }
    }

    /// More is to be done than was known.
    pub fn expect(&self, more: u64) {
        self.bar.inc_length(more);
    }

    /// Says what it is about now.
    pub fn begin(&self, name: &str) {
        self.bar.set_message(printable(name));
    }

    /// Adds `done` to what is done.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn advance(&self, done: u64) -> Result<(), Error> {
        self.show(self.bar.position() + done);
        if self.stopped.load(Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Shows that `done` of `total` is done.
    pub fn is_at(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.show(done);
    }

    fn show(&self, done: u64) {
        if self.bar.is_hidden() && self.begun.elapsed() >= SHOWN_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Whether all was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    problems: u64,
}

impl Outcome {
    /// Tells of something that was left undone.
    pub fn note(&mut self, error: Error) {
        eprintln!("aquifer: {}", printable(&error.to_string()));
        self.problems += 1;
    }

    /// Goes on after what went wrong with one file, ends at what goes wrong with all.
    ///
    /// # Errors
    /// What goes wrong with all.
    pub fn go_on<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_of_one_file() => {
                self.note(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// 0 if all was done, 1 if not.
    pub fn exit_code(self) -> ExitCode {
        if self.problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
