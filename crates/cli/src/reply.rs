//! The answer of a socket, taken apart.
//!
//! The command and the library may be of different versions, so numbers are kept by name: those that the
//! library does not send are left out of the table, those that the command does not know are listed at its
//! end.

use std::collections::BTreeMap;

use aquifer_status::Subject;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::borrowed::Borrowed;
use crate::events::Events;
use crate::latency::Latency;

/// What is wrong with an answer.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum ReplyError {
    /// It is not what the library sends.
    #[error(
        "the answer makes no sense ({0}); is this the socket of an Aquifer heap, and are command and library of the same version?"
    )]
    Malformed(String),
    /// The library says that it cannot answer.
    #[error("the program answers: {0}")]
    Reported(String),
}

impl From<serde_json::Error> for ReplyError {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// Numbers by name.
pub type Numbers = BTreeMap<String, u64>;

/// The numbers of a heap or a volume, from one answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Process that answered.
    pub pid: u32,
    /// Version of its library.
    pub version: String,
    /// What the numbers are of.
    #[serde(default)]
    pub subject: Subject,
    /// Its numbers by name.
    pub stats: Numbers,
    /// What it borrows from other machines, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Borrowed>,
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All parts agree.
    InOrder,
    /// The first disagreement.
    Disagreement(String),
}

/// The answer to a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// Which process says so.
    pub pid: u32,
    /// What it found.
    pub verdict: Verdict,
    /// Threads that have waited for memory for ten seconds and more: for what, and who holds it.
    pub waits: Vec<String>,
}

#[derive(Deserialize)]
struct CheckReply {
    pid: u32,
    check: String,
    problem: Option<String>,
    #[serde(default)]
    waits: Vec<String>,
}

#[derive(Deserialize)]
struct LatencyReply {
    pid: u32,
    latency: Latency,
}

#[derive(Deserialize)]
struct EventsReply {
    pid: u32,
    events: Events,
}

fn answer(reply: &[u8]) -> Result<Value, ReplyError> {
    let value: Value = serde_json::from_slice(reply)?;
    match value.get("error") {
        Some(Value::String(error)) => Err(ReplyError::Reported(error.clone())),
        Some(other) => Err(ReplyError::Reported(other.to_string())),
        None => Ok(value),
    }
}

/// The answer to [`aquifer_status::Question::Stats`].
///
/// # Errors
/// [`ReplyError`] if `reply` is not an answer with numbers.
pub fn parse_stats(reply: &[u8]) -> Result<Sample, ReplyError> {
    Ok(serde_json::from_value(answer(reply)?)?)
}

/// The answer to [`aquifer_status::Question::Latency`], and the process that gave it.
///
/// # Errors
/// [`ReplyError`] if `reply` is not an answer with latencies.
pub fn parse_latency(reply: &[u8]) -> Result<(u32, Latency), ReplyError> {
    let LatencyReply { pid, latency } = serde_json::from_value(answer(reply)?)?;
    Ok((pid, latency))
}

/// The answer to [`aquifer_status::Question::Events`], and the process that gave it.
///
/// # Errors
/// [`ReplyError`] if `reply` is not an answer with events.
pub fn parse_events(reply: &[u8]) -> Result<(u32, Events), ReplyError> {
    let EventsReply { pid, events } = serde_json::from_value(answer(reply)?)?;
    Ok((pid, events))
}

/// The answer to [`aquifer_status::Question::Check`].
///
/// # Errors
/// [`ReplyError`] if `reply` is not an answer to a check.
pub fn parse_check(reply: &[u8]) -> Result<Checked, ReplyError> {
    let CheckReply { pid, check, problem, waits } = serde_json::from_value(answer(reply)?)?;
    let verdict = match check.as_str() {
        "ok" => Verdict::InOrder,
        "failed" => Verdict::Disagreement(problem.unwrap_or_else(|| "the program does not say what".into())),
        other => return Err(ReplyError::Malformed(format!("the check ended with '{other}'"))),
    };
    Ok(Checked { pid, verdict, waits })
}
