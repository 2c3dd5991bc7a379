//! The heap of another process, asked as often as one likes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use aquifer_status::Question;

use crate::arguments::Target;
use crate::client::Client;
use crate::error::Error;
use crate::events::Events;
use crate::latency::Latency;
use crate::process::socket_of;
use crate::reply::{Checked, ReplyError, Sample, parse_check, parse_events, parse_latency, parse_stats};

/// A heap, by its socket.
pub struct Heap {
    target: Target,
    client: Client,
    patience: Duration,
    /// The process that said that it does not know the question for latency; it is not asked again.
    without_latency: Option<u32>,
}

/// All answers of a heap to one round of questions.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// When it was answered.
    pub taken: Instant,
    /// Its numbers.
    pub sample: Sample,
    /// Its reads from flash, or why they are not known.
    pub latency: Result<Latency, &'static str>,
}

/// Said in place of latencies.
pub const NOT_COUNTED: &str = "this program does not count them";
const SENSELESS: &str = "the answer makes no sense";
const NO_ANSWER: &str = "no answer";

impl Heap {
    /// The heap that `target` names, which gets `patience` for each answer.
    ///
    /// # Errors
    /// [`Error`] if it has no socket that we can find. Whether somebody answers there is not tried.
    pub fn of(target: &Target, patience: Duration) -> Result<Self, Error> {
        let client = Client::new(socket_of(target)?);
        Ok(Self { target: target.clone(), client, patience, without_latency: None })
    }

    /// Its numbers.
    ///
    /// # Errors
    /// [`Error`] if nobody answers, or not with numbers, or not the process that was named.
    pub fn stats(&mut self) -> Result<Sample, Error> {
        let reply = self.client.ask(Question::Stats, self.patience)?;
        let sample = parse_stats(&reply).map_err(|error| self.senseless(error))?;
        same_process(&self.target, sample.pid)?;
        Ok(sample)
    }

    /// What became of slabs and donors of late, and which process says so.
    ///
    /// # Errors
    /// As for [`Heap::stats`]; also for a heap without donors.
    pub fn events(&mut self) -> Result<(u32, Events), Error> {
        let reply = self.client.ask(Question::Events, self.patience)?;
        let (pid, events) = parse_events(&reply).map_err(|error| self.senseless(error))?;
        same_process(&self.target, pid)?;
        Ok((pid, events))
    }

    /// Whether its parts agree, and who waits for long.
    ///
    /// # Errors
    /// As for [`Heap::stats`].
    pub fn check(&mut self) -> Result<Checked, Error> {
        let reply = self.client.ask(Question::Check, self.patience)?;
        let checked = parse_check(&reply).map_err(|error| self.senseless(error))?;
        same_process(&self.target, checked.pid)?;
        Ok(checked)
    }

    /// Its numbers and latencies.
    ///
    /// # Errors
    /// As for [`Heap::stats`]; latencies that are not known are no error.
    pub fn measure(&mut self) -> Result<Measurement, Error> {
        let sample = self.stats()?;
        let taken = Instant::now();
        let latency = self.latency(sample.pid);
        Ok(Measurement { taken, sample, latency })
    }

    fn latency(&mut self, pid: u32) -> Result<Latency, &'static str> {
        if self.without_latency == Some(pid) {
            return Err(NOT_COUNTED);
        }
        let reply = self.client.ask(Question::Latency, self.patience).map_err(|_| NO_ANSWER)?;
        match parse_latency(&reply) {
            Ok((answered, latency)) if answered == pid => Ok(latency),
            Ok(_) | Err(ReplyError::Malformed(_)) => Err(SENSELESS),
            Err(ReplyError::Reported(_)) => {
                self.without_latency = Some(pid);
                Err(NOT_COUNTED)
            }
        }
    }

    fn senseless(&self, error: ReplyError) -> Error {
        Error::Reply { path: self.client.path().display().to_string(), error }
    }
}

/// A process may have inherited a socket that its parent listens at. Processes in other namespaces have
/// other numbers there, so they are not compared.
fn same_process(target: &Target, answered: u32) -> Result<(), Error> {
    let Some(asked) = target.pid.filter(|&asked| asked != answered) else { return Ok(()) };
    let namespace =
        |process: &str| -> Option<PathBuf> { std::fs::read_link(format!("/proc/{process}/ns/pid")).ok() };
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
