//! What each command does.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::arguments::{CheckArguments, StatsArguments, Target};
use crate::client::{Question, ask};
use crate::error::{Error, printable};
use crate::process::socket_of;
use crate::reply::{ReplyError, Sample, Verdict, parse_check, parse_stats};
use crate::table::table;

/// Home, and everything after it erased.
const CLEAR_SCREEN: &str = "\x1b[H\x1b[J";

/// Shows the numbers of a heap, once or again and again.
///
/// # Errors
/// [`Error`] if the heap cannot be asked. A watched program that ends is no error.
pub fn stats(arguments: &StatsArguments) -> Result<ExitCode, Error> {
    let path = socket_of(&arguments.target)?;
    let first = sample(&path, arguments)?;
    let shown = show(&first, None, arguments);
    let outcome = match arguments.watch {
        Some(period) if shown.is_ok() => watch(&path, first, period, arguments),
        _ => shown,
    };
    match outcome {
        // Whoever reads has seen enough.
        Err(Error::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        outcome => outcome.map(|()| ExitCode::SUCCESS),
    }
}

fn watch(path: &Path, first: Sample, period: Duration, arguments: &StatsArguments) -> Result<(), Error> {
    let (mut before, mut taken) = (first, Instant::now());
    loop {
        std::thread::sleep(period);
        let now = Instant::now();
        let next = match sample(path, arguments) {
            Ok(next) => next,
            Err(Error::NobodyThere(_) | Error::NothingThere(_) | Error::BrokeOff(_)) => {
                eprintln!("process {} has closed its heap", before.pid);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        show(&next, Some((&before, (now - taken).as_secs_f64())), arguments)?;
        (before, taken) = (next, now);
    }
}

fn sample(path: &Path, arguments: &StatsArguments) -> Result<Sample, Error> {
    let reply = ask(path, Question::Stats, arguments.timeout)?;
    let sample = parse_stats(&reply).map_err(in_reply(path))?;
    same_process(&arguments.target, sample.pid)?;
    Ok(sample)
}

fn show(sample: &Sample, earlier: Option<(&Sample, f64)>, arguments: &StatsArguments) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, sample).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        let lead = match (arguments.watch, earlier) {
            (Some(_), _) if out.is_terminal() => CLEAR_SCREEN,
            (_, Some(_)) => "\n",
            _ => "",
        };
        write!(out, "{lead}{}", table(sample, earlier))?;
    }
    Ok(out.flush()?)
}

/// Has a heap prove that its parts agree; the exit status says whether they do.
///
/// # Errors
/// [`Error`] if the heap cannot be asked.
pub fn check(arguments: &CheckArguments) -> Result<ExitCode, Error> {
    let path = socket_of(&arguments.target)?;
    let reply = ask(&path, Question::Check, arguments.timeout)?;
    let (pid, verdict) = parse_check(&reply).map_err(in_reply(&path))?;
    same_process(&arguments.target, pid)?;
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

fn in_reply(path: &Path) -> impl Fn(ReplyError) -> Error {
    let path = path.display().to_string();
    move |error| Error::Reply { path: path.clone(), error }
}

/// A process may have inherited a socket that its parent listens at. Processes in other namespaces have
/// other numbers there, so they are not compared.
fn same_process(target: &Target, answered: u32) -> Result<(), Error> {
    let Some(asked) = target.pid.filter(|&asked| asked != answered) else { return Ok(()) };
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    if namespace("self") == namespace(&asked.to_string()) {
        return Err(Error::OtherProcess { asked, answered });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_process_is_refused() {
        let own = std::process::id();
        let target = Target { pid: Some(own), socket: None };
        assert!(same_process(&target, own).is_ok());
        let other = same_process(&target, own + 1);
        assert!(matches!(other, Err(Error::OtherProcess { asked, .. }) if asked == own), "{other:?}");
        assert!(same_process(&Target { pid: None, socket: None }, 1).is_ok());
    }
}
