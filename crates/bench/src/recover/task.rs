//! The program that is measured: it reads and checks random pages, and rewrites some.
//!
//! `aquifer-bench recover --task` is started once for each run. It prints a line, [`Begin`], when its array is filled, and a [`Slice`](super::slice::Slice) for
//! each 50 ms from then on.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::pages::Pages;
use super::slice::Slicer;
use crate::error::{Error, Result};
use crate::process::monotonic_ns;
use crate::rng::Rng;

/// Of so many operations one rewrites its page.
const OPS_PER_WRITE: u64 = 10;
const SEED: u64 = 1;

/// What the program is told: given by this command to itself.
#[derive(Clone, Debug, Args)]
pub struct TaskOptions {
    /// Is the program that is measured
    #[arg(long, hide = true)]
    pub task: bool,
    /// How long it runs
    #[arg(long, hide = true, requires = "task", default_value_t = 1.0)]
    pub seconds: f64,
    /// Is the program that takes so much RAM
    #[arg(long, hide = true, conflicts_with = "task")]
    pub hold: Option<u64>,
}

impl TaskOptions {
    /// Without the time that filling takes.
    pub fn length(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

/// The first line of the program.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Begin {
    /// Begin of the first slice, by the clock that all processes share.
    pub monotonic_ns: u64,
    /// Seconds that filling took.
    pub setup_s: f64,
}

/// Fills the array, and works for `length`.
///
/// # Errors
/// [`Error::WrongData`]; [`Error::Io`] if nobody listens.
pub fn run(data_bytes: u64, length: Duration) -> Result<()> {
    let setup = Instant::now();
    let mut pages = Pages::fill(data_bytes);
    let mut rng = Rng::new(SEED);
    let setup_s = setup.elapsed().as_secs_f64();
    let (begin, begin_ns) = (Instant::now(), monotonic_ns());
    say(&Begin { monotonic_ns: begin_ns, setup_s })?;
    let mut slicer = Slicer::default();
    let mut now = Duration::ZERO;
    while now < length {
        let page = rng.below(pages.count() as u64) as usize;
        pages.check(page)?;
        if rng.below(OPS_PER_WRITE) == 0 {
            pages.rewrite(page);
        }
        now = begin.elapsed();
        slicer.finished(now, |slice| say(&slice))?;
    }
    Ok(())
}

/// One line on standard output.
///
/// # Errors
/// [`Error::Io`] if nobody listens.
pub fn say(line: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(line).expect("only plain fields") + "\n";
    std::io::stdout().write_all(line.as_bytes()).map_err(Error::io("writing", "a line"))
}
