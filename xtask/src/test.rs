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

use clap::Args;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

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
    let logs = root.join("target/test-logs");
    let _old = fs::remove_dir_all(&logs);
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let pool = Arc::new(pool::Pool::new(&logs));
    let interrupted = pool.clone();
    ctrlc::set_handler(move || interrupted.interrupt()).map_err(|error| error.to_string())?;
    let plan = plan::Plan { root: &root, full: options.full, steps: &options.step };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut report = pool.run(&plan.builds()?, processors);
    report.stragglers(&supervise::end_stragglers());
    report.conclude(children_time());
    if pool.interrupted() {
        println!("interrupted: what had not ended is not counted; outputs are in {}", logs.display());
        return Ok(ExitCode::from(130));
    }
    Ok(if report.total().failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Processor time of all processes that this one has waited for, and of theirs.
fn children_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold anything: state is the first field, cutime and cstime are the 14th and 15th.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let ticks = next()? + next()?;
    let ticks_per_s = rustix::param::clock_ticks_per_second();
    Some(Duration::from_secs_f64(ticks as f64 / ticks_per_s as f64))
}
