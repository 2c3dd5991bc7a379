//! `cargo run -p xtask -- test`: every test of the project, and one line at the end that sums up.
//!
//! [`plan`] says what is built and what runs then; [`pool`] runs it in lanes; [`supervise`] sees that each job ends and leaves nothing behind; [`tally`]
//! counts; [`report`] tells.

mod binaries;
mod job;
mod plan;
mod pool;
mod report;
mod supervise;
mod tally;

use crate::workspace;
use clap::Args;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

/// Among the logs: the commit on which everything has passed in its long form, for a release (`scripts/release.sh`).
const PASSED: &str = "passed";

/// What to test.
#[derive(Args)]
pub struct TestOptions {
    /// Long forms too, and everything optimised as it is released; takes an hour and more
    #[arg(long)]
    full: bool,
    /// Steps to run instead of all
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(plan::STEPS))]
    step: Vec<String>,
}

/// Runs the tests; the exit status says whether all have passed.
///
/// # Errors
/// A sentence if they cannot be begun.
pub fn run(options: &TestOptions) -> Result<ExitCode, String> {
    let root = binaries::workspace_root();
    let target = workspace::load(Path::new("."))?.target;
    let logs = target.join("test-logs");
    let _old = fs::remove_dir_all(&logs);
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let pool = Arc::new(pool::Pool::new(&logs));
    let interrupted = pool.clone();
    ctrlc::set_handler(move || interrupted.interrupt()).map_err(|error| error.to_string())?;
    let before = committed();
    let plan = plan::Plan { root: &root, target: &target, full: options.full, steps: &options.step };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut report = pool.run(&plan.builds()?, processors);
    report.stragglers(&supervise::end_stragglers());
    report.conclude(supervise::processor_time(rustix::process::getpid()));
    if pool.interrupted() {
        println!("interrupted: what had not ended is not counted; outputs are in {}", logs.display());
        return Ok(ExitCode::from(130));
    }
    if report.total().failed > 0 {
        return Ok(ExitCode::FAILURE);
    }
    if options.full && options.step.is_empty() && before == committed() {
        let passed = before.map(|commit| fs::write(logs.join(PASSED), commit + "\n"));
        passed.transpose().map_err(|error| format!("{}: {error}", logs.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The commit of the tree. `None` with changes that are not committed, or without git.
fn committed() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty().then_some(())?;
    git(&["rev-parse", "HEAD"])
}
