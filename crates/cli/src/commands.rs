//! What each command does.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::arguments::{CheckArguments, StatsArguments};
use crate::error::{Error, printable};
use crate::events::events;
use crate::heap::Heap;
use crate::reply::{Checked, Sample, Verdict};
use crate::table::table;
use crate::volume::print_json;

/// Home, and everything after it erased.
const CLEAR_SCREEN: &str = "\x1b[H\x1b[J";

/// Shows the numbers of a heap, once or again and again.
///
/// # Errors
/// [`Error`] if the heap cannot be asked. A watched program that ends is no error.
pub fn stats(arguments: &StatsArguments) -> Result<ExitCode, Error> {
    let mut heap = Heap::of(&arguments.target, arguments.timeout)?;
    let outcome = if arguments.events { events(&mut heap, arguments) } else { numbers(&mut heap, arguments) };
    match outcome {
        // The reader has closed the pipe: it has seen enough.
        Err(Error::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        outcome => outcome.map(|()| ExitCode::SUCCESS),
    }
}

fn numbers(heap: &mut Heap, arguments: &StatsArguments) -> Result<(), Error> {
    let first = heap.stats()?;
    show(&first, None, arguments)?;
    arguments.interval.map_or(Ok(()), |period| watch(heap, first, period, arguments))
}

fn watch(heap: &mut Heap, first: Sample, period: Duration, arguments: &StatsArguments) -> Result<(), Error> {
    let (mut before, mut taken) = (first, Instant::now());
    loop {
        std::thread::sleep(period);
        let now = Instant::now();
        let next = match heap.stats() {
            Ok(next) => next,
            Err(error) if error.means_closed() => {
                eprintln!("process {} has closed its heap", before.pid);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        show(&next, Some((&before, (now - taken).as_secs_f64())), arguments)?;
        (before, taken) = (next, now);
    }
}

fn show(sample: &Sample, earlier: Option<(&Sample, f64)>, arguments: &StatsArguments) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, sample).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        let lead = match (arguments.interval, earlier) {
            (Some(_), _) if out.is_terminal() => CLEAR_SCREEN,
            (_, Some(_)) => "\n",
            _ => "",
        };
        write!(out, "{lead}{}", table(sample, earlier))?;
    }
    Ok(out.flush()?)
}

/// Has a heap prove that its parts agree, and says who waits for long; the exit status says whether they agree.
///
/// # Errors
/// [`Error`] if the heap cannot be asked.
pub fn check(arguments: &CheckArguments) -> Result<ExitCode, Error> {
    let Checked { pid, verdict, waits } = Heap::of(&arguments.target, arguments.timeout)?.check()?;
    if arguments.json {
        let problem = match &verdict {
            Verdict::InOrder => None,
            Verdict::Disagreement(problem) => Some(problem),
        };
        let in_order = problem.is_none();
        print_json(&json!({ "pid": pid, "in_order": in_order, "problem": problem, "waits": waits }))?;
        return Ok(if in_order { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    for wait in waits {
        writeln!(io::stdout(), "process {pid}: {}", printable(&wait))?;
    }
    match verdict {
        Verdict::InOrder => {
            writeln!(io::stdout(), "process {pid}: the heap is in order")?;
            Ok(ExitCode::SUCCESS)
        }
        Verdict::Disagreement(problem) => {
            writeln!(io::stdout(), "process {pid}: {}", printable(&problem))?;
            eprintln!(
                "aquifer: the heap's parts disagree. If the program was using its heap meanwhile, check again \
                 at a quiet moment; if it was not, please report this line."
            );
            Ok(ExitCode::FAILURE)
        }
    }
}
